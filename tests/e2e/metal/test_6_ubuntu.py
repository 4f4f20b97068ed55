# SPDX-License-Identifier: Apache-2.0
"""Ubuntu with Secure Boot enforced: kernel settings and a volume, one real reboot, and none after."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ..hosts import lab
from ..site import Run
from .machines import Metal, boot_id, checksum, sh

pytestmark = pytest.mark.full
MACHINE = "u1"
DATA = "BPU1DATA"
ROLES = ("repositories", "kernel", "nvme")
SETTINGS: dict[str, Any] = {
    "kernel_command_line": ["iommu=pt"],
    "kernel_blacklist": ["nouveau"],
    "nvme_volumes": [{"name": "scratch", "mount": "/scratch", "layout": "raid1", "serials": ["BPU1N1", "BPU1N2"]}],
    "bedplate_allow": ["reboot"],
}


@dataclass(frozen=True)
class Applied:
    """The machine, the run that set it up, its boots before and after, and the checksum of its disk with data before it."""

    metal: Metal
    run: Run
    before: str
    after: str
    data: str

    def again(self) -> Run:
        """The same run once more."""
        return self.metal.play(MACHINE, ROLES, **SETTINGS)


@pytest.fixture(scope="module")
def applied(metal: Metal) -> Iterator[Applied]:
    """The machine is up and the roles and their reboot are behind it; it goes with the other machines."""
    found = json.loads(lab("metal", "up", "--json", MACHINE, seconds=1500).stdout)
    one = Metal(found, metal.directory)
    before, data = boot_id(MACHINE), checksum(MACHINE, DATA)
    run = one.play(MACHINE, ROLES, **SETTINGS).ok()
    yield Applied(one, run, before, boot_id(MACHINE), data)


def test_one_reboot_brings_its_settings_into_force(applied: Applied) -> None:
    assert applied.before != applied.after
    assert "iommu=pt" in sh(MACHINE, "cat /proc/cmdline").split()
    assert sh(MACHINE, "mokutil --sb-state").strip() == "SecureBoot enabled"
    assert "blacklist nouveau" in sh(MACHINE, "modprobe --showconfig")


def test_unattended_upgrades_leave_the_kernel_alone(applied: Applied) -> None:
    assert 'Unattended-Upgrade::Package-Blacklist:: "linux-image"' in sh(MACHINE, "apt-config dump")


def test_the_volume_is_mounted_by_uuid_after_the_reboot(applied: Applied) -> None:
    uuid = sh(MACHINE, "findmnt --noheadings --output UUID /scratch").strip()
    assert f"UUID={uuid} /scratch xfs" in " ".join(sh(MACHINE, "cat /etc/fstab").split())
    assert "raid1" in sh(MACHINE, "cat /proc/mdstat")


def test_a_second_run_changes_nothing_and_reboots_nothing(applied: Applied) -> None:
    assert applied.again().ok().changes() == {}
    assert boot_id(MACHINE) == applied.after
    assert checksum(MACHINE, DATA) == applied.data
