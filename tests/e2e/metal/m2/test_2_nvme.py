# SPDX-License-Identifier: Apache-2.0
"""A disk that is replaced and one that changes hands, on a machine whose disks can be pulled (F44)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...hosts import lab
from ...site import Run
from ...wait import wait_until
from ..machines import Metal, machine, sh
from ..metal_site import metal_site
from ..whole import PLAIN, SECURE, VOLUMES, desired, disks

KEPT, LOST, NEW = disks(SECURE, "S1", "S2", "S2B")
REBUILT_SECONDS = 120
SECRET = b"weights of the tenant before"


def nvme(metal: Metal, volumes: list[dict[str, Any]]) -> Run:
    """Apply the role with these volumes."""
    return metal.together({SECURE: {**desired(metal, SECURE), "metal_roles": ["nvme"], "nvme_volumes": volumes}})


def array(path: str, key: str) -> str:
    """What the kernel says of the array mounted at a path."""
    return sh(SECURE, f"cat /sys/block/$(basename $(readlink -e $(findmnt -no SOURCE {path})))/md/{key}").strip()


def test_a_replaced_disk_is_told_and_the_mirror_rebuilt_without_touching_its_data(final: Metal) -> None:
    sh(SECURE, "head -c 8M /dev/urandom >/mirror/results && sha256sum /mirror/results >/mirror/sum && sync /mirror/results")
    mounted = sh(SECURE, "findmnt -no UUID,SOURCE /mirror")
    wait_until(lambda: array("/mirror", "sync_action") == "idle", "the new mirror to be in step", REBUILT_SECONDS)
    lab("metal", "pull", SECURE, LOST)
    wait_until(lambda: array("/mirror", "degraded") == "1", "the mirror to miss its disk", 60)

    run = nvme(final, VOLUMES[SECURE])
    assert run.code != 0 and run.changes() == {}
    assert f"disk {LOST} of volume mirror: found no NVMe disk of this serial" in run.message()
    assert "1 of 2 members missing" in run.message() and "nvme_serials: {mirror: [SERIAL, …]}" in run.message()

    lab("metal", "insert", SECURE, NEW)
    replaced = [{**volume, "serials": [KEPT, NEW]} if volume["name"] == "mirror" else volume for volume in VOLUMES[SECURE]]
    assert nvme(final, replaced).ok().changes() == {SECURE: ["disks of volume mirror"]}
    wait_until(lambda: array("/mirror", "degraded") == "0", "the mirror to be rebuilt", REBUILT_SECONDS)
    assert sh(SECURE, "findmnt -no UUID,SOURCE /mirror") == mounted
    assert "OK" in sh(SECURE, "echo 3 >/proc/sys/vm/drop_caches; sha256sum --check /mirror/sum")
    assert nvme(final, replaced).ok().changes() == {}


def test_a_volume_is_erased_between_tenants_and_made_anew_with_a_record(final: Metal, tmp_path: Path) -> None:
    serials = disks(SECURE, "N1", "N2")
    sh(SECURE, f"yes '{SECRET.decode()}' | head -c 4M >/scratch/weights && sync /scratch/weights")
    assert any(on_disk(serial) for serial in serials)
    site = metal_site(final, tmp_path, [[SECURE]], control_plane=[PLAIN])
    named = f"bedplate_hosts={SECURE} bedplate_wipe_volume=scratch"
    run = site.run("--limit", f"{SECURE},localhost", "--extra-vars", named, playbook="playbooks/wipe_scratch.yml").ok()
    assert {f"disk {serial}" for serial in serials} | {"volume scratch"} <= set(run.changes()[SECURE])
    assert not any(on_disk(serial) for serial in serials)
    assert sh(SECURE, "ls -A /scratch").strip() == "" and sh(SECURE, "findmnt -no FSTYPE /scratch").strip() == "xfs"
    record = json.loads(sh(SECURE, "cat /var/lib/bedplate/nvme.json"))["erasures"]
    assert len(record) == 1 and record[0]["volume"] == "scratch" and record[0]["when"].endswith("+00:00")
    # QEMU's controllers know the command format and neither cryptographic erasure nor sanitize.
    assert {row["serial"]: row["method"] for row in record[0]["disks"]} == dict.fromkeys(serials, "format, user data erase")


def on_disk(serial: str) -> bool:
    """Whether anything of the tenant's is on a disk, by all its bytes."""
    sh(SECURE, "sync")
    return SECRET in machine(SECURE).path(f"{serial}.raw").read_bytes()
