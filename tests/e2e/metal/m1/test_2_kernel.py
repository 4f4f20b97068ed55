# SPDX-License-Identifier: Apache-2.0
"""The kernel role on a machine that is as it should be: what it leaves alone and refuses (B16)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ...site import Run
from ..machines import Metal, boot_id, sh
from ..whole import PLAIN, desired

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
