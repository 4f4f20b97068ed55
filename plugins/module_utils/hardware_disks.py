# SPDX-License-Identifier: Apache-2.0
"""NVMe disks: who they are, and what they carry as far as the kernel and udev's database say; no disk is opened for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

from .hardware_pci import Reader

CONTROLLERS = "/sys/class/nvme"
SUBSYSTEMS = "/sys/class/nvme-subsystem"
BLOCK = "/sys/block"
SECTOR_BYTES = 512
"""Unit of ``size`` in /sys/block, whatever the disk's own sectors (kernel ABI documentation, sysfs-block)."""


@dataclass(frozen=True)
class Disk:
    """A namespace of an NVMe disk. name: today's, it changes at boot. carries: signatures, partitions, users and mounts; () for
    nothing. blank: None where udev's database does not know the disk and nothing else uses it.
    """

    name: str
    serial: str = ""
    model: str = ""
    address: str = ""
    size_bytes: int = 0
    carries: tuple[str, ...] = ()
    blank: Optional[bool] = None


def observe_disks(reader: Reader) -> tuple[Disk, ...]:
    """Return the NVMe disks by serial number."""
    mounts = parse_mounts(reader.text("/proc/mounts") or "")
    heads = {name: path.split("/")[4] for path in reader.host.glob(f"{SUBSYSTEMS}/*/nvme*") if (name := path.split("/")[5])}
    disks: dict[str, Disk] = {}
    for controller in reader.names(f"{CONTROLLERS}/nvme*"):
        of_the_same = {name for name, subsystem in heads.items() if subsystem == heads.get(controller)}
        names = [*reader.names(f"{CONTROLLERS}/{controller}/nvme*n*"), *sorted(of_the_same)]
        for name in names:
            if re.fullmatch(r"nvme\d+n\d+", name):  # nvme0c0n1 is a path to a disk of several
                disks.setdefault(name, observe_disk(reader, controller, name, mounts))
    return tuple(sorted(disks.values(), key=lambda disk: (disk.serial, disk.name)))


def observe_disk(reader: Reader, controller: str, name: str, mounts: dict[str, list[str]]) -> Disk:
    """Return one disk."""
    carries, known = observe_content(reader, name, mounts)
    return Disk(
        name=name,
        serial=reader.text(f"{CONTROLLERS}/{controller}/serial") or "",
        model=reader.text(f"{CONTROLLERS}/{controller}/model") or "",
        address=reader.text(f"{CONTROLLERS}/{controller}/address") or "",
        size_bytes=(reader.number(f"{BLOCK}/{name}/size") or 0) * SECTOR_BYTES,
        carries=tuple(dict.fromkeys(carries)),
        blank=False if carries else (True if known else None),
    )


def observe_content(reader: Reader, name: str, mounts: dict[str, list[str]]) -> tuple[list[str], bool]:
    """Return what a disk and its partitions carry, and whether udev knows the disk."""
    found: list[str] = []
    partitions = [part for part in reader.names(f"{BLOCK}/{name}/{name}p*") if re.fullmatch(rf"{name}p\d+", part)]
    known = False
    for device, directory in [(name, f"{BLOCK}/{name}"), *((part, f"{BLOCK}/{name}/{part}") for part in partitions)]:
        record = reader.text(f"/run/udev/data/b{reader.text(f'{directory}/dev') or '-'}")
        known = known or (record is not None and device == name)
        found += re.findall(r"^E:ID_(?:PART_TABLE|FS)_TYPE=(.+)$", record or "", re.MULTILINE)
        found += [f"mounted at {point}" for point in mounts.get(f"/dev/{device}", [])]
        for holder in reader.names(f"{directory}/holders/*"):
            mapped = reader.text(f"{BLOCK}/{holder}/dm/name")
            points = mounts.get(f"/dev/{holder}", []) + (mounts.get(f"/dev/mapper/{mapped}", []) if mapped else [])
            found.append(f"part of {mapped or holder}" + "".join(f", mounted at {point}" for point in points))
    if partitions:
        found.append(f"{len(partitions)} partition{'s' if len(partitions) != 1 else ''}")
    return found, known


def parse_mounts(text: str) -> dict[str, list[str]]:
    """Return where devices are mounted, from /proc/mounts."""
    mounts: dict[str, list[str]] = {}
    for line in text.splitlines():
        source, _space, rest = line.partition(" ")
        if source.startswith("/dev/"):
            mounts.setdefault(source, []).append(rest.split(" ")[0].replace("\\040", " "))
    return mounts
