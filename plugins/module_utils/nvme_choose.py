# SPDX-License-Identifier: Apache-2.0
"""Which disks a volume has, and what stands against it. Pure.

A disk is taken only when it is blank, the volume's own, or named for wiping by its serial in a run that has the flag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from .core import Problem
from .nvme_disks import Block, Disk, Storage, content
from .nvme_volumes import ERASING, LEAST_DISKS, MADE, MAKING, REDUNDANT, SINGLE, Entry, NvmeDesired, NvmeObserved, Volume

WIPE_FLAG = "-e bedplate_allow=wipe"


@dataclass(frozen=True)
class Choice:
    """entry: what the volume consists of, or will. wipe: serials of disks to make blank first. added: those that replace others.

    known: the host's record says the same already.
    """

    entry: Entry
    wipe: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    known: bool = False


Choosing = tuple[Optional[Choice], list[Problem]]


def choose(volume: Volume, observed: NvmeObserved, desired: NvmeDesired) -> Choosing:
    """Return the disks of a volume, or the problems that keep it from being made; warnings come with a choice."""
    entry = observed.entries.get(volume.name)
    if entry is not None and entry.state == MAKING and volume.serials and set(entry.serials) != set(volume.serials):
        entry = None  # nothing of it was finished; what it left on its disks is judged like anything else
    if entry is not None and entry.state == ERASING:
        step = f"repeat playbooks/wipe_scratch.yml for it (-e bedplate_wipe_volume={volume.name})"
        return None, [_problem(volume, f"{named(entry.serials)} half erased", "the erasing ended", step)]
    known = entry is not None
    entry = entry or found_again(volume, observed, desired)
    if entry is None:
        return _fresh(volume, observed, desired, None)
    wanted = volume.serials or entry.serials
    absent = _absent(volume, wanted, observed.storage)
    if absent:
        return None, absent
    if entry.state == MAKING:
        return _fresh(volume, observed, desired, entry)
    added = tuple(serial for serial in wanted if serial not in entry.serials)
    reason = _made_otherwise(volume, entry, wanted, observed.storage)
    if reason:
        return _anew(volume, entry, wanted, reason, observed, desired)
    if not added:
        return Choice(entry, known=known), _beside(volume, entry, observed, desired)
    joining = [serial for serial in added if not entry.joined(observed.storage.disk(serial))]
    wipe, problems = _usable(volume, joining, observed, desired, None)
    problems += _still_there(volume, entry, wanted, observed.storage)
    return (None, problems) if problems else (Choice(replace(entry, serials=tuple(wanted)), wipe, added, known), [])


def _problem(volume: Volume, found: str, wanted: str, step: str, severity: str = "error") -> Problem:
    return Problem(f"volume {volume.name}", found, wanted, step, severity)


def named(serials: Iterable[str]) -> str:
    """Return serials as they are written in site data."""
    return f"[{', '.join(serials)}]"


def shown(storage: Storage) -> str:
    """Return the host's disks: serial, model and size."""
    return ", ".join(f"{d.serial} ({d.model}, {d.size_bytes / 1e9:.1f} GB)" for d in storage.disks) or "none"


def _absent(volume: Volume, serials: Sequence[str], storage: Storage) -> list[Problem]:
    problems = []
    for serial in serials:
        count = sum(disk.serial == serial for disk in storage.disks)
        if count == 1:
            continue
        found = f"no NVMe disk of this serial; there are {shown(storage)}" if not count else f"{count} disks of one serial"
        step = (
            f"look for the disk in the machine; if it was replaced, name the disks: nvme_serials: {{{volume.name}: [SERIAL, …]}}"
        )
        if count:
            step = "leave one namespace on the disk (nvme list-ns), or take it out of the site data"
        problems.append(Problem(f"disk {serial} of volume {volume.name}", found, "one", f"{step}; no other disk was touched"))
    return problems


def _taken(volume: Volume, observed: NvmeObserved, desired: NvmeDesired) -> set[str]:
    """Serials that other volumes have or are declared to have."""
    others = [other for other in desired.volumes if other.name != volume.name]
    made = [observed.entries[other.name].serials for other in others if other.name in observed.entries]
    return {serial for serials in (*made, *(other.serials for other in others)) for serial in serials}


def _matching(volume: Volume, observed: NvmeObserved, desired: NvmeDesired) -> list[Disk]:
    taken = _taken(volume, observed, desired)
    return [disk for disk in observed.storage.disks if volume.matches(disk) and disk.serial not in taken]


def found_again(volume: Volume, observed: NvmeObserved, desired: NvmeDesired) -> Entry | None:
    """Return the volume as its disks show it where the record does not know it (a system installed anew), or None."""
    storage = observed.storage
    if volume.serials:
        groups = [volume.serials]
    else:
        matching = _matching(volume, observed, desired)
        members: dict[str, list[str]] = {}
        for disk in matching:
            for signature in disk.signatures:
                # an array's members share its UUID; those of a volume group have one each
                members.setdefault("" if signature.type == "LVM2_member" else signature.uuid, []).append(disk.serial)
        groups = [tuple(serials) for serials in members.values()]
    for serials in groups:
        entry = Entry.of(volume, serials, MADE)
        disks = [disk for disk in storage.disks if disk.serial in serials]
        if len(disks) != len(serials):
            continue
        if volume.layout == SINGLE:
            there = all(any(s.uuid == entry.filesystem for s in disk.signatures) for disk in disks)
        else:
            device = entry.device(storage)
            made = device is None or any(s.uuid == entry.filesystem for s in device.signatures)
            there = made and all(entry.joined(disk) for disk in disks)
        if there:
            return entry
    return None


def _fresh(volume: Volume, observed: NvmeObserved, desired: NvmeDesired, entry: Entry | None) -> Choosing:
    """Choose the disks of a volume that is to be made, or whose making was interrupted (entry)."""
    warnings: list[Problem] = []
    if entry is not None:
        serials = entry.serials
    elif volume.serials:
        serials = volume.serials
        absent = _absent(volume, serials, observed.storage)
        if absent:
            return None, absent
    else:
        chosen, warnings = _by_rule(volume, observed, desired)
        serials = tuple(disk.serial for disk in chosen)
    least = LEAST_DISKS[volume.layout]
    amount = volume.count or (1 if volume.layout == SINGLE else 0)
    if len(serials) < least or (amount and len(serials) != amount):
        beside = "".join(f"; {p.what}: {p.found}" for p in warnings)
        found = f"{len(serials)} blank disks that match {named(serials)}, of {shown(observed.storage)}{beside}"
        step = "look for the disk, correct the rule, or name disks by serial; one with data must be named in nvme_wipe too"
        wanted = f"{amount or f'at least {least}'} for {volume.layout}"
        return None, [_problem(volume, found, wanted, f"{step}; no disk was touched")]
    wipe, problems = _usable(volume, serials, observed, desired, entry)
    return (None, problems) if problems else (Choice(entry or Entry.of(volume, serials), wipe, known=entry is not None), warnings)


def _by_rule(volume: Volume, observed: NvmeObserved, desired: NvmeDesired) -> tuple[list[Disk], list[Problem]]:
    """Return the disks a rule takes (blank, or named for wiping), and a warning for each that is not in use either."""
    chosen, warnings = [], []
    for disk in _matching(volume, observed, desired):
        what = content(disk)
        if not what or disk.serial in desired.wipe:
            chosen.append(disk)
        elif not disk.uses:
            step = f"nothing, if it is to stay as it is; else name it: nvme_wipe: {named([disk.serial])}, and add {WIPE_FLAG}"
            warnings.append(Problem(f"disk {disk.serial}", f"{what}, so it was left alone", "a blank disk", step, "warning"))
    return chosen, warnings


def _usable(
    volume: Volume, serials: Sequence[str], observed: NvmeObserved, desired: NvmeDesired, entry: Entry | None
) -> tuple[tuple[str, ...], list[Problem]]:
    """Return which disks must be wiped first, and a problem for each that is not blank and may not be."""
    wipe, problems = [], []
    storage = observed.storage
    for serial in serials:
        disk = storage.disk(serial)
        what = content(disk)
        if not what or (entry is not None and entry.owns(disk, storage)):
            continue
        busy = in_use(disk, storage, desired.wipe, volume.mount if entry else None)
        if disk.zoned or disk.read_only:
            step = "take another disk"
        elif serial not in desired.wipe:
            step = (
                f"if its content may be destroyed, name it: nvme_wipe: {named([serial])}, and add {WIPE_FLAG}; else another disk"
            )
        elif busy:
            what, step = busy, "unmount and stop what uses it by hand, then repeat"
        elif not desired.wipe_allowed:
            step = f"it is named in nvme_wipe; to destroy its content repeat with {WIPE_FLAG}"
        else:
            wipe.append(serial)
            continue
        problems.append(
            Problem(f"disk {serial} of volume {volume.name}", what, "a blank disk", f"{step}; no disk was touched"),
        )
    return tuple(wipe), problems


def in_use(disk: Disk, storage: Storage, wipe: Sequence[str], mount: str | None) -> str:
    """Say what keeps a disk from being wiped; mount: where its own volume may be mounted, to be unmounted first."""
    permitted = {mount} - {None}
    blocks = [storage.blocks[name] for name in disk.holders]
    for block in blocks:
        others = storage.serials(block.members) - set(wipe)
        if others:
            return (
                f"held by {block.name}, which other disks belong to that are not named in nvme_wipe ({', '.join(sorted(others))})"
            )
        if block.stacked or not (block.array or block.lvm):
            return f"held by {block.name}, which something else uses"
    parts: list[Disk | Block] = [disk, *blocks]
    uses = [use for part in parts for use in part.uses if use not in permitted]
    return f"in use ({', '.join(uses)})" if uses else ""


def _made_otherwise(volume: Volume, entry: Entry, wanted: Sequence[str], storage: Storage) -> str:
    """Say why what was made cannot become what is wanted; "" where it can or is."""
    if entry.layout != volume.layout:
        return f"layout {entry.layout} of {named(entry.serials)}"
    kept = [serial for serial in wanted if serial in entry.serials]
    if set(wanted) != set(entry.serials):
        same_count = len(wanted) == len(entry.serials)
        if entry.layout not in REDUNDANT or not same_count or not kept:
            return f"{entry.layout} of {named(entry.serials)}"
    device = entry.device(storage)
    if device is None:
        if entry.layout not in REDUNDANT and not all(entry.joined(storage.disk(serial)) for serial in kept):
            return f"{entry.layout} of {named(entry.serials)}, of which a member is no longer one"
        return ""
    types = [s.type for s in device.signatures if s.uuid == entry.filesystem]
    if volume.filesystem not in types:
        seen = ", ".join(map(str, device.signatures)) or "no file system"
        return f"{types[0] if types else seen} on what was made as its own"
    return ""


def _anew(
    volume: Volume, entry: Entry, wanted: Sequence[str], reason: str, observed: NvmeObserved, desired: NvmeDesired
) -> Choosing:
    """Make a volume anew that exists already: only where each of its disks is named for wiping and the run has the flag."""
    storage = observed.storage
    there = [d for d in storage.disks if d.serial in (*entry.serials, *wanted)]
    named_all = all(disk.serial in desired.wipe for disk in there)
    if not named_all or not desired.wipe_allowed:
        step = (
            f"what was made stays; to destroy it and make it anew: nvme_wipe: {named(d.serial for d in there)}, and {WIPE_FLAG}"
        )
        return None, [_problem(volume, reason, f"{volume.layout} of {named(wanted)} with {volume.filesystem}", step)]
    wipe, problems = _usable(volume, [disk.serial for disk in there], observed, desired, _nothing_of(entry))
    if problems:
        return None, problems
    chosen = Entry.of(volume, wanted)
    least = LEAST_DISKS[volume.layout]
    if len(wanted) < least:
        return None, [_problem(volume, f"{len(wanted)} disks", f"at least {least} for {volume.layout}", "name more disks")]
    return Choice(chosen, wipe), []


def _nothing_of(entry: Entry) -> Entry:
    """Return an entry that owns nothing: every disk of a volume that is made anew is wiped."""
    return replace(entry, array="", filesystem="")


def _beside(volume: Volume, entry: Entry, observed: NvmeObserved, desired: NvmeDesired) -> list[Problem]:
    """Warn of blank disks that a rule would have taken at the beginning: a volume never grows by itself."""
    if volume.serials:
        return []
    more = [d.serial for d in _matching(volume, observed, desired) if d.serial not in entry.serials and not content(d)]
    if not more:
        return []
    found = f"made of {named(entry.serials)}, and {named(more)} blank, which the rule means too"
    step = "leave them, or give them to another volume by serial; a volume's disks change only by naming them"
    return [_problem(volume, found, "the disks it was made of", step, "warning")]


def _still_there(volume: Volume, entry: Entry, wanted: Sequence[str], storage: Storage) -> list[Problem]:
    """Refuse to put another disk in the place of one that still works in the array."""
    device = entry.device(storage)
    gone = [disk for disk in storage.disks if disk.serial in entry.serials and disk.serial not in wanted]
    if not isinstance(device, Block):
        step = "look at the array (cat /proc/mdstat), then repeat"
        return [_problem(volume, "its array not running", "a running array to add the disk to", step)]
    working = [disk for disk in gone if "in_sync" in device.states.get(disk.name, "")]
    step = f"mdadm {device.path} --fail {{0}} --remove {{0}} on the host, then repeat"
    return [_problem(volume, f"disk {d.serial} still a working member", "it taken out", step.format(d.path)) for d in working]
