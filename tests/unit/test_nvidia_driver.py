# SPDX-License-Identifier: Apache-2.0
"""The driver on recorded hosts: what is installed, what waits for a reboot, what is refused before the old driver is touched."""

from __future__ import annotations

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import REBOOT, UNKNOWN, Policy
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_boot import MODULES_FILE, NOUVEAU_FILE
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_plan import MODULE
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_probe import LOADED
from fixtures_gpu import refused, run_driver, with_driver
from simulated_gpu import BUILT, KERNEL, L40S, NEW, NEXT_KERNEL, OLD, Machine, gpu_host, h100, load

from recorded_host import Package, RecordedHost

FABRIC = "nvidia-fabricmanager"
IN_SERVICE = Policy(in_service=True)
DRAINED = Policy(allow=frozenset({"drain", REBOOT}))


def installs(host: RecordedHost) -> list[list[str]]:
    return [c for c in host.commands if c[0] == "apt-get" and "install" in c]


class TestFresh:
    def test_one_transaction_every_library_exact_and_held_then_loaded(self) -> None:
        host = gpu_host(h100())
        outcome = run_driver(host)
        assert outcome.observed.state.loaded == NEW and outcome.observed.judged.findings == []
        for name in (
            "nvidia-kernel-open-dkms",
            "libnvidia-ml1",
            "libcuda1",
            "nvidia-driver-cuda",
            f"nvidia-driver-pinning-{NEW}",
        ):
            assert host.packages[name].version == f"{NEW}-1" and host.packages[name].held
        assert len([c for c in installs(host) if "libcuda1=580.126.09-1" in c]) == 1
        assert host.services["nvidia-persistenced"] == "active"
        assert not run_driver(host).changed

    def test_nouveau_is_kept_away_before_the_driver_comes_and_the_initramfs_made_again(self) -> None:
        host = gpu_host(h100())
        run_driver(host)
        assert "blacklist nouveau" in host.files[NOUVEAU_FILE]
        assert len(host.ran("/usr/sbin/update-initramfs")) == 1

    def test_a_loaded_nouveau_waits_for_a_reboot(self) -> None:
        host = gpu_host(h100())
        host.files["/sys/module/nouveau/refcnt"] = "0"
        outcome = run_driver(host)
        assert {c.what for c in outcome.deferred} == {MODULE, "service nvidia-persistenced", "fabric manager"}
        assert host.packages["nvidia-kernel-open-dkms"].version == f"{NEW}-1" and LOADED not in host.files

    def test_check_mode_predicts_also_where_no_repository_is_known_yet(self) -> None:
        host = gpu_host(h100())
        host.repository.clear()
        outcome = run_driver(host, Policy(check=True))
        assert not outcome.problems and not installs(host)
        predicted = {c.what: c.after for c in outcome.changes}
        assert predicted["package nvidia-kernel-open-dkms"] == f"{NEW}-1" and predicted["fabric manager"] == UNKNOWN

    def test_ubuntu_packages_carry_the_branch(self) -> None:
        host = gpu_host(h100(), distribution="ubuntu-24.04")
        run_driver(host)
        assert host.packages["nvidia-dkms-580-open"].version == f"{NEW}-1ubuntu1"
        assert host.packages["libnvidia-compute-580"].held and host.packages[FABRIC].version == f"{NEW}-1"

    def test_another_distribution_is_refused(self) -> None:
        host = gpu_host(h100())
        host.files["/etc/os-release"] = 'ID=rocky\nVERSION_ID="9.4"\n'
        assert "rocky-9.4" in refused(host)

    def test_modules_for_rdma_are_loaded_now_and_at_boot_and_dropped_when_not_wanted(self) -> None:
        host = gpu_host(h100())
        run_driver(host, gpudirect="peermem")
        assert "nvidia-peermem" in host.files[MODULES_FILE] and "/sys/module/nvidia_peermem/refcnt" in host.files
        run_driver(host)
        assert MODULES_FILE not in host.files


class TestC18LoadedAndInstalledDiffer:
    def host(self) -> RecordedHost:
        machine = h100()
        host = gpu_host(machine, ("550.90.07", "550.107.02"), "ubuntu-22.04")
        run_driver(host, version="550.107.02", accelerators=["h100-80gb"])
        load(host, machine, "550.90.07")
        host.packages["libnvidia-compute-550"].held = False
        host.commands.clear()
        return host

    def test_reboot_required_with_both_versions_nothing_reinstalled_and_held_after(self) -> None:
        host = self.host()
        outcome = run_driver(host, IN_SERVICE, version="550.107.02")
        assert not installs(host)
        assert [c.what for c in outcome.changes] == ["package libnvidia-compute-550 held"]
        assert host.packages["libnvidia-compute-550"].held
        (waiting,) = outcome.deferred
        assert (waiting.before, waiting.after) == ("550.90.07 (open)", "550.107.02 (open)") and REBOOT in waiting.effects
        (warning,) = outcome.problems
        assert warning.what == "reboot required" and "550.90.07" in warning.found and "550.107.02" in warning.wanted

    def test_the_gpus_are_out_of_service_until_then(self) -> None:
        findings = run_driver(self.host(), IN_SERVICE, version="550.107.02").observed.judged.findings
        assert [f.what for f in findings] == ["GPU driver"] and "550.90.07" in findings[0].found

    def test_with_permission_the_playbook_is_told_to_reboot(self) -> None:
        assert run_driver(self.host(), DRAINED, version="550.107.02").reboot


class TestUpgrade:
    def test_in_service_nothing_is_touched_and_all_of_it_waits_for_the_drain(self) -> None:
        host = with_driver(h100())
        before = host.snapshot()
        outcome = run_driver(host, IN_SERVICE)
        assert host.snapshot() == before and not outcome.changed
        waiting = {c.what: c for c in outcome.deferred}
        assert waiting["package libcuda1"].effects == {"drain", REBOOT} and waiting[MODULE].effects == {"drain", REBOOT}

    def test_without_the_permission_to_reboot_a_drained_node_keeps_its_working_driver(self) -> None:
        host = with_driver(h100())
        outcome = run_driver(host, Policy(allow=frozenset({"drain"})))
        assert not outcome.changed and outcome.observed.state.probe.state == "ok"

    def test_on_a_drained_node_packages_change_together_and_the_old_module_stays_loaded(self) -> None:
        host = with_driver(h100())
        outcome = run_driver(host, DRAINED)
        assert outcome.reboot and outcome.observed.state.loaded == OLD
        assert outcome.observed.state.probe.state == "mismatch"
        versions = {p.version for n, p in host.packages.items() if "nvidia" in n}
        assert versions == {f"{NEW}-1"}
        assert f"nvidia-driver-pinning-{OLD}" not in host.packages

    def test_after_the_reboot_all_is_well_and_a_second_run_does_nothing(self) -> None:
        machine = h100()
        host = with_driver(machine)
        run_driver(host, DRAINED)
        load(host, machine, NEW)
        outcome = run_driver(host, IN_SERVICE)
        assert not outcome.changed and not outcome.deferred and outcome.observed.judged.findings == []

    def test_an_older_driver_only_by_permission(self) -> None:
        host = with_driver(h100(), NEW)
        assert "allow_downgrade" in refused(host, version=OLD)
        run_driver(host, DRAINED, version=OLD, allow_downgrade=True)
        assert host.packages["libcuda1"].version == f"{OLD}-1"

    def test_the_other_kind_of_modules_replaces_the_first(self) -> None:
        host = with_driver(h100())
        outcome = run_driver(host, DRAINED, version=OLD, modules="proprietary")
        assert "nvidia-kernel-open-dkms" not in host.packages and host.packages["nvidia-kernel-dkms"].held
        assert outcome.reboot


class TestB16Kernels:
    def test_a_newer_kernel_gets_headers_and_a_module_before_it_boots(self) -> None:
        host = with_driver(h100())
        host.files[f"/boot/vmlinuz-{NEXT_KERNEL}"] = ""
        outcome = run_driver(host, IN_SERVICE, version=OLD)
        assert f"package linux-headers-{NEXT_KERNEL}" in {c.what for c in outcome.changes}
        assert host.files[BUILT.format(NEXT_KERNEL)] == OLD
        assert not run_driver(host, IN_SERVICE, version=OLD).changed

    def test_headers_without_a_module_are_compiled_for(self) -> None:
        host = with_driver(h100())
        host.files[f"/boot/vmlinuz-{NEXT_KERNEL}"] = ""
        host.files[f"/lib/modules/{NEXT_KERNEL}/build/Makefile"] = ""
        run_driver(host, IN_SERVICE, version=OLD)
        assert host.ran("dkms", "autoinstall", "-k", NEXT_KERNEL) and host.files[BUILT.format(NEXT_KERNEL)] == OLD

    def test_the_reboot_into_a_kernel_without_headers_anywhere_is_refused(self) -> None:
        host = with_driver(h100())
        host.files["/boot/vmlinuz-6.12.0-1-amd64"] = ""
        assert "linux-headers-6.12.0-1-amd64" in refused(host, DRAINED, version=OLD)

    def test_packages_that_bring_modules_need_no_headers(self) -> None:
        host = gpu_host(h100())
        host.files[BUILT.format(KERNEL)] = NEW
        run_driver(host, kernel_headers=False)
        assert not [n for n in host.packages if n.startswith("linux-headers")]

    def test_only_modules_for_a_named_kernel(self) -> None:
        host = gpu_host(h100())
        run_driver(host, kernels=[NEXT_KERNEL], userspace=False, load=False, persistence=False)
        assert host.files[BUILT.format(NEXT_KERNEL)] == NEW and LOADED not in host.files
        assert "libcuda1" not in host.packages and f"linux-headers-{KERNEL}" not in host.packages


class TestC20FabricManager:
    def test_switches_present_started_at_exactly_the_drivers_version(self) -> None:
        host = gpu_host(h100())
        run_driver(host)
        assert host.packages[FABRIC].version == f"{NEW}-1" and host.packages[FABRIC].held
        assert host.services[FABRIC] == "active"

    @pytest.mark.parametrize("directory", ["missing", "empty"])
    def test_switches_missing_or_empty_skipped(self, directory: str) -> None:
        machine = Machine([("0000:1b:00.0", *L40S)])
        host = gpu_host(machine)
        if directory == "empty":
            host.files["/proc/driver/nvidia-nvswitch/permissions"] = ""
        outcome = run_driver(host, accelerators=["l40s-48gb"])
        assert FABRIC not in host.packages and FABRIC not in host.services
        assert outcome.observed.state.switches == 0 and not run_driver(host, accelerators=["l40s-48gb"]).changed

    def test_b200_gets_the_subnet_manager_and_ib_umad_without_visible_switches(self) -> None:
        host = gpu_host(Machine([("0000:1b:00.0", "NVIDIA B200", 183359)]))
        run_driver(host, accelerators=["b200-180gb"], nvlsm=True, nvlsm_version="2025.06.10-1")
        assert host.packages["nvlsm"].version == "2025.06.10-1" and "ib_umad" in host.files[MODULES_FILE]
        assert host.services[FABRIC] == "active"

    def test_one_that_does_not_start_says_why(self) -> None:
        host = gpu_host(h100())
        host.broken_restarts.add(FABRIC)
        with pytest.raises(BedplateError, match=f"service {FABRIC}: found failed after a start"):
            run_driver(host)


class TestProbes:
    def test_c27_a_hung_nvidia_smi_is_a_finding_not_a_failure(self) -> None:
        machine = h100()
        host = with_driver(machine)
        machine.hung = True
        outcome = run_driver(host, IN_SERVICE, version=OLD)
        assert outcome.observed.state.probe.state == "wedged" and not outcome.changed
        assert outcome.problems[0].severity == "warning" and "12 s" in outcome.problems[0].found

    def test_c27_its_time_limit_is_paid_once_though_the_host_is_looked_at_again(self) -> None:
        machine = h100()
        host = with_driver(machine)
        machine.hung = True
        host.packages["libcuda1"].held = False
        host.services["nvidia-persistenced"] = "inactive"
        assert [c.what for c in run_driver(host, IN_SERVICE, version=OLD).changes] == ["package libcuda1 held"]
        assert len(host.ran("nvidia-smi")) == 1 and not host.ran("systemctl", "start")

    def test_a_healthy_host_asks_nvidia_smi_once(self) -> None:
        host = with_driver(h100())
        assert not run_driver(host, IN_SERVICE, version=OLD).changed
        assert len(host.ran("nvidia-smi")) == 1 and not host.ran("apt-cache") and not host.ran("systemctl", "daemon-reload")

    def test_c25_a_lost_gpu_is_named_by_its_address(self) -> None:
        machine = h100()
        host = with_driver(machine)
        machine.lost.add("0000:9d:00.0")
        outcome = run_driver(host, IN_SERVICE, version=OLD, expected={"count": 8})
        assert outcome.observed.judged.missing == ("0000:9d:00.0",)
        assert any("7 (" in f.found and "0000:9d:00.0" in f.found for f in outcome.observed.judged.findings)


def test_a_package_installed_by_hand_at_the_right_version_is_only_held() -> None:
    host = with_driver(h100())
    host.packages["libcuda1"] = Package(f"{OLD}-1")
    outcome = run_driver(host, IN_SERVICE, version=OLD)
    assert [c.what for c in outcome.changes] == ["package libcuda1 held"]
