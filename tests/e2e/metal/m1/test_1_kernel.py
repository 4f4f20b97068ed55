# SPDX-License-Identifier: Apache-2.0
"""The kernel role on a machine that is as it should be: what it leaves alone, refuses and finds (B15, B16)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ...site import Run
from ...wait import wait_until
from ..machines import Metal, boot_id, machine, sh
from ..whole import PLAIN, SECURE, desired

NEWER = "99.0.0-1-amd64"


def kernel(metal: Metal, **changed: Any) -> Run:
    """Apply the role with the machine's variables, some of them changed."""
    return metal.together({PLAIN: {**desired(metal, PLAIN), "metal_roles": ["kernel"], **changed}})


def test_what_a_boot_decides_waits_for_leave(final: Metal) -> None:
    before = boot_id(PLAIN)
    run = kernel(final, kernel_command_line=["iommu=pt", "nosmt"], bedplate_allow=[]).ok()
    assert run.changes() == {} and "kernel command line" in {change["what"] for change in run.of(PLAIN)["deferred"]}
    assert boot_id(PLAIN) == before and "nosmt" not in sh(PLAIN, "cat /etc/default/grub.d/* /boot/grub/grub.cfg")


@pytest.fixture
def newer_kernel(final: Metal) -> Iterator[None]:
    """A newer kernel without headers, and a module that DKMS compiles for every kernel."""
    sh(PLAIN, f"cp /boot/vmlinuz-$(uname -r) /boot/vmlinuz-{NEWER}")
    sh(PLAIN, "mkdir -p /var/lib/dkms/demo/1.0/source && echo 'AUTOINSTALL=yes' >/var/lib/dkms/demo/1.0/source/dkms.conf")
    yield
    sh(PLAIN, f"rm -rf /boot/vmlinuz-{NEWER} /var/lib/dkms/demo")


def test_b16_no_reboot_into_a_kernel_without_headers(final: Metal, newer_kernel: None) -> None:
    before = boot_id(PLAIN)
    run = kernel(final)
    assert run.code != 0
    assert f"package linux-headers-{NEWER}: found no such package in any configured repository" in run.message()
    assert boot_id(PLAIN) == before


def test_b15_an_hour_behind_stops_with_the_offset_until_chrony_has_set_it(final: Metal) -> None:
    server = machine(SECURE).address
    time = {"servers": [server], "max_offset_seconds": 5, "service_required": True}
    checked = {"preflight_time": time, "preflight_requirements": {"min_disk_bytes": 1024**3}}
    sh(PLAIN, "systemctl stop chrony && date --set=@$(($(date +%s) - 3600)) >/dev/null")
    run = final.play(PLAIN, ("preflight",), **checked)
    assert run.code != 0 and f"s behind {server}" in run.message()
    assert kernel(final).ok().changes() == {PLAIN: ["service chrony"]}
    wait_until(lambda: sh(PLAIN, "chronyc waitsync 1 1", check=False) and _near(), "chrony to set the clock", 120)
    final.play(PLAIN, ("preflight",), **checked).ok()


def _near() -> bool:
    here, there = (int(sh(name, "date +%s")) for name in (PLAIN, SECURE))
    return abs(here - there) < 60
