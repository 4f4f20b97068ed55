# SPDX-License-Identifier: Apache-2.0
"""What a boot decides: command line, kernel, blacklist; each with the reboot it needs and none after (B14, B16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.module_utils.kernel import Kernel, KernelDesired
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_blacklist import BLACKLIST_FILE
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_command_line import (
    GRUB_CFG,
    GRUB_FILE,
    first_entry,
    render,
    satisfied,
    words,
)
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_image import ImageDesired, header_package
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_parameters import check_parameters
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_reboot import REQUIRED, reasons
from fixtures_host import debian
from fixtures_kernel import (
    ALLOWED,
    NEW,
    NEW_VERSION,
    OLD,
    OLD_VERSION,
    everything,
    everything_host,
    grub_variables,
    install_kernel,
    machine,
    reboot,
    with_dkms,
)

from recorded_host import Package, RecordedHost

IOMMU = KernelDesired(command_line=("iommu=pt",))
UPGRADE = KernelDesired(image=ImageDesired("linux-image-amd64", NEW_VERSION))


def run(host: RecordedHost, desired: KernelDesired, policy: Policy = ALLOWED) -> Outcome:
    return execute(Kernel(), host, desired, policy)


def idle(host: RecordedHost, desired: KernelDesired) -> bool:
    outcome = run(host, desired)
    return not (outcome.changes or outcome.deferred or outcome.problems)


class TestCommandLine:
    def test_b14_console_kept_one_value_one_reboot_none_after(self) -> None:
        host = machine()
        outcome = run(host, IOMMU)
        assert outcome.reboot
        assert reasons(outcome) == ["kernel command line: found iommu=on, wanted iommu=pt"]
        reboot(host)
        booted = words(host.files["/proc/cmdline"])
        assert [w for w in booted if w.startswith("iommu")] == ["iommu=pt"]
        assert [w for w in booted if w.startswith("console")] == ["console=tty0", "console=ttyS0"]
        assert {"quiet", "ro", "root=UUID=1234-abcd"} <= set(booted)
        assert idle(host, IOMMU)

    def test_b14_without_leave_to_reboot_nothing_is_written_and_the_reason_is_known(self) -> None:
        host = machine()
        before = host.snapshot()
        for policy in (Policy(), Policy(in_service=True, allow=frozenset({"reboot"}))):
            outcome = run(host, IOMMU, policy)
            assert not outcome.changed and not outcome.reboot and reasons(outcome)
        assert host.snapshot() == before

    def test_a_run_killed_before_update_grub_runs_it_the_next_time(self) -> None:
        host = machine()
        run(host, IOMMU)
        reboot(host)
        host.files[GRUB_CFG] = host.files[GRUB_CFG].replace("iommu=pt", "iommu=on")
        assert [c.what for c in run(host, IOMMU).changes] == [f"file {GRUB_CFG}"]
        assert "iommu=pt" in host.files[GRUB_CFG]

    def test_a_parameter_that_is_no_longer_wanted_goes_and_the_hosts_own_comes_back(self) -> None:
        host = machine()
        run(host, IOMMU)
        reboot(host)
        outcome = run(host, KernelDesired())
        assert outcome.reboot and GRUB_FILE not in host.files
        reboot(host)
        assert "iommu=on" in words(host.files["/proc/cmdline"])
        assert idle(host, KernelDesired())

    def test_a_command_line_that_is_right_already_needs_no_reboot(self) -> None:
        host = machine()
        desired = KernelDesired(command_line=("iommu=on", "console=ttyS0"))
        outcome = run(host, desired, Policy(in_service=True))
        assert outcome.changed and not outcome.deferred and idle(host, desired)

    def test_a_file_read_after_ours_that_wins_is_an_error_and_no_second_change(self) -> None:
        host = machine()
        host.on("update-grub", lambda host, argv, stdin: Result(0))
        with pytest.raises(BedplateError, match=r"grub\.cfg: found 'iommu=on', wanted 'iommu=pt'"):
            run(host, IOMMU)

    @pytest.mark.parametrize("cmdline", ["quiet iommu=on", "quiet"])
    def test_a_host_without_grub_has_a_problem_only_with_what_it_lacks(self, cmdline: str) -> None:
        host = debian(**{"/proc/cmdline": cmdline + "\n"})
        assert idle(host, KernelDesired())
        outcome = run(host, IOMMU)
        assert outcome.problems[0].what == "kernel command line" and not outcome.changed
        host.files["/proc/cmdline"] = "quiet iommu=pt\n"
        assert not run(host, IOMMU).problems

    @pytest.mark.parametrize(
        ("wanted", "found", "result"),
        [
            (["iommu=pt"], ("iommu=on quiet", "splash iommu=off"), "quiet iommu=pt splash"),
            (["intel_iommu=on"], ("intel-iommu=off", ""), "intel_iommu=on "),
            (["nosmt"], ("nosmt=force x=1", "nosmt"), "x=1 nosmt "),
            (["console=ttyS1,115200"], ("console=tty0 console=ttyS1,115200", ""), "console=tty0 console=ttyS1,115200 "),
            (["hugepagesz=1G", "hugepages=4", "hugepagesz=2M", "hugepages=8"], ("hugepages=99", ""), None),
            (["iommu=pt"], ("dyndbg=*.c /etc/* iommu.strict=1", ""), "dyndbg=*.c /etc/* iommu.strict=1 iommu=pt "),
        ],
    )
    def test_a_real_shell_merges(self, wanted: list[str], found: tuple[str, str], result: str | None) -> None:
        files = f"GRUB_CMDLINE_LINUX='{found[0]}'\nGRUB_CMDLINE_LINUX_DEFAULT='{found[1]}'"
        assert grub_variables(files, render(wanted)) == (" ".join(wanted) + " " if result is None else result)
        once = grub_variables(files, render(wanted), render(wanted))
        assert satisfied(words(once), wanted)

    def test_grubs_variables_may_be_unset(self) -> None:
        assert grub_variables("set -u", render(["iommu=pt"])) == "iommu=pt "

    def test_the_first_entry_is_that_of_10_linux(self) -> None:
        text = "linux /boot/memtest86+x64.bin\n### BEGIN /etc/grub.d/10_linux ###\n"
        text += (
            "\t linux\t/vmlinuz-6.1.0-18-amd64 root=/dev/sda1 ro  quiet\n### END /etc/grub.d/10_linux ###\nlinux /vmlinuz-own own"
        )
        assert first_entry(text) == ("root=/dev/sda1", "ro", "quiet")
        assert first_entry("linux /vmlinuz root=LABEL=x ro\n") == ("root=LABEL=x", "ro")
        assert first_entry("") is None

    def test_quoted_values_are_one_word(self) -> None:
        assert words('a="b c" d') == ('a="b c"', "d")

    @pytest.mark.parametrize(
        "wanted", [["root=/dev/sda1"], ["init=/bin/sh"], ["a b"], ["a=$(id)"], ["a=b;c"], ["iommu=pt", "iommu=on"]]
    )
    def test_parameters_that_may_not_be_declared(self, wanted: Sequence[str]) -> None:
        with pytest.raises(ValueError, match=r"kernel\.command_line"):
            check_parameters(wanted)
        check_parameters(
            ["console=tty0", "console=ttyS0,115200n8", "isolcpus=managed_irq,domain,2-10", "hugepages=4", "hugepages=8"]
        )


class TestImage:
    def test_a_version_is_installed_held_and_booted(self) -> None:
        host = machine()
        outcome = run(host, UPGRADE)
        assert outcome.reboot and host.packages["linux-image-amd64"] == Package(NEW_VERSION, held=True)
        assert not [n for n in host.packages if "headers" in n], "nothing is compiled here"
        reboot(host)
        assert host.files["/proc/sys/kernel/osrelease"] == f"{NEW}\n" and idle(host, UPGRADE)

    def test_in_service_or_without_leave_it_waits(self) -> None:
        host = machine()
        outcome = run(host, UPGRADE, Policy())
        assert [c.what for c in outcome.deferred] == ["package linux-image-amd64", "running kernel"]
        assert host.packages["linux-image-amd64"].version == OLD_VERSION

    def test_the_version_alone_means_the_package_that_is_installed(self) -> None:
        host = machine()
        assert run(host, KernelDesired(image=ImageDesired(version=NEW_VERSION))).reboot
        del host.packages["linux-image-amd64"]
        outcome = run(host, KernelDesired(image=ImageDesired(version=NEW_VERSION)))
        assert outcome.problems[0].what == "kernel package"

    def test_an_older_version_is_refused(self) -> None:
        host = machine()
        host.packages["linux-image-amd64"].version = NEW_VERSION
        outcome = run(host, KernelDesired(image=ImageDesired("linux-image-amd64", OLD_VERSION)))
        assert (outcome.problems[0].found, outcome.problems[0].wanted) == (NEW_VERSION, OLD_VERSION)

    def test_a_newer_kernel_that_would_boot_in_its_place_is_a_problem(self) -> None:
        host = machine()
        host.files.update(install_kernel(NEW))
        outcome = run(host, KernelDesired(image=ImageDesired(f"linux-image-{OLD}", OLD_VERSION)))
        assert f"{NEW} to boot next" in outcome.problems[0].found and not outcome.changed

    def test_b16_headers_and_modules_come_with_the_kernel(self) -> None:
        host = with_dkms(machine())
        outcome = run(host, UPGRADE)
        assert outcome.reboot and host.packages["linux-headers-amd64"].version == NEW_VERSION
        assert host.exists(f"/var/lib/dkms/demo/kernel-{NEW}-x86_64")
        reboot(host)
        assert idle(host, UPGRADE)

    def test_b16_a_newer_kernel_without_headers_gets_them_and_its_modules_before_the_reboot(self) -> None:
        host = with_dkms(machine())
        host.files.update(install_kernel(NEW))
        host.repository[f"linux-headers-{NEW}"] = [NEW_VERSION]
        host.installs[f"linux-headers-{NEW}"] = lambda h: h.files.update({f"/lib/modules/{NEW}/build/Makefile": ""})
        outcome = run(host, KernelDesired(), Policy(in_service=True))
        assert [c.what for c in outcome.deferred] == ["running kernel"]
        assert host.exists(f"/var/lib/dkms/demo/kernel-{NEW}-x86_64"), "ready before anybody reboots"
        assert run(host, KernelDesired()).reboot

    def test_b16_headers_that_no_repository_has_refuse_the_reboot(self) -> None:
        host = with_dkms(machine())
        host.files.update(install_kernel(NEW))
        with pytest.raises(BedplateError, match=rf"package linux-headers-{NEW}: found no such package"):
            run(host, KernelDesired())

    def test_b16_a_module_that_does_not_compile_refuses_the_reboot(self) -> None:
        host = with_dkms(machine())
        host.files.update({**install_kernel(NEW), f"/lib/modules/{NEW}/build/Makefile": ""})
        host.on("dkms", lambda host, argv, stdin: Result(10, "", "Error! Bad return status for module build\n"))
        with pytest.raises(BedplateError, match=rf"demo/1\.0: found none for kernel {NEW}(.|\n)*Bad return(.|\n)*not rebooted"):
            run(host, KernelDesired())

    def test_modules_that_dkms_does_not_compile_by_itself_do_not_count(self) -> None:
        host = with_dkms(machine())
        host.files["/var/lib/dkms/demo/1.0/source/dkms.conf"] = "# AUTOINSTALL=yes\n"
        host.files.update(install_kernel(NEW))
        assert [c.what for c in run(host, KernelDesired()).changes] == ["running kernel"]

    @pytest.mark.parametrize("name", ["linux-image-6.8.0-60-generic", "linux-image-unsigned-6.8.0-60-generic"])
    def test_headers_of_ubuntus_images(self, name: str) -> None:
        assert header_package(name) == "linux-headers-6.8.0-60-generic"

    def test_a_container_has_no_kernel_of_its_own(self) -> None:
        host = debian()
        assert not run(host, KernelDesired()).changes and not host.ran("dpkg-query")


class TestBlacklist:
    desired = KernelDesired(blacklist=("nouveau",))

    def test_the_initramfs_is_made_again_once_and_a_loaded_module_needs_a_reboot(self) -> None:
        host = machine()
        host.files["/sys/module/nouveau/refcnt"] = "1"
        assert not run(host, self.desired, Policy()).changed
        assert run(host, self.desired).reboot
        assert "blacklist nouveau" in host.files[f"/boot/initrd.img-{OLD}"]
        reboot(host)
        assert idle(host, self.desired) and len(host.ran("/usr/sbin/update-initramfs")) == 1

    def test_a_module_that_is_not_loaded_is_kept_away_without_a_reboot(self) -> None:
        host = machine()
        assert not run(host, self.desired, Policy(in_service=True)).deferred
        run(host, KernelDesired())
        assert BLACKLIST_FILE not in host.files and host.files[f"/boot/initrd.img-{OLD}"] == ""
        assert idle(host, KernelDesired()) and len(host.ran("/usr/sbin/update-initramfs")) == 2

    def test_a_full_boot_changes_nothing(self) -> None:
        host = machine()
        host.disk_free = str(100 * 1024**2)
        host.on("stat", lambda host, argv, stdin: Result(0, f"{90 * 1024**2}\n"))
        outcome = run(host, self.desired)
        assert outcome.problems[0].what == "/boot" and "122 MiB" in outcome.problems[0].wanted
        assert BLACKLIST_FILE not in host.files


def test_what_packages_ask_for_is_a_reason() -> None:
    host = machine()
    host.files.update({REQUIRED: "*** System restart required ***\n", f"{REQUIRED}.pkgs": "libc6\nlinux-base\nlibc6\n"})
    outcome = run(host, KernelDesired(), Policy())
    assert reasons(outcome) == ["reboot required: found by libc6, linux-base, wanted rebooted"]
    assert not outcome.reboot and run(host, KernelDesired()).reboot
    reboot(host)
    assert idle(host, KernelDesired())


def test_everything_at_once_takes_one_reboot() -> None:
    host, desired = everything_host(), everything()
    assert [c.public() for c in run(host, desired, replace(ALLOWED, check=True)).changes] == [
        c.public() for c in run(everything_host(), desired).changes
    ], "check mode predicts the run"
    assert run(host, desired).reboot
    reboot(host)
    assert idle(host, desired)
