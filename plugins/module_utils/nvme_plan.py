# SPDX-License-Identifier: Apache-2.0
"""What has to happen until a volume is made of its disks and mounted. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .core import DRAIN, REBOOT, Change, Nothing, Problem
from .fstab import FSTAB, others_on, with_line
from .nvme_choose import Choice, choose, named
from .nvme_disks import Block, Disk, content
from .nvme_fstab import IMAGE_STORE, MARK, mount_line
from .nvme_operations import AddMembers, MakeFilesystem, MountVolume, Remember, WipeDisk, maker, starter
from .nvme_volumes import MADE, REDUNDANT, SINGLE, Entry, NvmeDesired, NvmeObserved, Volume
from .operations import WriteFile

DISTURBS = frozenset({DRAIN})
"""Of what makes, destroys or mounts a volume: pods may have files where it will be mounted, or write to what is there."""


@dataclass(frozen=True)
class VolumePlan:
    """changes make a volume; mounts mount it once its line is in fstab. entry: None where it cannot be made."""

    volume: Volume
    entry: Entry | None
    changes: Sequence[Change] = ()
    mounts: Sequence[Change] = ()
    problems: Sequence[Problem] = ()


def plan_volume(volume: Volume, observed: NvmeObserved, desired: NvmeDesired) -> VolumePlan:
    """Plan one volume, except for its line of fstab."""
    choice, problems = choose(volume, observed, desired)
    if choice is None:
        made = observed.entries.get(volume.name)
        health = _health(volume, made, made.device(observed.storage), observed) if made else []
        return VolumePlan(volume, None, problems=[*problems, *health])
    entry, fresh = choice.entry, choice.entry.state != MADE
    device = None if choice.wipe and fresh else entry.device(observed.storage)
    changes = [_wipe(serial, volume, observed) for serial in choice.wipe]
    if choice.added:
        before = observed.entries[volume.name].serials if choice.known else None
        change = Change(f"disks of volume {volume.name}", before, entry.serials, operation=AddMembers(entry, choice.added))
        changes.append(change)
    elif not choice.known and not fresh:
        changes.append(Change(f"volume {volume.name} in the record", None, entry.serials, operation=Remember(entry)))
    if entry.layout != SINGLE and device is None:
        what, members = f"volume {volume.name}", f"{entry.layout} of {named(entry.serials)}"
        change = (
            Change(what, None, members, DISTURBS, maker(entry))
            if fresh
            else Change(what, "not running", "running", DISTURBS, starter(entry))
        )
        changes.append(change)
    if fresh:
        make = MakeFilesystem(entry, volume.filesystem)
        changes.append(Change(f"file system of volume {volume.name}", None, volume.filesystem, DISTURBS, make))
    mounts, refused = _mount(volume, observed, device, choice)
    return VolumePlan(volume, entry, changes, mounts, [*problems, *refused, *_health(volume, entry, device, observed)])


def _wipe(serial: str, volume: Volume, observed: NvmeObserved) -> Change:
    known = observed.entries.get(volume.name)
    mount = volume.mount if known is not None and serial in known.serials else None
    found = content(observed.storage.disk(serial))
    return Change(f"disk {serial}", found, "blank", DISTURBS, WipeDisk(serial, mount))


def _mount(
    volume: Volume, observed: NvmeObserved, device: Disk | Block | None, choice: Choice
) -> tuple[list[Change], list[Problem]]:
    """Plan the mount; refuse what it would hide, except for images, which are pulled again after the reboot that changes them."""
    what, wanted = f"mount {volume.mount}", f"volume {volume.name} mounted there"
    uses = device.uses if device is not None else ()
    if volume.mount in uses:
        return [], []
    there = [mount for mount in observed.storage.mounts if mount.path == volume.mount]
    if there and not choice.wipe:
        step = f"unmount it by hand (umount {volume.mount}) on a drained node, then repeat"
        return [], [Problem(what, f"{there[-1].source} mounted there", wanted, step)]
    if uses:
        step = f"unmount it by hand (umount {uses[0]}) on a drained node, then repeat"
        return [], [Problem(what, f"volume {volume.name} mounted at {', '.join(uses)}", wanted, step)]
    files = () if there else observed.occupied.get(volume.mount, ())
    if files and volume.mount != IMAGE_STORE:
        found = f"{len(files)} files in it ({', '.join(files[:3])}{', …' if len(files) > 3 else ''})"
        return [], [
            Problem(what, found, "an empty directory", "move them away, or choose another mount point; nothing was hidden")
        ]
    if files:  # containerd works in it: the boot mounts the volume before containerd starts
        return [Change(what, "images on the disk below", wanted, frozenset({DRAIN, REBOOT}), Nothing())], []
    return [Change(what, None, wanted, DISTURBS, MountVolume(volume.mount))], []


def plan_fstab(plans: Sequence[VolumePlan], fstab: str | None) -> tuple[list[Change], list[Problem]]:
    """Return the one change of /etc/fstab for all volumes; it waits with the mounts it is for."""
    text = fstab or ""
    effects: frozenset[str] = frozenset()
    problems = []
    for plan in plans:
        if plan.entry is None:
            continue
        volume = plan.volume
        for other in others_on(text, volume.mount, MARK, volume.name):
            step = f"take the line out of {FSTAB}, or choose another mount point"
            problems.append(Problem(f"mount {volume.mount}", f"in {FSTAB}: {other}", f"volume {volume.name}", step))
        merged = with_line(text, MARK, volume.name, mount_line(volume, plan.entry))
        effects |= DISTURBS if merged != text and plan.mounts else frozenset()
        text = merged
    if text == (fstab or ""):
        return [], problems
    return [Change(f"file {FSTAB}", fstab, text, effects, WriteFile(FSTAB, text))], problems


def _health(volume: Volume, entry: Entry, device: Disk | Block | None, observed: NvmeObserved) -> list[Problem]:
    """Say what an operator must know of an array that works on fewer disks than it has."""
    if not isinstance(device, Block) or not device.degraded or entry.layout not in REDUNDANT:
        return []
    wanted = f"all of {named(entry.serials)} in the array"
    if device.sync == "recover":
        return [Problem(f"volume {volume.name}", "it rebuilding", wanted, "wait for it (cat /proc/mdstat)", "warning")]
    working = {n for n, state in device.states.items() if "in_sync" in state}
    sound = {d.serial for d in observed.storage.disks if d.name in working}
    lost = [serial for serial in entry.serials if serial not in sound]
    found = f"{device.degraded} of {len(entry.serials)} members missing ({named(lost)})"
    step = f"replace the disk and name the new one: nvme_serials: {{{volume.name}: [SERIAL, …]}}; "
    step += f"one that is sound after all goes back by hand: mdadm {device.path} --re-add DEVICE"
    return [Problem(f"volume {volume.name}", found, wanted, step, "warning")]
