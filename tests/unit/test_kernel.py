# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.fstab import MARKER, without_swap
from ansible_collections.bedplate.metal.plugins.module_utils.kernel import (
    MODULES_FILE,
    NEEDRESTART_FILE,
    OUR_FILES,
    SYSCTL_FILE,
    UNATTENDED_FILE,
    Kernel,
    KernelDesired,
)
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_state import normal, parse_swaps, sysctl_path
from ansible_collections.bedplate.metal.plugins.modules.kernel import ARGUMENT_SPEC, build_desired
from fixtures_host import BRIDGE, FORWARD, FSTAB, debian, kernel_desired, kernel_host, swapping

from recorded_host import RecordedHost


def run(host: RecordedHost, desired: KernelDesired, check: bool = False) -> Outcome:
    return execute(Kernel(), host, desired, Policy(check=check))


def reboot(host: RecordedHost) -> None:
    """Forget what a reboot forgets, then do what systemd does at boot."""
    for path in [p for p in host.files if p.startswith(("/proc/sys/net/bridge", "/sys/module/"))]:
        del host.files[path]
    host.files[FORWARD] = "0\n"
    for module in host.files.get(MODULES_FILE, "").splitlines():
        if not module.startswith("#") and module in host.modules:
            host.run(["modprobe", module])
    for line in host.files.get(SYSCTL_FILE, "").splitlines():
        if "=" in line:
            key, value = line.split(" = ")
            host.run(["tee", sysctl_path(key)], stdin=value)


class TestSwap:
    def test_b7_off_now_and_after_reboot_with_comments_kept(self) -> None:
        host = swapping()
        run(host, KernelDesired())
        assert parse_swaps(host.files["/proc/swaps"]) == ()
        before, after = FSTAB.splitlines(), host.files["/etc/fstab"].splitlines()
        assert after[3:5] == [MARKER + before[3], MARKER + before[4]]
        assert after[:3] + after[5:] == before[:3] + before[5:]
        assert not run(host, KernelDesired()).changed

    def test_b7_what_would_bring_swap_back_is_disabled_without_a_daemon_reload(self) -> None:
        host = swapping()
        run(host, KernelDesired())
        assert ["systemctl", "disable", "--no-reload", "zramswap.service"] in host.commands
        assert ["systemctl", "mask", "--no-reload", "dev-vda3.swap"] in host.commands
        assert not host.ran("systemctl", "daemon-reload")

    def test_keep_leaves_everything(self) -> None:
        host = swapping()
        assert not run(host, KernelDesired(swap="keep")).changed
        assert host.files["/etc/fstab"] == FSTAB

    def test_a_fstab_without_a_last_newline_and_with_octal_blanks(self) -> None:
        assert without_swap("/a none swap sw") == MARKER + "/a none swap sw"
        assert parse_swaps("Filename\n/my\\040swap file 8 4 -2\n")[0].path == "/my swap"

    def test_too_little_memory_is_a_problem_and_changes_nothing(self) -> None:
        host = swapping()
        host.files["/proc/swaps"] = host.files["/proc/swaps"].replace("2097148\t\t0", "9999999\t\t9000000")
        outcome = run(host, KernelDesired())
        assert outcome.problems[0].what == "swap" and not outcome.changed
        assert host.files["/etc/fstab"] == FSTAB


class TestModulesAndSysctl:
    desired = KernelDesired(
        modules=("br_netfilter",), sysctl={"net.bridge.bridge-nf-call-iptables": "1", "net.ipv4.ip_forward": "1"}
    )

    def test_b9_load_persist_then_sysctl_and_right_after_a_reboot(self) -> None:
        host = debian()
        host.modules["br_netfilter"] = {BRIDGE: "0\n"}
        outcome = run(host, self.desired)
        order = [c.what for c in outcome.changes]
        assert (
            order.index("module br_netfilter") < order.index(f"file {MODULES_FILE}") < order.index("sysctl net.ipv4.ip_forward")
        )
        reboot(host)
        assert host.files[BRIDGE].strip() == "1" and host.files[FORWARD].strip() == "1"
        assert not run(host, self.desired).changed

    def test_b9_the_file_is_read_after_every_other_at_boot(self) -> None:
        """systemd-sysctl reads /etc/sysctl.d in the order of names, and /etc/sysctl.conf as 99-sysctl.conf."""
        assert SYSCTL_FILE > "/etc/sysctl.d/99-sysctl.conf"

    @pytest.mark.parametrize(
        "trace",
        [
            {"/sys/module/br_netfilter/refcnt": "0"},
            {"/lib/modules/6.1.0/modules.builtin": "kernel/net/bridge/br_netfilter.ko\n"},
            {BRIDGE: "1\n"},
        ],
    )
    def test_b9_a_built_in_module_counts_as_loaded(self, trace: dict[str, str]) -> None:
        host = debian(**trace)
        del host.files["/usr/sbin/modprobe"]
        outcome = run(host, KernelDesired(modules=("br_netfilter", "overlay")))
        assert [c.what for c in outcome.changes] == [f"file {MODULES_FILE}"]
        assert not host.ran("modprobe")

    def test_no_modprobe_and_no_module_is_a_problem_for_each(self) -> None:
        host = debian()
        del host.files["/usr/sbin/modprobe"]
        outcome = run(host, KernelDesired(modules=("br_netfilter", "rdma_rxe")))
        assert [p.what for p in outcome.problems] == ["kernel module br_netfilter", "kernel module rdma_rxe"]
        assert MODULES_FILE not in host.files

    def test_a_module_that_cannot_be_loaded_names_the_kernel(self) -> None:
        with pytest.raises(BedplateError, match=r"kernel module rdma_rxe: found it not loadable for kernel 6\.1\.0"):
            run(debian(), KernelDesired(modules=("rdma_rxe",)))

    def test_an_unknown_sysctl_names_the_key(self) -> None:
        with pytest.raises(BedplateError, match=r"sysctl net\.nothing: found it refused .*No such file"):
            run(debian(), KernelDesired(sysctl={"net.nothing": "1"}))

    def test_values_differ_by_content_not_by_blanks(self) -> None:
        host = debian(**{"/proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n"})
        run(host, KernelDesired(sysctl={"net.ipv4.ip_local_port_range": "32768 60999"}))
        assert not host.ran("tee")

    def test_keys_are_read_as_sysctl_d_reads_them(self) -> None:
        assert sysctl_path("net.ipv4.conf.eth0/100.rp_filter") == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
        assert sysctl_path("net/ipv4/conf/eth0.100/rp_filter") == "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"
        assert (normal(True), normal(" 1\t2 "), normal(10)) == ("1", "1 2", "10")


class TestFiles:
    def test_automatic_upgrades_and_restarts_are_held(self) -> None:
        host = debian()
        run(host, KernelDesired(hold_unattended=("kube", "containerd")))
        assert '    "containerd";\n' in host.files[UNATTENDED_FILE]
        assert "$nrconf{override_rc}{qr(^kube)} = 0;" in host.files[NEEDRESTART_FILE]

    def test_files_no_longer_wanted_are_removed(self) -> None:
        host = kernel_host()
        run(host, kernel_desired())
        assert all(p in host.files for p in OUR_FILES)
        run(host, KernelDesired())
        assert not [p for p in OUR_FILES if p in host.files]

    def test_check_mode_predicts_the_run_and_changes_nothing(self) -> None:
        host = kernel_host()
        before = host.snapshot()
        predicted = run(host, kernel_desired(), check=True)
        assert host.snapshot() == before
        assert [c.public() for c in run(host, kernel_desired()).changes] == [c.public() for c in predicted.changes]
        assert not run(host, kernel_desired(), check=True).changed

    def test_a_full_disk_says_so(self) -> None:
        host = debian()
        host.full = True
        with pytest.raises(BedplateError, match=r"cannot be written: No space left on device"):
            run(host, KernelDesired(modules=("overlay",)))

    def test_names_that_would_break_a_file_are_refused(self) -> None:
        empty = {name: option["default"] for name, option in ARGUMENT_SPEC.items()}
        with pytest.raises(ValueError, match=r"kernel\.modules 'a b'"):
            build_desired({**empty, "modules": ["a b"]})
        with pytest.raises(ValueError, match=r"kernel\.command_line 'root=/dev/sda1'"):
            build_desired({**empty, "command_line": ["root=/dev/sda1"]})
