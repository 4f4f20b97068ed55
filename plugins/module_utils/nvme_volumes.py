# SPDX-License-Identifier: Apache-2.0
"""Volumes over NVMe disks: what is desired, what was made, and how what was made is known again. Pure.

Every array, LVM member and file system gets a UUID that follows from the volume's name and its disks' serials. So a run that was
killed, or a system installed anew, finds what is its own on the disks themselves.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .errors import BedplateError
from .host import Host
from .nvme_disks import Block, Disk, Storage
from .packages import PackageState
from .record import Record

NAME = "nvme"
SINGLE, LVM = "single", "lvm"
RAID = ("raid0", "raid1", "raid10")
REDUNDANT = ("raid1", "raid10")
LAYOUTS = (SINGLE, *RAID, LVM)
LEAST_DISKS: Mapping[str, int] = {SINGLE: 1, LVM: 1, "raid0": 2, "raid1": 2, "raid10": 2}
"""raid10 in mdadm's default layout keeps two copies, on any two devices or more (md(4), "RAID10")."""
RAID_MEMBER = "linux_raid_member"
MAKING, MADE, ERASING = "making", "made", "erasing"
NAMESPACE = uuid.UUID("5b0c9d6e-3f0e-4c52-9a55-0f1f6f6c9b1d")


@dataclass(frozen=True)
class Volume:
    """A volume as declared: its disks by serials, or by a rule (at least min_size_bytes, model contains model, count of them).

    count: 0 for as many as the rule finds. mount: absolute path.
    """

    name: str
    mount: str
    layout: str = SINGLE
    filesystem: str = "xfs"
    serials: tuple[str, ...] = ()
    min_size_bytes: int = 0
    model: str = ""
    count: int = 0

    def matches(self, disk: Disk) -> bool:
        """Tell whether the rule means a disk, whatever is on it."""
        return disk.size_bytes >= self.min_size_bytes and self.model in disk.model


@dataclass(frozen=True)
class Entry:
    """What a volume consists of, as the record keeps it. array, filesystem: UUIDs; state: making, made or erasing."""

    name: str
    serials: tuple[str, ...]
    layout: str
    array: str
    filesystem: str
    state: str = MAKING

    @classmethod
    def of(cls, volume: Volume, serials: Sequence[str], state: str = MAKING) -> Entry:
        """Return the entry of a volume over these disks."""
        array, system = identity(volume.layout, volume.name, serials), identity("filesystem", volume.name, serials)
        return cls(volume.name, tuple(serials), volume.layout, array, system, state)

    @property
    def group(self) -> str:
        """Name of LVM's volume group."""
        return f"bedplate_{self.name.replace('-', '_')}"

    def member(self, serial: str) -> str:
        """Return the UUID of a disk's own signature as a member; "" for a volume of one disk."""
        if self.layout != LVM:
            return self.array if self.layout in RAID else ""
        text = identity("member", self.array, [serial]).replace("-", "")
        cuts = (0, 6, 10, 14, 18, 22, 26, 32)  # LVM's way to write a UUID
        return "-".join(text[a:b] for a, b in zip(cuts, cuts[1:]))

    def joined(self, disk: Disk) -> bool:
        """Tell whether a disk carries the volume's member signature."""
        return any(signature.uuid == self.member(disk.serial) != "" for signature in disk.signatures)

    def device(self, storage: Storage) -> Disk | Block | None:
        """Return what carries the file system: the disk, the running array, the mapping; None where there is none."""
        disks = [disk for disk in storage.disks if disk.serial in self.serials]
        if self.layout == SINGLE:
            return disks[0] if disks else None
        over = [storage.blocks[name] for name in dict.fromkeys(h for d in disks if self.joined(d) for h in d.holders)]
        kind = [b for b in over if (b.array and self.layout in RAID) or b.title == f"{self.group}-volume"]
        return next((block for block in kind if block.active), None)

    def owns(self, disk: Disk, storage: Storage) -> bool:
        """Tell whether all that is on a disk is this volume's own, and not in use: what a run that was killed may make again."""
        uuids = {self.member(disk.serial), self.filesystem} - {""}
        blocks = [storage.blocks[name] for name in disk.holders]
        held = all(not b.uses and not b.stacked and storage.serials(b.members) <= set(self.serials) for b in blocks)
        good = not (disk.partitions or disk.uses or disk.zoned or disk.read_only)
        return good and held and all(signature.uuid in uuids for signature in disk.signatures)


def identity(*parts: str | Sequence[str]) -> str:
    """Return a UUID that follows from words and serials, in whatever order the serials are."""
    words = [part if isinstance(part, str) else ",".join(sorted(part)) for part in parts]
    return str(uuid.uuid5(NAMESPACE, "/".join(words)))


@dataclass(frozen=True)
class NvmeDesired:
    """volumes as declared; wipe: serials whose content may be destroyed; wipe_allowed: and this run has the flag for it."""

    volumes: tuple[Volume, ...] = ()
    wipe: tuple[str, ...] = ()
    wipe_allowed: bool = False
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS


@dataclass(frozen=True)
class NvmeObserved:
    """storage as it is; entries: volumes made before, by name; fstab: its text; occupied: files in a mount point nothing is
    mounted on, by path; packages: state of those that are missing.
    """

    storage: Storage = field(default_factory=Storage)
    entries: Mapping[str, Entry] = field(default_factory=dict)
    fstab: str | None = None
    occupied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    packages: Mapping[str, PackageState] = field(default_factory=dict)


def load_entries(host: Host) -> dict[str, Entry]:
    """Return the volumes of the host's record; raise :class:`BedplateError` for one that cannot be read."""
    entries = {}
    for name, raw in Record.load(host, NAME).data.get("volumes", {}).items():
        try:
            entries[name] = Entry(**{**raw, "name": name, "serials": tuple(raw["serials"])})
        except (TypeError, KeyError) as error:
            raise BedplateError(
                f"record of volume {name}: found it incomplete ({error}); wanted serials, layout, array, filesystem, state. "
                "Next: use the Bedplate release that wrote it"
            ) from error
    return entries


def save_entries(host: Host, entries: Mapping[str, Entry]) -> None:
    """Write the volumes into the host's record."""
    shown = {name: {**vars(entry), "serials": list(entry.serials)} for name, entry in entries.items()}
    volumes = {name: {key: value for key, value in raw.items() if key != "name"} for name, raw in shown.items()}
    record = Record.load(host, NAME)
    if record.data.get("volumes", {}) != volumes:
        record.remembering(volumes=volumes).save(host)
