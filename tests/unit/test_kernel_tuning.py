# SPDX-License-Identifier: Apache-2.0
"""Settings below /sys, PCI access control services, the clock and the journal: at once and at boot, without a reboot (B15)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.module_utils.kernel import JOURNAL_FILE, Kernel, KernelDesired
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_time import CONFIGURATION, MARKER, SOURCES, without_sources
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_tuning import (
    ACS_SCRIPT,
    ACS_SCRIPT_TEXT,
    ACS_UNIT_FILE,
    ACS_WANTED,
    TMPFILES,
    TuningDesired,
)
from fixtures_kernel import CHRONY_CONF, machine

from recorded_host import Package, RecordedHost

CPU = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_{}"
IN_SERVICE = Policy(in_service=True)


def run(host: RecordedHost, desired: KernelDesired, policy: Policy = IN_SERVICE) -> Outcome:
    return execute(Kernel(), host, desired, policy)


def idle(host: RecordedHost, desired: KernelDesired) -> bool:
    outcome = run(host, desired)
    return not (outcome.changes or outcome.deferred)


class TestSys:
    desired = KernelDesired(tuning=TuningDesired("performance", "madvise"))

    def with_cpus(self) -> RecordedHost:
        host = machine()
        for cpu in (0, 1):
            host.files[CPU.format(cpu, "governor")] = "powersave\n"
            host.files[CPU.format(cpu, "available_governors")] = "performance powersave\n"
        return host

    def test_every_cpu_and_the_hugepages_now_and_at_boot(self) -> None:
        host = self.with_cpus()
        run(host, self.desired)
        assert {host.files[CPU.format(cpu, "governor")] for cpu in (0, 1)} == {"performance\n"}
        assert host.files["/sys/kernel/mm/transparent_hugepage/enabled"] == "madvise\n"
        assert host.files[TMPFILES].count("\nw /sys/") == 2
        assert idle(host, self.desired)
        run(host, KernelDesired())
        assert TMPFILES not in host.files

    def test_a_governor_the_cpus_do_not_know(self) -> None:
        outcome = run(self.with_cpus(), KernelDesired(tuning=TuningDesired("ondemand")))
        assert outcome.problems[0].found == "performance, powersave to choose from" and not outcome.changed

    def test_a_host_without_frequencies_is_warned_about(self) -> None:
        outcome = run(machine(), self.desired)
        assert [(p.what, p.severity) for p in outcome.problems] == [("CPU governor", "warning")]


class TestAcs:
    desired = KernelDesired(tuning=TuningDesired(acs_off=True))

    def bridges(self, *, installed: bool = True) -> RecordedHost:
        """Two bridges, as setpci's register shows them once pciutils is there."""
        host = machine()
        state = {"0000:00:01.0": "001d", "0000:40:01.0": "001d"}
        host.repository["pciutils"] = ["1:3.9.0-4"]
        if installed:
            host.packages["pciutils"] = Package("1:3.9.0-4")

        def off(host: RecordedHost, argv: object, stdin: object) -> Result:
            host.changing()
            state.clear()
            return Result(0)

        def listed(host: RecordedHost, argv: object, stdin: object) -> Result:
            assert stdin == ACS_SCRIPT_TEXT
            return Result(0, "".join(f"{a} {c}\n" for a, c in state.items()) if "pciutils" in host.packages else "")

        host.on("sh", listed)
        host.on("disable-acs", off)
        return host

    @pytest.mark.parametrize("installed", [True, False])
    def test_off_now_and_at_boot(self, installed: bool) -> None:
        host = self.bridges(installed=installed)
        run(host, self.desired, Policy())
        assert host.modes[ACS_SCRIPT] == 0o755 and {ACS_UNIT_FILE, ACS_WANTED} <= set(host.files)
        assert idle(host, self.desired)

    def test_a_node_in_service_is_drained_first(self) -> None:
        outcome = run(self.bridges(), self.desired)
        assert [c.what for c in outcome.deferred] == ["PCI access control services"]
        assert outcome.deferred[0].before == "0000:00:01.0 001d, 0000:40:01.0 001d"

    def test_no_longer_wanted_it_is_not_done_at_the_next_boot(self) -> None:
        host = self.bridges()
        run(host, self.desired, Policy())
        run(host, KernelDesired())
        assert not {ACS_SCRIPT, ACS_UNIT_FILE, ACS_WANTED} & set(host.files)
        assert not host.ran("systemctl", "daemon-reload")

    def test_the_script_clears_bridges_alone(self, tmp_path: Path) -> None:
        """The script itself, over a tree of devices and a setpci that notes what it is told."""
        devices = tmp_path / "devices"
        for address, code, control in (("0000:00:01.0", "0x060400", "001d"), ("0000:00:02.0", "0x060400", "0000"),
                                       ("0000:00:03.0", "0x060400", ""), ("0000:01:00.0", "0x030200", "001d")):  # fmt: skip
            (devices / address).mkdir(parents=True)
            (devices / address / "class").write_text(f"{code}\n")
            (devices / address / "acs").write_text(control)
        setpci = tmp_path / "setpci"
        setpci.write_text(
            f'#!/bin/sh\ncase "$3" in *=*) echo "$2 $3" >>{tmp_path}/told ;;\n'
            f'*) control=$(cat {devices}/"$2"/acs); [ -n "$control" ] && echo "$control" ;; esac\n'
        )
        setpci.chmod(0o755)
        text = ACS_SCRIPT_TEXT.replace("/sys/bus/pci/devices", str(devices))

        def script(*arguments: str) -> str:
            command = ["sh", "-s", "--", *arguments]
            environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
            return subprocess.run(command, input=text, env=environment, check=True, capture_output=True, text=True).stdout

        assert script("--list") == "0000:00:01.0 001d\n" and not (tmp_path / "told").exists()
        script()
        assert (tmp_path / "told").read_text() == "0000:00:01.0 ECAP_ACS+6.w=0000\n"


class TestClock:
    desired = KernelDesired(time_servers=("ntp1.example.com", "fd00::1"))

    def test_b15_a_host_without_a_time_service_gets_one_with_the_sites_servers_alone(self) -> None:
        host = machine()
        outcome = run(host, self.desired)
        assert not outcome.deferred and not host.ran("systemctl", "daemon-reload")
        assert host.files[SOURCES].splitlines()[1:] == ["server ntp1.example.com iburst", "server fd00::1 iburst"]
        assert f"{MARKER}pool 2.debian.pool.ntp.org iburst\n" in host.files[CONFIGURATION]
        assert host.services["chrony"] == "active"
        assert idle(host, self.desired)

    def test_no_servers_no_chrony(self) -> None:
        host = machine()
        assert idle(host, KernelDesired()) and "chrony" not in host.packages and not host.ran("systemctl")

    def test_a_stopped_or_disabled_chrony_is_started(self) -> None:
        host = machine()
        run(host, self.desired)
        host.services["chrony"] = "inactive"
        host.remove("/etc/systemd/system/multi-user.target.wants/chrony.service")
        assert [c.what for c in run(host, self.desired).changes] == ["service chrony at boot", "service chrony"]
        assert host.services["chrony"] == "active"

    def test_a_chrony_that_does_not_come_up_fails(self) -> None:
        host = machine()
        host.broken_restarts.add("chrony")
        with pytest.raises(BedplateError, match="service chrony: found failed"):
            run(host, self.desired)

    def test_servers_changed_on_a_node_in_service_restart_chrony_once(self) -> None:
        host = machine()
        run(host, self.desired)
        run(host, KernelDesired(time_servers=("ntp2.example.com",)))
        assert len(host.ran("systemctl", "restart", "chrony")) == 2

    def test_the_rest_of_the_configuration_stays(self) -> None:
        text = without_sources(CHRONY_CONF + "server x iburst\nserverx\n#pool y\n")
        assert text.count(MARKER) == 2 and without_sources(text) == text
        assert text.replace(MARKER, "") == CHRONY_CONF + "server x iburst\nserverx\n#pool y\n"


def test_the_journals_size_takes_effect_at_once() -> None:
    host, desired = machine(), KernelDesired(journal_max_size="2G")
    run(host, desired)
    assert host.files[JOURNAL_FILE].endswith("[Journal]\nSystemMaxUse=2G\n")
    assert host.ran("systemctl", "restart", "systemd-journald") and idle(host, desired)
