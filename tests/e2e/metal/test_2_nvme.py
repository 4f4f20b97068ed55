# SPDX-License-Identifier: Apache-2.0
"""Volumes over a machine's NVMe disks: blank ones alone, by serial or rule, and there again after a reboot (F43, F44)."""

from __future__ import annotations

from typing import Any

from ..hosts import sh
from .machines import Metal, machine

MACHINE = "m2"
ROLES = ("repositories", "nvme")
PREFIX = "BPM2"
BY_ID = f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_{PREFIX}"


def scratch(*disks: str) -> dict[str, Any]:
    rule = {"min_size_bytes": next(disk.size_bytes for disk in machine(MACHINE).disks), "count": 2}
    chosen = {"serials": [f"{PREFIX}{disk}" for disk in disks]} if disks else rule
    return {"name": "scratch", "mount": "/scratch", "layout": "raid0", **chosen}


def uuid(path: str = "/scratch") -> str:
    return sh(MACHINE, f"findmnt --noheadings --output UUID {path}").strip()


def test_a_stale_signature_is_refused_until_it_is_named_and_the_run_has_the_flag(metal: Metal) -> None:
    sh(MACHINE, f"mkfs.ext4 -q -F -L old {BY_ID}N3")
    wipe = [f"{PREFIX}N3"]
    volume = {"name": "spare", "mount": "/spare", "serials": wipe, "filesystem": "ext4"}
    for options in ({}, {"nvme_wipe": wipe}, {"bedplate_allow": ["wipe"]}):
        run = metal.play(MACHINE, ROLES, nvme_volumes=[volume], **options)
        assert run.code != 0 and "ext4 'old'" in run.message() and "no disk was touched" in run.message()
    metal.play(MACHINE, ROLES, nvme_volumes=[volume], nvme_wipe=wipe, bedplate_allow=["wipe"]).ok()
    assert uuid("/spare")


def test_a_rule_takes_the_two_blank_disks(metal: Metal) -> None:
    assert metal.play(MACHINE, ROLES, nvme_volumes=[scratch()]).ok().changes()
    assert "raid0" in sh(MACHINE, "cat /proc/mdstat") and sh(MACHINE, "readlink -e /dev/md/scratch").startswith("/dev/md")
    sh(MACHINE, "touch /scratch/kept")


def test_a_second_run_changes_nothing(metal: Metal) -> None:
    assert metal.play(MACHINE, ROLES, nvme_volumes=[scratch()]).ok().changes() == {}


def test_a_reboot_keeps_the_mount_by_uuid(metal: Metal) -> None:
    before = uuid()
    metal.reboot(MACHINE)
    assert uuid() == before and sh(MACHINE, "ls /scratch").split() == ["kept"]
    assert f"UUID={before} /scratch xfs" in " ".join(sh(MACHINE, "cat /etc/fstab").split())
    assert metal.play(MACHINE, ROLES, nvme_volumes=[scratch()]).ok().changes() == {}


def test_a_declared_disk_that_is_absent_is_refused(metal: Metal) -> None:
    run = metal.play(MACHINE, ROLES, nvme_volumes=[scratch("N1", "N9")])
    assert run.code != 0 and f"disk {PREFIX}N9 of volume scratch: found no NVMe disk" in run.message()
    assert sh(MACHINE, "ls /scratch").split() == ["kept"]


def test_the_disk_with_data_is_refused(metal: Metal) -> None:
    run = metal.play(MACHINE, ROLES, nvme_volumes=[{"name": "data", "mount": "/data", "serials": [f"{PREFIX}DATA"]}])
    assert run.code != 0 and "ext4" in run.message()
