# SPDX-License-Identifier: Apache-2.0
"""Every role on a machine with a kernel of its own: from new to final in one run and one reboot (B7, B9, B14)."""

from __future__ import annotations

from ..every import (
    test_a_second_run_changes_nothing_and_reboots_nothing,
    test_one_run_brings_everything_with_one_reboot,
    test_the_fabrics_device_and_address_are_there_after_the_reboot,
)
from ..machines import sh
from ..whole import PLAIN, SWAP, Whole

__all__ = (
    "test_a_second_run_changes_nothing_and_reboots_nothing",
    "test_one_run_brings_everything_with_one_reboot",
    "test_the_fabrics_device_and_address_are_there_after_the_reboot",
)


def test_b14_consoles_kept_and_one_iommu_value(whole: Whole) -> None:
    assert "kernel command line" in {change["what"] for change in whole.first.ok().of(PLAIN)["changes"]}
    booted = sh(PLAIN, "cat /proc/cmdline").split()
    assert [word for word in booted if word.startswith("iommu")] == ["iommu=pt"]
    assert {"console=tty0", "console=ttyS0,115200"} <= set(booted)


def test_b7_swap_is_off_after_the_reboot_and_comments_are_kept(whole: Whole) -> None:
    assert len(sh(PLAIN, "cat /proc/swaps").splitlines()) <= 1
    fstab = sh(PLAIN, "cat /etc/fstab")
    assert SWAP.splitlines()[0] in fstab.splitlines()
    assert not [line for line in fstab.splitlines() if not line.startswith("#") and "swap" in line.split()]


def test_b9_modules_and_the_sysctls_that_need_them_hold_after_the_reboot(whole: Whole) -> None:
    assert sh(PLAIN, "lsmod | grep -c '^br_netfilter '").strip() == "1"
    values = "cat /proc/sys/net/bridge/bridge-nf-call-iptables /proc/sys/net/ipv4/ip_forward"
    assert sh(PLAIN, values).split() == ["1", "1"]


def test_the_initramfs_knows_the_blacklist(whole: Whole) -> None:
    listed = sh(PLAIN, "lsinitramfs /boot/initrd.img-$(uname -r) | grep -c 90-bedplate", check=False).strip()
    assert listed not in ("", "0")
