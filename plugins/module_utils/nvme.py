# SPDX-License-Identifier: Apache-2.0
"""Local volumes over NVMe disks: disks by serial or rule, mdraid or LVM, a file system, mounted by UUID."""

from __future__ import annotations

from typing import ClassVar

from .core import Change, Component, Plan, Problem
from .fstab import FSTAB, marked
from .host import Host
from .nvme_disks import observe_storage
from .nvme_fstab import MARK
from .nvme_plan import plan_fstab, plan_volume
from .nvme_volumes import LVM, MADE, NAME, RAID, Entry, NvmeDesired, NvmeObserved, Volume, load_entries
from .packages import UNFINISHED, observe_packages, plan_packages

PROGRAMS = {"mdadm": "mdadm", "lvm2": "lvm", "xfsprogs": "mkfs.xfs", "e2fsprogs": "mkfs.ext4"}
"""A program of each package, by which the package is seen without asking dpkg."""


class Nvme(Component[NvmeDesired, NvmeObserved]):
    """See the module's docstring."""

    name: ClassVar[str] = NAME

    def observe(self, host: Host, desired: NvmeDesired) -> NvmeObserved:
        """Read files and run one wipefs; both ends of blank disks are read only while a volume has yet to be made."""
        entries = load_entries(host)
        storage = observe_storage(host, edges=any(not settled(volume, entries) for volume in desired.volumes))
        mounted = {mount.path for mount in storage.mounts}
        places = [volume.mount for volume in desired.volumes if volume.mount not in mounted]
        missing = [package for package in wanted_packages(desired) if host.exists(UNFINISHED) or not _installed(host, package)]
        return NvmeObserved(
            storage=storage,
            entries=entries,
            fstab=host.read(FSTAB),
            occupied={place: files for place in places if (files := _files(host, place))},
            packages=observe_packages(host, missing),
        )

    def plan(self, observed: NvmeObserved, desired: NvmeDesired) -> Plan:
        """Packages, then each volume's disks, array and file system, then /etc/fstab, then what it mounts."""
        plans = [plan_volume(volume, observed, desired) for volume in desired.volumes]
        fstab, refused = plan_fstab(plans, observed.fstab)
        changes: list[Change] = plan_packages(
            observed.packages, dict.fromkeys(observed.packages), lock_timeout_seconds=desired.lock_timeout_seconds
        )
        changes += [change for plan in plans for change in plan.changes]
        changes += fstab
        changes += [change for plan in plans for change in plan.mounts]
        problems = [problem for plan in plans for problem in plan.problems]
        return Plan(changes, [*problems, *refused, *_left(observed, desired)])


def settled(volume: Volume, entries: dict[str, Entry]) -> bool:
    """Tell whether a volume is made, of the disks that are declared."""
    entry = entries.get(volume.name)
    return entry is not None and entry.state == MADE and set(volume.serials or entry.serials) == set(entry.serials)


def wanted_packages(desired: NvmeDesired) -> list[str]:
    """Return the packages that the volumes need, in the order of their names."""
    needed = {"mdadm" if v.layout in RAID else "lvm2" for v in desired.volumes if v.layout in (*RAID, LVM)}
    return sorted(needed | {"xfsprogs" if volume.filesystem == "xfs" else "e2fsprogs" for volume in desired.volumes})


def _installed(host: Host, package: str) -> bool:
    return any(host.exists(f"{directory}/{PROGRAMS[package]}") for directory in ("/usr/sbin", "/sbin"))


def _files(host: Host, path: str) -> tuple[str, ...]:
    found = {*host.glob(f"{path}/*"), *host.glob(f"{path}/.*")}
    return tuple(sorted(name.rpartition("/")[2] for name in found))


def _left(observed: NvmeObserved, desired: NvmeDesired) -> list[Problem]:
    """Warn of volumes that are no longer declared: they stay as they are."""
    declared = {volume.name for volume in desired.volumes}
    lines = {marked(line, MARK) for line in (observed.fstab or "").splitlines()} - {""}
    step = "nothing, or unmount it and take its line out of /etc/fstab; its disks count as used until they are named for wiping"
    return [
        Problem(f"volume {name}", "made before and no longer declared", "every volume declared", step, "warning")
        for name in sorted(lines - declared)
    ]
