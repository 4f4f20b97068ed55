# SPDX-License-Identifier: Apache-2.0
"""The kernel role on a machine with a kernel of its own: one real reboot, and none after (B7, B9, B14, B15, B16)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ..hosts import sh
from ..site import Run
from ..wait import wait_until
from .machines import Metal

MACHINE, TIME_SERVER = "m1", "m2"
ROLES = ("repositories", "kernel")
VARIABLES: dict[str, Any] = {"kernel_command_line": ["iommu=pt"], "kernel_blacklist": ["pcspkr"]}
ALLOWED: dict[str, Any] = {**VARIABLES, "bedplate_allow": ["reboot"]}
SWAP = "# swap was on /swap.img\n/swap.img\tnone\tswap\tsw\t0\t0\n"
NEWER = "99.0.0-1-amd64"


def boot_id() -> str:
    return sh(MACHINE, "cat /proc/sys/kernel/random/boot_id").strip()


@dataclass(frozen=True)
class Applied:
    """A run that was not allowed to reboot, the one that was, and the boots before and after it."""

    without_leave: Run
    run: Run
    before: str
    after: str


@pytest.fixture(scope="module")
def applied(metal: Metal) -> Applied:
    """The machine had swap in fstab, no br_netfilter and iommu=on in GRUB's settings; the role and its reboot are behind it."""
    sh(MACHINE, "dd if=/dev/zero of=/swap.img bs=1M count=16 status=none && chmod 600 /swap.img && mkswap /swap.img >/dev/null")
    sh(MACHINE, f"printf '{SWAP}' >>/etc/fstab && swapon /swap.img")
    sh(MACHINE, "modprobe -r br_netfilter; rm -f /etc/modules-load.d/90-bedplate.conf")
    sh(MACHINE, """sed -i 's/^GRUB_CMDLINE_LINUX="\\(.*\\)"/GRUB_CMDLINE_LINUX="\\1 iommu=on"/' /etc/default/grub""")
    before = boot_id()
    without_leave = metal.play(MACHINE, ROLES, **VARIABLES).ok()
    assert boot_id() == before, "rebooted without leave"
    run = metal.play(MACHINE, ROLES, **ALLOWED).ok()
    return Applied(without_leave, run, before, boot_id())


def test_b14_consoles_kept_one_iommu_value_one_reboot(applied: Applied) -> None:
    waiting = {change["what"] for change in applied.without_leave.of(MACHINE)["deferred"]}
    assert "kernel command line" in waiting
    assert applied.before != applied.after
    booted = sh(MACHINE, "cat /proc/cmdline").split()
    assert [word for word in booted if word.startswith("iommu")] == ["iommu=pt"]
    assert {"console=tty0", "console=ttyS0,115200"} <= set(booted)


def test_b7_swap_is_off_after_the_reboot_and_comments_are_kept(applied: Applied) -> None:
    assert len(sh(MACHINE, "cat /proc/swaps").splitlines()) <= 1
    fstab = sh(MACHINE, "cat /etc/fstab")
    assert SWAP.splitlines()[0] in fstab.splitlines()
    assert not [line for line in fstab.splitlines() if not line.startswith("#") and "swap" in line.split()]


def test_b9_modules_and_the_sysctls_that_need_them_hold_after_the_reboot(applied: Applied) -> None:
    assert sh(MACHINE, "lsmod | grep -c '^br_netfilter '").strip() == "1"
    assert sh(MACHINE, "cat /proc/sys/net/bridge/bridge-nf-call-iptables").strip() == "1"
    assert sh(MACHINE, "cat /proc/sys/net/ipv4/ip_forward").strip() == "1"


def test_the_initramfs_knows_the_blacklist(applied: Applied) -> None:
    listed = sh(MACHINE, "lsinitramfs /boot/initrd.img-$(uname -r) | grep -c 90-bedplate", check=False).strip()
    assert listed not in ("", "0")


def test_a_second_run_changes_nothing_and_reboots_nothing(metal: Metal, applied: Applied) -> None:
    run = metal.play(MACHINE, ROLES, **ALLOWED).ok()
    assert run.changes() == {} and not run.of(MACHINE)["deferred"]
    assert boot_id() == applied.after


@pytest.fixture
def newer_kernel(applied: Applied) -> Iterator[None]:
    """A newer kernel without headers, and a module that DKMS compiles for every kernel."""
    sh(MACHINE, f"cp /boot/vmlinuz-$(uname -r) /boot/vmlinuz-{NEWER}")
    sh(MACHINE, "mkdir -p /var/lib/dkms/demo/1.0/source && echo 'AUTOINSTALL=yes' >/var/lib/dkms/demo/1.0/source/dkms.conf")
    yield
    sh(MACHINE, f"rm -rf /boot/vmlinuz-{NEWER} /var/lib/dkms/demo")


def test_b16_no_reboot_into_a_kernel_without_headers(metal: Metal, applied: Applied, newer_kernel: None) -> None:
    run = metal.play(MACHINE, ROLES, **ALLOWED)
    assert run.code != 0
    assert f"package linux-headers-{NEWER}: found no such package in any configured repository" in run.message()
    assert boot_id() == applied.after


@pytest.fixture
def time_server(metal: Metal) -> str:
    """The other machine's address; it serves its own clock."""
    metal.play(TIME_SERVER, ROLES, kernel_time_servers=["127.0.0.1"]).ok()
    sh(TIME_SERVER, "printf 'local stratum 8\\nallow\\n' >/etc/chrony/conf.d/serve.conf && systemctl restart chrony")
    return metal.variables[TIME_SERVER]["ansible_host"]


def test_b15_an_hour_behind_stops_with_the_offset_until_chrony_has_set_it(
    metal: Metal, applied: Applied, time_server: str
) -> None:
    metal.play(MACHINE, ROLES, **ALLOWED, kernel_time_servers=[time_server]).ok()
    time = {"servers": [time_server], "max_offset_seconds": 5, "service_required": True}
    sh(MACHINE, "systemctl stop chrony && date --set=@$(($(date +%s) - 3600)) >/dev/null")
    checked: dict[str, Any] = {"preflight_time": time, "preflight_requirements": {"min_disk_bytes": 1024**3}}
    run = metal.play(MACHINE, ("preflight",), **checked)
    assert run.code != 0 and f"s behind {time_server}" in run.message()
    again = metal.play(MACHINE, ROLES, **ALLOWED, kernel_time_servers=[time_server]).ok()
    assert again.changes() == {MACHINE: ["service chrony"]}
    wait_until(lambda: sh(MACHINE, "chronyc waitsync 1 1", check=False) and _near(), "chrony to set the clock", 120)
    metal.play(MACHINE, ("preflight",), **checked).ok()


def _near() -> bool:
    here, there = (int(sh(machine, "date +%s")) for machine in (MACHINE, TIME_SERVER))
    return abs(here - there) < 60
