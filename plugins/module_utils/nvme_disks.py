# SPDX-License-Identifier: Apache-2.0
"""NVMe disks as a host shows them: serials, what is on each, what holds it. Files under /sys and /proc, and one wipefs.

Kernel names (``nvme0n1``, ``md127``) change from boot to boot: they are looked up anew for every operation and never kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .errors import BedplateError
from .host import Host
from .kernel_state import parse_swaps
from .mounts import MOUNTINFO, Mount, parse_mounts
from .operations import last_lines

SYS_BLOCK = "/sys/block"
SECTOR_BYTES = 512
"""Unit of a block device's ``size`` in sysfs, whatever its own sectors are."""
EDGE_BYTES = 1024**2
"""What is read at both ends of a disk before it counts as blank."""
PROBE_TIMEOUT_SECONDS = 60.0
UNREADABLE = "unreadable"
"""Stands in for the signatures of a device that cannot be read."""
INACTIVE = ("", "clear", "inactive")
"""Values of md/array_state that mean an array does not run (kernel documentation, admin-guide/md)."""


@dataclass(frozen=True)
class Signature:
    """Something libblkid recognises on a device: type, UUID and label as it prints them."""

    type: str
    uuid: str = ""
    label: str = ""

    def __str__(self) -> str:
        kind = {"linux_raid_member": "RAID member", "LVM2_member": "LVM member"}.get(self.type, self.type)
        return f"{kind} {self.label!r}" if self.label else kind


@dataclass(frozen=True)
class Disk:
    """An NVMe disk (namespace). name: kernel name now. holders: arrays and mappings over it or over its partitions.

    uses: where it or a partition is mounted, or ``swap``. clean: both ends read as zeros; None: not looked at.
    """

    serial: str
    name: str
    model: str
    size_bytes: int
    partitions: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    zoned: bool = False
    read_only: bool = False
    signatures: tuple[Signature, ...] = ()
    clean: bool | None = None

    @property
    def path(self) -> str:
        """Device node now."""
        return f"/dev/{self.name}"


@dataclass(frozen=True)
class Block:
    """An array (md) or mapping (dm) over disks. members: kernel names below it; states: of an array's members.

    title: an array's level or a mapping's name. stacked: something else holds it in turn.
    """

    name: str
    title: str = ""
    lvm: bool = False
    active: bool = True
    degraded: int = 0
    sync: str = ""
    members: tuple[str, ...] = ()
    states: Mapping[str, str] = field(default_factory=dict)
    uses: tuple[str, ...] = ()
    stacked: bool = False
    signatures: tuple[Signature, ...] = ()

    @property
    def path(self) -> str:
        """Device node now."""
        return f"/dev/{self.name}"

    @property
    def array(self) -> bool:
        """True for md, False for dm."""
        return self.name.startswith("md")


@dataclass(frozen=True)
class Storage:
    """The host's NVMe disks, what lies over them, and what is mounted."""

    disks: tuple[Disk, ...] = ()
    blocks: Mapping[str, Block] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()

    def disk(self, serial: str) -> Disk:
        """Return the disk with a serial; raise :class:`BedplateError` when there is none, or more than one."""
        found = [disk for disk in self.disks if disk.serial == serial]
        if len(found) != 1:
            raise BedplateError(
                f"disk {serial}: found {len(found)} of this serial; wanted one. Next: look at the disk, then repeat"
            )
        return found[0]

    def serials(self, names: Iterable[str]) -> set[str]:
        """Return the serials of disks by kernel names of theirs or of their partitions; ``?`` for what is no NVMe disk."""
        owners = {name: disk.serial for disk in self.disks for name in (disk.name, *disk.partitions)}
        return {owners.get(name, "?") for name in names}


def scan(host: Host) -> Storage:
    """Look at disks and what is over them by files alone; signatures stay unknown."""
    mounts = parse_mounts(host.read(MOUNTINFO) or "")
    swaps = {swap.path.rpartition("/")[2] for swap in parse_swaps(host.read("/proc/swaps") or "")}
    names = [path.rpartition("/")[2] for path in host.glob(f"{SYS_BLOCK}/nvme*")]
    # nvme0c0n1 is a path of a disk with several, which is shown as nvme0n1
    disks = tuple(_disk(host, name, mounts, swaps) for name in names if re.fullmatch(r"nvme\d+n\d+", name))
    over = sorted({holder for disk in disks for holder in disk.holders})
    return Storage(disks, {name: _block(host, name, mounts, swaps) for name in over}, mounts)


def observe_storage(host: Host, *, edges: bool) -> Storage:
    """Look at everything; edges: also read both ends of disks that show nothing else."""
    storage = scan(host)
    running = [block.name for block in storage.blocks.values() if block.active]
    found = probe(host, [*(disk.name for disk in storage.disks), *running])
    disks = []
    for seen in storage.disks:
        disk = replace(seen, signatures=found.get(seen.name, ()))
        empty = not (disk.signatures or disk.partitions or disk.holders or disk.uses)
        disks.append(replace(disk, clean=reads_zero(host, disk)) if edges and empty else disk)
    blocks = {name: replace(block, signatures=found.get(name, ())) for name, block in storage.blocks.items()}
    return replace(storage, disks=tuple(disks), blocks=blocks)


def _value(host: Host, path: str) -> str:
    return (host.read(path) or "").strip()


def _names(host: Host, pattern: str) -> tuple[str, ...]:
    return tuple(path.rpartition("/")[2] for path in host.glob(pattern))


def _disk(host: Host, name: str, mounts: Sequence[Mount], swaps: set[str]) -> Disk:
    base = f"{SYS_BLOCK}/{name}"
    partitions = _names(host, f"{base}/{name}p*")
    places = {name: base, **{part: f"{base}/{part}" for part in partitions}}
    return Disk(
        serial=_value(host, f"{base}/device/serial"),
        name=name,
        model=_value(host, f"{base}/device/model"),
        size_bytes=int(_value(host, f"{base}/size") or 0) * SECTOR_BYTES,
        partitions=partitions,
        holders=tuple(dict.fromkeys(holder for place in places.values() for holder in _names(host, f"{place}/holders/*"))),
        uses=tuple(dict.fromkeys(use for n, place in places.items() for use in _uses(host, n, place, mounts, swaps))),
        zoned=_value(host, f"{base}/queue/zoned") not in ("", "none"),
        read_only=_value(host, f"{base}/ro") == "1",
    )


def _block(host: Host, name: str, mounts: Sequence[Mount], swaps: set[str]) -> Block:
    base = f"{SYS_BLOCK}/{name}"
    members = _names(host, f"{base}/slaves/*")
    shared = Block(
        name=name,
        members=members,
        uses=tuple(_uses(host, name, base, mounts, swaps)),
        stacked=bool(_names(host, f"{base}/holders/*")),
    )
    if not shared.array:
        return replace(shared, title=_value(host, f"{base}/dm/name"), lvm=_value(host, f"{base}/dm/uuid").startswith("LVM-"))
    return replace(
        shared,
        title=_value(host, f"{base}/md/level"),
        active=_value(host, f"{base}/md/array_state") not in INACTIVE,
        degraded=int(_value(host, f"{base}/md/degraded") or 0),
        sync=_value(host, f"{base}/md/sync_action"),
        states={member: _value(host, f"{base}/md/dev-{member}/state") for member in members},
    )


def _uses(host: Host, name: str, place: str, mounts: Sequence[Mount], swaps: set[str]) -> list[str]:
    device = _value(host, f"{place}/dev")
    found = [m.path for m in mounts if m.device == device or m.source == f"/dev/{name}"]
    return [*found, *(["swap"] if name in swaps else [])]


def probe(host: Host, names: Sequence[str]) -> dict[str, tuple[Signature, ...]]:
    """Return every signature on devices by kernel name, read from the devices themselves (udev's memory may be old).

    A device that cannot be read must not hide the others: then each is asked alone.
    """
    if not names:
        return {}
    result = host.run(["wipefs", "--json", *(f"/dev/{name}" for name in names)], timeout_seconds=PROBE_TIMEOUT_SECONDS)
    if result.ok:
        return parse_signatures(result.out)
    if len(names) == 1:
        return {names[0]: (Signature(UNREADABLE, label=last_lines(result.err or result.out, 1)),)}
    return {name: found for one in names for name, found in probe(host, [one]).items()}


def parse_signatures(text: str) -> dict[str, tuple[Signature, ...]]:
    """Parse ``wipefs --json``: signatures by kernel name, each once (a GPT shows at both ends)."""
    found: dict[str, dict[Signature, None]] = {}
    for row in json.loads(text)["signatures"] if text.strip() else []:
        signature = Signature(row["type"], row.get("uuid") or "", row.get("label") or "")
        found.setdefault(row["device"], {})[signature] = None
    return {name: tuple(rows) for name, rows in found.items()}


def reads_zero(host: Host, disk: Disk) -> bool:
    """Tell whether both ends of a disk read as zeros: data of a kind nobody knows a signature of is data too."""
    for skip in (0, max(0, disk.size_bytes - EDGE_BYTES)):
        argv = ["cmp", "--silent", f"--bytes={EDGE_BYTES}", f"--ignore-initial={skip}:0", disk.path, "/dev/zero"]
        if not host.run(argv, timeout_seconds=PROBE_TIMEOUT_SECONDS).ok:
            return False
    return True


def content(disk: Disk) -> str:
    """Say what is on a disk, as far as it is not blank; "" for a blank one."""
    found = [str(signature) for signature in disk.signatures]
    found += [f"partitions {', '.join(disk.partitions)}"] if disk.partitions else []
    found += [f"held by {', '.join(disk.holders)}"] if disk.holders else []
    found += [f"used as {use}" if use == "swap" else f"mounted at {use}" for use in disk.uses]
    found += ["zoned"] if disk.zoned else []
    found += ["read-only"] if disk.read_only else []
    found += ["data without a known signature"] if disk.clean is False else []
    return ", ".join(found)
