# SPDX-License-Identifier: Apache-2.0
"""Every role on a machine with disks of its own: blank ones alone, every layout, there again after the one reboot (F43, F44)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..every import (
    test_a_second_run_changes_nothing_and_reboots_nothing,
    test_one_run_brings_everything_with_one_reboot,
    test_the_fabrics_device_and_address_are_there_after_the_reboot,
)
from ..machines import sh
from ..whole import IMAGES, SECURE, VOLUMES, Whole, disks

__all__ = (
    "test_a_second_run_changes_nothing_and_reboots_nothing",
    "test_one_run_brings_everything_with_one_reboot",
    "test_the_fabrics_device_and_address_are_there_after_the_reboot",
)
VOLUME_NAMES = [volume["name"] for volume in VOLUMES[SECURE]]


def test_f43_f44_disks_that_are_not_blank_or_not_there_are_all_refused_at_once(whole: Whole) -> None:
    assert whole.refused is not None
    said = whole.refused.message()
    assert whole.refused.code != 0 and whole.refused.changes() == {}
    stale, data = disks(SECURE, "N3", "DATA")
    assert f"disk {stale} of volume images: found ext4 'old'" in said and "no disk was touched" in said
    assert f"disk {data} of volume old: found ext4 'old-data'" in said
    assert f"disk {disks(SECURE, 'N9')[0]} of volume more: found no NVMe disk of this serial" in said


def record() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(sh(SECURE, "cat /var/lib/bedplate/nvme.json"))["volumes"]
    return found


@pytest.mark.parametrize("name", VOLUME_NAMES)
def test_a_volume_of_each_layout_is_mounted_by_its_uuid_after_the_reboot(whole: Whole, name: str) -> None:
    declared, made = next(volume for volume in VOLUMES[SECURE] if volume["name"] == name), record()[name]
    there = json.loads(sh(SECURE, f"findmnt --json --output UUID,FSTYPE,SOURCE {declared['mount']}"))["filesystems"][0]
    assert there["uuid"] == made["filesystem"] and there["fstype"] == declared.get("filesystem", "xfs")
    assert f"UUID={made['filesystem']} {declared['mount']} " in " ".join(sh(SECURE, "cat /etc/fstab").split())
    if declared["layout"].startswith("raid"):
        array = sh(SECURE, f"basename $(readlink -e {there['source']})").strip()
        assert sh(SECURE, f"cat /sys/block/{array}/md/level").strip() == declared["layout"]
    if declared["layout"] == "lvm":
        assert sh(SECURE, f"lvs --noheadings --options stripes {there['source']}").strip() == str(len(declared["serials"]))


def test_a_rule_takes_the_blank_disks_alone(whole: Whole) -> None:
    assert set(record()["scratch"]["serials"]) == set(disks(SECURE, "N1", "N2"))


def test_images_are_on_their_volume_before_containerd_starts(whole: Whole) -> None:
    unit = f"{IMAGES[1:].replace('/', '-')}.mount"
    mounted = int(sh(SECURE, f"systemctl show --value --property ActiveEnterTimestampMonotonic {unit}"))
    running = int(sh(SECURE, "systemctl show --value --property ExecMainStartTimestampMonotonic containerd"))
    assert 0 < mounted < running
    assert unit in sh(SECURE, "systemctl show --value --property Requires containerd").split()
    there = sh(SECURE, f"findmnt --noheadings --output TARGET --target {IMAGES}/io.containerd.metadata.v1.bolt/meta.db")
    assert there.strip() == IMAGES
    assert "older-image" not in sh(SECURE, f"ls {IMAGES}").split()


def test_secure_boot_is_enforced(whole: Whole) -> None:
    assert "SecureBoot enabled" in sh(SECURE, "mokutil --sb-state")
    assert "[integrity]" in sh(SECURE, "cat /sys/kernel/security/lockdown")
