# SPDX-License-Identifier: Apache-2.0
"""Shares that a host mounts over NFS: a line of /etc/fstab for each, and the mount itself.

A mounted share is never looked into, since a look waits for its server: what is mounted, and who uses it, is in tables of the
kernel's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import DRAIN, Change, Component, Plan, Problem
from .fstab import FSTAB, fields, marked, others_on, unescape
from .host import Host
from .mounts import MOUNTINFO, Mount, mount_at, parse_mounts, users
from .network import LocalNetwork, Network
from .nfs_mount import MARK, MountShare, Share, Unmount, WriteLine, line_of
from .packages import UNFINISHED, PackageState, observe_packages, plan_packages
from .wording import listing

PACKAGE = "nfs-common"
PROGRAMS = ("/usr/sbin/mount.nfs", "/sbin/mount.nfs")
"""Of the package, by which it is seen without asking dpkg."""
DISTURBS = frozenset({DRAIN})
"""Of a share that is mounted in another way: its pods lose their files."""


@dataclass(frozen=True)
class ClientDesired:
    """Shares as declared; one without a mount point needs the programs alone."""

    shares: tuple[Share, ...] = ()
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS


@dataclass(frozen=True)
class ClientObserved:
    """packages: state of those that are missing. occupied: files in a mount point with nothing mounted, by path. silent: why a
    server does not answer, by server. used: who uses a share that is no longer declared, by mount point.
    """

    packages: Mapping[str, PackageState] = field(default_factory=dict)
    fstab: str = ""
    mounts: tuple[Mount, ...] = ()
    occupied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class NfsClient(Component[ClientDesired, ClientObserved]):
    """See the module's docstring."""

    name: ClassVar[str] = "nfs_client"

    def __init__(self, network: Network | None = None) -> None:
        self.network = network or LocalNetwork()

    def observe(self, host: Host, desired: ClientDesired) -> ClientObserved:
        """Read two files and try one TCP connection per server; who uses a share is asked only where it is to go."""
        fstab, mounts = host.read(FSTAB) or "", parse_mounts(host.read(MOUNTINFO) or "")
        mounted = {mount.path for mount in mounts}
        places = [share.mount for share in mounting(desired) if share.mount not in mounted]
        there = any(map(host.exists, PROGRAMS)) and not host.exists(UNFINISHED)
        uris = {share.uri: share.server for share in mounting(desired)}
        return ClientObserved(
            packages=observe_packages(host, [] if there or not desired.shares else [PACKAGE]),
            fstab=fstab,
            mounts=mounts,
            occupied={place: files for place in places if (files := _files(host, place))},
            silent={uris[uri]: reason for uri, reason in self.network.unreachable(list(uris)).items()},
            used={m.path: tuple(users(host, m)) for _name, m in gone(fstab, mounts, desired) if m is not None},
        )

    def plan(self, observed: ClientObserved, desired: ClientDesired) -> Plan:
        """The programs, what goes, then share after share; those whose server answers first, since the others may fail."""
        changes = plan_packages(
            observed.packages, dict.fromkeys(observed.packages), lock_timeout_seconds=desired.lock_timeout_seconds
        )
        problems: list[Problem] = []
        ordered = sorted(mounting(desired), key=lambda share: share.server in observed.silent)
        going = [mount for _name, mount in gone(observed.fstab, observed.mounts, desired)]
        staying = tuple(m for m in observed.mounts if m not in going or observed.used.get(m.path))
        left = replace(observed, mounts=staying)
        plans = [plan_gone(observed, desired), *(plan_share(share, left, self.network) for share in ordered)]
        for planned, refused in plans:
            changes += planned
            problems += refused
        return Plan(changes, problems)


def mounting(desired: ClientDesired) -> list[Share]:
    """Return the shares that the host itself mounts."""
    return [share for share in desired.shares if share.mount]


def lines_of(fstab: str) -> dict[str, str]:
    """Return the lines of shares in /etc/fstab by name, each with its end."""
    return {name: line for line in fstab.splitlines(keepends=True) if (name := marked(line, MARK))}


def gone(fstab: str, mounts: Sequence[Mount], desired: ClientDesired) -> list[tuple[str, Mount | None]]:
    """Return the shares that are in /etc/fstab and not declared, each with its mount unless that is another share's by now."""
    declared = {share.name for share in mounting(desired)}
    taken = {(share.source, share.mount) for share in mounting(desired)}
    found = [(name, mounted_by(line, mounts)) for name, line in lines_of(fstab).items() if name not in declared]
    return [(name, None if mount is not None and (mount.source, mount.path) in taken else mount) for name, mount in found]


def mounted_by(line: str, mounts: Iterable[Mount]) -> Mount | None:
    """Return what a line of /etc/fstab has mounted, if it is mounted."""
    source, path = (unescape(word) for word in fields(line)[:2])
    found = mount_at(mounts, path)
    return found if found is not None and found.source == source else None


def meant(line: str) -> tuple[str, ...]:
    """Return what a line mounts where and how, without comments for systemd and ourselves."""
    source, path, kind, options = fields(line)[:4]
    return source, path, kind, *sorted(option for option in options.split(",") if not option.startswith("x-"))


def plan_gone(observed: ClientObserved, desired: ClientDesired) -> tuple[list[Change], list[Problem]]:
    """Unmount shares that are no longer declared, except those in use."""
    changes: list[Change] = []
    problems: list[Problem] = []
    lines = lines_of(observed.fstab)
    for name, mount in gone(observed.fstab, observed.mounts, desired):
        who = observed.used.get(mount.path, ()) if mount is not None else ()
        if mount is not None and who:
            step = "end what uses it, then repeat; until then it stays mounted, also after a reboot"
            wanted = "nobody, since the share is no longer declared"
            problems.append(Problem(f"mount {mount.path}", f"in use by {listing(who, 3)}", wanted, step, "warning"))
            continue
        if mount is not None:
            changes.append(Change(f"mount {mount.path}", mount.source, None, operation=Unmount(mount)))
        changes.append(Change(f"{FSTAB}: share {name}", lines[name], None, operation=WriteLine(name, "")))
    return changes, problems


def plan_share(share: Share, observed: ClientObserved, network: Network) -> tuple[list[Change], list[Problem]]:
    """Plan one share: its line, and its mount; one that is mounted in another way is unmounted first."""
    line, old = line_of(share), lines_of(observed.fstab).get(share.name)
    what, wanted = f"mount {share.mount}", f"{share.source} mounted there"
    there = mount_at(observed.mounts, share.mount)
    before = mounted_by(old, observed.mounts) if old is not None else None
    remount = before is not None and old is not None and meant(old) != meant(line)
    problems = _refused(share, observed, there if there != before else None)
    if problems:
        return [], problems
    effects = DISTURBS if remount else frozenset[str]()
    changes = []
    if remount and before is not None:
        changes.append(Change(f"unmount {before.path}", before.source, None, effects, Unmount(before)))
    if old != line:
        needs = tuple(change.what for change in changes)
        changes.append(Change(f"{FSTAB}: share {share.name}", old, line, effects, WriteLine(share.name, line), needs))
    if there is None or remount:
        needs = tuple(change.what for change in changes)
        operation = MountShare(share, network, reload=remount)
        changes.append(Change(what, None if there is None else there.source, wanted, effects, operation, needs))
    elif share.server in observed.silent:
        step = f"look at the server {share.server}; whoever uses {share.mount} waits until it answers, and nothing is lost"
        problems.append(
            Problem(what, f"mounted, and {observed.silent[share.server]}", "an answer of its server", step, "warning")
        )
    return changes, problems


def _refused(share: Share, observed: ClientObserved, other: Mount | None) -> list[Problem]:
    """Return what keeps a share from being mounted. other: what is mounted there and not this share's own."""
    what, wanted, problems = f"mount {share.mount}", f"share {share.name}", []
    for line in others_on(observed.fstab, share.mount, MARK, share.name):
        if not marked(line, MARK):
            step = f"take the line out of {FSTAB}, or choose another mount point"
            problems.append(Problem(what, f"in {FSTAB}: {line}", wanted, step))
    if other is not None and other.source != share.source:
        step = f"unmount it by hand (umount {share.mount}) on a drained node, then repeat"
        problems.append(Problem(what, f"{other.source} mounted there", wanted, step))
    files = observed.occupied.get(share.mount, ())
    if files:
        step = "move them away, or choose another mount point; nothing was hidden"
        problems.append(Problem(what, f"{len(files)} files in it ({listing(files, 3)})", "an empty directory", step))
    return problems


def _files(host: Host, path: str) -> tuple[str, ...]:
    found = {*host.glob(f"{path}/*"), *host.glob(f"{path}/.*")}
    return tuple(sorted(name.rpartition("/")[2] for name in found))
