# SPDX-License-Identifier: Apache-2.0
"""How volumes are made. Each operation looks its disks up by serial again, and at what is on them, right before it writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from .errors import BedplateError
from .host import Host
from .nvme_disks import EDGE_BYTES, Block, Disk, Storage, content, observe_storage, scan
from .nvme_volumes import LVM, MADE, MAKING, REDUNDANT, SINGLE, Entry, load_entries, save_entries
from .operations import RunCommand

LONG_SECONDS = 900.0
"""mkfs discards whole disks, which some controllers take minutes for."""
AGAIN = "look at the disk on the host (dmesg, lsblk, cat /proc/mdstat), then repeat"


def run(host: Host, argv: Sequence[str], purpose: str, timeout_seconds: float = 120) -> None:
    """Run a command that must succeed."""
    RunCommand(tuple(argv), purpose, timeout_seconds, AGAIN).perform(host)


def remember(host: Host, entry: Entry) -> None:
    """Write what a volume consists of into the host's record."""
    save_entries(host, {**load_entries(host), entry.name: entry})


def forget(host: Host, serials: Iterable[str]) -> None:
    """Take the volumes that have one of these disks out of the record: what is wiped is nobody's."""
    gone = set(serials)
    save_entries(host, {name: entry for name, entry in load_entries(host).items() if not gone & set(entry.serials)})


def members(host: Host, entry: Entry) -> tuple[Storage, list[Disk]]:
    """Return the disks of a volume as they are now; raise :class:`BedplateError` for one that holds what is not the volume's."""
    storage = observe_storage(host, edges=False)
    disks = [storage.disk(serial) for serial in entry.serials]
    for disk in disks:
        if not entry.owns(disk, storage):
            raise BedplateError(
                f"disk {disk.serial}: found {content(disk)} right before it was to be written; wanted it as it was when planned. "
                "Next: see what else writes to it; nothing was written"
            )
    return storage, disks


def device(host: Host, entry: Entry) -> Disk | Block:
    """Return what carries a volume's file system now; raise :class:`BedplateError` where there is nothing."""
    found = entry.device(observe_storage(host, edges=False))
    if found is None:
        raise BedplateError(
            f"volume {entry.name}: found no running device; wanted {entry.layout} of {entry.serials}. Next: {AGAIN}"
        )
    return found


def release(host: Host, disk: Disk, storage: Storage, mount: Optional[str]) -> None:
    """Unmount and stop what is over a disk; mount: where its volume may be mounted."""
    blocks = [storage.blocks[name] for name in disk.holders]
    parts: list[Disk | Block] = [disk, *blocks]
    if mount and any(mount in part.uses for part in parts):
        run(host, ["umount", mount], f"unmount {mount}")
    for block in blocks:
        stop(host, block)


def stop(host: Host, block: Block) -> None:
    """Stop an array, or switch a volume group's mappings off."""
    if block.array:
        run(host, ["mdadm", "--stop", block.path], f"stop {block.path}")
    else:
        group = block.title.replace("--", "\0").partition("-")[0].replace("\0", "-")  # as device-mapper writes LVM's names
        run(host, ["vgchange", "--activate", "n", group], f"switch volume group {group} off")


def blank(host: Host, disk: Disk) -> None:
    """Remove every signature of a disk and its partitions and zero both ends. wipefs and blkdiscard refuse a disk in use."""
    parts = [f"/dev/{name}" for name in disk.partitions]
    run(host, ["wipefs", "--all", *parts, disk.path], f"wipe disk {disk.serial}")
    for offset in (0, max(0, disk.size_bytes - EDGE_BYTES)):
        argv = ["blkdiscard", "--zeroout", "--offset", str(offset), "--length", str(EDGE_BYTES), disk.path]
        run(host, argv, f"zero the ends of disk {disk.serial}")


@dataclass(frozen=True)
class WipeDisk:
    """Make a disk blank that is named for wiping."""

    serial: str
    mount: Optional[str] = None

    def perform(self, host: Host) -> None:
        """Forget its volume before writing: killed in between it must not look as if it were still made."""
        storage = scan(host)
        disk = storage.disk(self.serial)
        release(host, disk, storage, self.mount)
        forget(host, [self.serial])
        blank(host, disk)


@dataclass(frozen=True)
class Remember:
    """Write a volume that was found again into the record."""

    entry: Entry

    def perform(self, host: Host) -> None:
        """Write it."""
        remember(host, self.entry)


@dataclass(frozen=True)
class MakeArray:
    """Make an array (mdadm), over what a killed run left of it."""

    entry: Entry

    def perform(self, host: Host) -> None:
        """Remember first whose the disks are, then create."""
        entry = self.entry
        storage, disks = members(host, entry)
        remember(host, replace(entry, state=MAKING))
        for name in dict.fromkeys(holder for disk in disks for holder in disk.holders):
            stop(host, storage.blocks[name])
        # homehost any: the array has the same name on every host and after a new installation (mdadm(8))
        argv = ["mdadm", "--create", f"/dev/md/{entry.name}", "--run", "--metadata=1.2", "--homehost=any", f"--name={entry.name}"]
        argv += [f"--uuid={entry.array.replace('-', '')}", f"--level={entry.layout}", f"--raid-devices={len(disks)}"]
        argv += ["--bitmap=internal"] if entry.layout in REDUNDANT else []
        run(host, [*argv, *(disk.path for disk in disks)], f"make the array of volume {entry.name}", LONG_SECONDS)


@dataclass(frozen=True)
class StartArray:
    """Start an array that was made before and does not run; nothing on its disks changes."""

    entry: Entry

    def perform(self, host: Host) -> None:
        """Stop what was assembled in part, then assemble what there is."""
        storage = observe_storage(host, edges=False)
        disks = [disk for disk in storage.disks if disk.serial in self.entry.serials and self.entry.joined(disk)]
        for name in dict.fromkeys(holder for disk in disks for holder in disk.holders):
            stop(host, storage.blocks[name])
        argv = ["mdadm", "--assemble", f"/dev/md/{self.entry.name}", f"--uuid={self.entry.array.replace('-', '')}"]
        argv += ["--run"] if self.entry.layout in REDUNDANT else []
        run(host, [*argv, *(disk.path for disk in disks)], f"start the array of volume {self.entry.name}")


@dataclass(frozen=True)
class MakeGroup:
    """Make LVM's volume group and its one striped volume, from wherever a killed run left it."""

    entry: Entry

    def perform(self, host: Host) -> None:
        """Members with their own UUIDs first, then the group, then the volume."""
        entry = self.entry
        _storage, disks = members(host, entry)
        remember(host, replace(entry, state=MAKING))
        purpose = f"make the volume group of volume {entry.name}"
        for disk in disks:
            if not entry.joined(disk):
                uuid = entry.member(disk.serial)
                run(host, ["pvcreate", "--yes", "--norestorefile", "--uuid", uuid, disk.path], purpose)
        if not host.run(["vgs", entry.group]).ok:
            run(host, ["vgcreate", entry.group, *(disk.path for disk in disks)], purpose)
        if not host.run(["lvs", f"{entry.group}/volume"]).ok:
            argv = ["lvcreate", "--yes", "--wipesignatures", "y", "--type", "striped", "--stripes", str(len(disks))]
            run(host, [*argv, "--extents", "100%FREE", "--name", "volume", entry.group], purpose)
        StartGroup(entry).perform(host)


@dataclass(frozen=True)
class StartGroup:
    """Switch a volume group on that was made before."""

    entry: Entry

    def perform(self, host: Host) -> None:
        """Switch it on."""
        run(host, ["vgchange", "--activate", "y", self.entry.group], f"switch volume group {self.entry.group} on")


@dataclass(frozen=True)
class MakeFilesystem:
    """Make a volume's file system; only then the volume counts as made."""

    entry: Entry
    filesystem: str

    def perform(self, host: Host) -> None:
        """Make it on the volume's device, which a killed run may have begun to do."""
        entry = self.entry
        if entry.layout == SINGLE:
            members(host, entry)
        target = device(host, entry)
        if target.uses:
            raise BedplateError(f"volume {entry.name}: found it in use ({', '.join(target.uses)}); wanted it free. Next: {AGAIN}")
        remember(host, replace(entry, state=MAKING))
        if self.filesystem == "xfs":
            argv = ["mkfs.xfs", "-q", "-f", "-m", f"uuid={entry.filesystem}", target.path]
        else:
            argv = ["mkfs.ext4", "-q", "-F", "-U", entry.filesystem, target.path]
        run(host, argv, f"make the file system of volume {entry.name}", LONG_SECONDS)
        remember(host, replace(entry, state=MADE))


@dataclass(frozen=True)
class AddMembers:
    """Put disks into an array in the place of those it lost."""

    entry: Entry
    added: tuple[str, ...]

    def perform(self, host: Host) -> None:
        """Add those that are not members yet, then remember; the array rebuilds by itself."""
        storage = observe_storage(host, edges=False)
        array = device(host, self.entry)
        for disk in map(storage.disk, self.added):
            if self.entry.joined(disk):
                continue
            if content(disk):
                raise BedplateError(
                    f"disk {disk.serial}: found {content(disk)}; wanted it blank. Next: {AGAIN}; nothing was written"
                )
            run(host, ["mdadm", array.path, "--add", disk.path], f"add disk {disk.serial} to volume {self.entry.name}")
        remember(host, replace(self.entry, state=MADE))


@dataclass(frozen=True)
class MountVolume:
    """Mount a volume by its line of fstab."""

    path: str

    def perform(self, host: Host) -> None:
        """Let systemd read the line first: a unit of an older line would unmount it again."""
        run(host, ["mkdir", "-p", self.path], f"make {self.path}")
        run(host, ["systemctl", "daemon-reload"], "let systemd read /etc/fstab")
        run(host, ["udevadm", "settle", "--timeout=30"], "wait for udev")
        run(host, ["mount", self.path], f"mount {self.path}")


def maker(entry: Entry) -> MakeArray | MakeGroup:
    """Return the operation that makes what joins a volume's disks."""
    return MakeGroup(entry) if entry.layout == LVM else MakeArray(entry)


def starter(entry: Entry) -> StartArray | StartGroup:
    """Return the operation that starts it."""
    return StartGroup(entry) if entry.layout == LVM else StartArray(entry)
