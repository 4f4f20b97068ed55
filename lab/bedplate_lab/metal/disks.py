# SPDX-License-Identifier: Apache-2.0
"""The machines' NVMe disks: a file and a hot-plug slot for each; pulled out and put in while the machine runs."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any

from bedplate_lab import paths
from bedplate_lab.errors import LabError
from bedplate_lab.metal import qmp
from bedplate_lab.metal.plan import Disk, Machine
from bedplate_lab.run import run

DATA_FILES = 8
FIRST_PORT, PORTS = 3, 8
"""Number on the root bus of the first device that is slots, and how many slots one device is (PCI's functions)."""


def slots(machine: Machine) -> list[str]:
    """Serial numbers of a machine's disks by slot, "" for an empty one."""
    try:
        found: list[str] = json.loads(machine.path("slots.json").read_text())
    except FileNotFoundError:
        found = [disk.serial for disk in machine.disks]
    return found


def create(machine: Machine) -> None:
    """Make the files that are missing."""
    for disk in machine.disks:
        path = machine.path(f"{disk.serial}.raw")
        if not path.exists():
            run(["truncate", "--size", str(disk.size_bytes), str(path)])
            if disk.content == "data":
                _fill(machine, disk)


def _fill(machine: Machine, disk: Disk) -> None:
    """Give a disk a file system with files, straight on the whole disk as people do."""
    tree = machine.path("data")
    tree.mkdir(exist_ok=True)
    for number in range(DATA_FILES):
        (tree / f"experiment-{number}.bin").write_bytes(os.urandom(256 * 1024))
    run(["mke2fs", "-q", "-F", "-t", "ext4", "-L", "old-data", "-d", str(tree), str(machine.path(f"{disk.serial}.raw"))])
    shutil.rmtree(tree)


def arguments(machine: Machine) -> list[str]:
    """QEMU's options for the slots and the disks in them."""
    options = []
    for slot, serial in enumerate(slots(machine)):
        place = f"{FIRST_PORT + slot // PORTS}.{slot % PORTS}"
        options += ["-device", f"pcie-root-port,id=slot{slot},chassis={slot + 1},addr={place},multifunction=on"]
        if serial:
            options += ["-blockdev", json.dumps(_node(machine, serial)), "-device", json.dumps(_device(slot, serial))]
    return options


def pull(machine: Machine, serial: str) -> None:
    """Pull a disk out of a machine that runs; its file stays, and can be put in again. Raises LabError."""
    there = slots(machine)
    if serial not in there:
        raise LabError(f"machine {machine.name}: disk {serial}: wanted one of {' '.join(filter(None, there))}")
    slot = there.index(serial)
    qmp.ask(machine, "device_del", {"id": f"disk{slot}"}, event="DEVICE_DELETED")
    qmp.ask(machine, "blockdev-del", {"node-name": serial})
    there[slot] = ""
    _keep(machine, there)


def insert(machine: Machine, serial: str) -> None:
    """Put a disk into the first empty slot of a machine that runs: a blank one, or one that was pulled. Raises LabError."""
    there = slots(machine)
    if "" not in there or serial in there:
        found = "it in a slot" if serial in there else "every slot taken"
        raise LabError(
            f"machine {machine.name}: disk {serial}: found {found}. next: scripts/lab metal pull {machine.name} SERIAL"
        )
    slot = there.index("")
    path = machine.path(f"{serial}.raw")
    if not path.exists():
        run(["truncate", "--size", str(machine.disks[slot].size_bytes), str(path)])
    qmp.ask(machine, "blockdev-add", _node(machine, serial))
    qmp.ask(machine, "device_add", _device(slot, serial))
    there[slot] = serial
    _keep(machine, there)


def _node(machine: Machine, serial: str) -> dict[str, Any]:
    shared = {"discard": "unmap", "cache": {"no-flush": True}}
    file = {"driver": "file", "filename": str(machine.path(f"{serial}.raw")), **shared}
    return {"driver": "raw", "node-name": serial, "file": file, **shared}


def _device(slot: int, serial: str) -> dict[str, Any]:
    return {"driver": "nvme", "id": f"disk{slot}", "bus": f"slot{slot}", "drive": serial, "serial": serial}


def _keep(machine: Machine, there: list[str]) -> None:
    with paths.new_file(machine.path("slots.json")) as temporary:
        temporary.write_text(json.dumps(there))
