# SPDX-License-Identifier: Apache-2.0
"""Shares that a host serves over NFS: directories, our file of exports, threads, the server itself.

Nothing here restarts a server: clients would wait out its grace period. Exports and threads change while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import Change, Component, Plan, Problem
from .errors import BedplateError
from .host import Host
from .mounts import MOUNTINFO, Mount, device_of, mount_at, parse_mounts
from .nfs_exports import (
    FILE,
    HEADER,
    OTHERS,
    TABLE,
    Export,
    Table,
    among,
    clients_of,
    in_force,
    keeping,
    line_of,
    losers,
    mounters,
    openers,
    parse_file,
    parse_table,
    path_in,
    paths_of,
)
from .operations import RemoveFile, RunCommand, file_change
from .packages import UNFINISHED, PackageState, observe_packages, plan_packages
from .wording import listing

PACKAGE = "nfs-kernel-server"
PROGRAM = "/usr/sbin/exportfs"
SERVICE = "nfs-server"
SETTINGS = "/etc/nfs.conf.d/bedplate.conf"
THREADS = "/proc/fs/nfsd/threads"
CLIENTS = "/proc/fs/nfsd/clients"
RMTAB = "/var/lib/nfs/rmtab"


@dataclass(frozen=True)
class ServerDesired:
    """exports: shares as declared; none: what was exported before goes. threads: of the server."""

    exports: tuple[Export, ...] = ()
    threads: int = 64
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS


@dataclass(frozen=True)
class ServerObserved:
    """packages: state of what is missing. file, settings: our files. others: paths that other files export, by file. table: what
    is in force. missing: directories that are not there. threads: of the running server, 0 where it does not run. used: by path
    who has files open there and would lose them.
    """

    packages: Mapping[str, PackageState] = field(default_factory=dict)
    file: str | None = None
    settings: str | None = None
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    table: Table = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    missing: frozenset[str] = frozenset()
    active: bool = False
    enabled: bool = False
    threads: int = 0
    used: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class NfsServer(Component[ServerDesired, ServerObserved]):
    """See the module's docstring."""

    name: ClassVar[str] = "nfs_server"

    def observe(self, host: Host, desired: ServerDesired) -> ServerObserved:
        """Read files, and one systemctl; who has files open is asked only where an export is to go."""
        file, mounts = host.read(FILE), parse_mounts(host.read(MOUNTINFO) or "")
        there = host.exists(PROGRAM) and not host.exists(UNFINISHED)
        paths = [path for pattern in OTHERS for path in host.glob(pattern) if path != FILE]
        shown_state = host.run(["systemctl", "show", SERVICE, "-p", "ActiveState", "-p", "UnitFileState"]).out
        threads = (host.read(THREADS) or "").strip()
        table = parse_table(host.read(TABLE) or "")
        losing = {export.path: losers(table, export) for export in desired.exports}
        losing.update({path: list(clients_of(table, path)) for path in gone(file, desired).values()})
        return ServerObserved(
            packages=observe_packages(host, [] if there or not desired.exports else [PACKAGE]),
            file=file,
            settings=host.read(SETTINGS),
            others={path: tuple(paths_of(host.read(path) or "")) for path in paths},
            table=table,
            mounts=mounts,
            missing=frozenset(export.path for export in desired.exports if not host.exists(export.path)),
            active="ActiveState=active" in shown_state,
            enabled="UnitFileState=enabled" in shown_state,
            threads=int(threads) if threads.isdigit() else 0,
            used={path: who for path, some in losing.items() if some and (who := among(_users(host, mounts, path), some))},
        )

    def plan(self, observed: ServerObserved, desired: ServerDesired) -> Plan:
        """What goes; then directories and files before the package, whose server starts with what is there."""
        problems = [problem for export in desired.exports for problem in check_export(export, observed)]
        leaving = gone(observed.file, desired)
        kept = {name: path for name, path in leaving.items() if path in observed.used}
        exports = [keeping(observed.table, e) if e.path in observed.used else e for e in desired.exports]
        problems += [_in_use(name, path, observed) for name, path in kept.items()]
        problems += [_in_use(e.name, e.path, observed) for e in desired.exports if e.path in observed.used]
        if not desired.exports and observed.file is None:
            return Plan((), problems)
        exported = {path for path, _client in observed.table}
        changes = [
            Change(f"export {path}", "in force", None, operation=Unexport(path))
            for name, path in leaving.items()
            if name not in kept and path in exported
        ]
        changes += [
            Change(f"directory {e.path}", None, f"mode {e.directory_mode}", operation=MakeDirectory(e))
            for e in desired.exports
            if e.path in observed.missing
        ]
        lines = parse_file(observed.file or "")
        entries = {**{name: lines[name] for name in kept}, **{export.name: line_of(export) for export in exports}}
        text = "".join(entries[name] for name in sorted(entries))
        if text:
            changes += file_change(FILE, observed.file, HEADER + text)
            changes += file_change(SETTINGS, observed.settings, f"{HEADER}[nfsd]\nthreads={desired.threads}\n")
        elif observed.file is not None:
            changes.append(Change(f"file {FILE}", observed.file, None, operation=RemoveFile(FILE)))
        changes += plan_packages(
            observed.packages, dict.fromkeys(observed.packages), lock_timeout_seconds=desired.lock_timeout_seconds
        )
        return Plan([*changes, *plan_service(observed, replace(desired, exports=tuple(exports)))], problems)


def gone(file: str | None, desired: ServerDesired) -> dict[str, str]:
    """Return the undeclared shares of our file, with their paths, but for those that go on under another name."""
    declared = {export.name for export in desired.exports}
    paths = {name: path_in(lines) for name, lines in parse_file(file or "").items() if name not in declared}
    return {name: path for name, path in paths.items() if path not in {export.path for export in desired.exports}}


def plan_service(observed: ServerObserved, desired: ServerDesired) -> list[Change]:
    """Plan the server: running, at boot, its threads, and what is in force."""
    changes = []
    needs = tuple(f"package {name}" for name in observed.packages)
    if desired.exports and not observed.enabled and not needs:
        enable = RunCommand(("systemctl", "enable", "--no-reload", f"{SERVICE}.service"), f"enable {SERVICE}")
        changes.append(Change(f"service {SERVICE} at boot", "disabled", "enabled", operation=enable))
    if desired.exports and not observed.active:
        step = f"journalctl -u {SERVICE} on the host names the reason; a kernel without nfsd cannot be a server"
        start = RunCommand(("systemctl", "start", f"{SERVICE}.service"), f"start {SERVICE}", next_step=step)
        changes.append(Change(f"service {SERVICE}", "not running", "running", operation=start, needs=needs))
    elif desired.exports and observed.threads != desired.threads:
        raise_to = RunCommand(("rpc.nfsd", str(desired.threads)), "set the number of threads")
        changes.append(Change("threads of the NFS server", observed.threads, desired.threads, operation=raise_to))
    if not in_force(observed.table, desired.exports):
        found = sorted(f"{path} for {client}" for path, client in observed.table)
        wanted = [f"{export.path} for {', '.join(export.clients)}" for export in desired.exports]
        apply = RunCommand(("exportfs", "-ra"), "put the exports in force", next_step="read what exportfs says on the host")
        changes.append(Change("exports in force", found, wanted, operation=apply, needs=needs))
    return changes


def check_export(export: Export, observed: ServerObserved) -> list[Problem]:
    """Return what keeps a share from being served: its disk is not mounted, or another file exports the path as well."""
    problems, what = [], f"share {export.name}"
    if export.disk_mount and export.path not in observed.missing and mount_at(observed.mounts, export.disk_mount) is None:
        step = "mount it, or correct disk_mount; until then clients would write to the disk below"
        problems.append(Problem(what, f"nothing mounted at {export.disk_mount}", f"the disk of {export.path} there", step))
    for path, exported in observed.others.items():
        if export.path in exported:
            step = f"take it out of {path}: what it permits would be added to what the site data permit"
            problems.append(Problem(what, f"{export.path} in {path} too", f"it in {FILE} alone", step))
    return problems


def _in_use(name: str, path: str, observed: ServerObserved) -> Problem:
    step = "end what has files open there, then repeat; until then they may do what they could before"
    wanted = "nobody, since the site data permit them less"
    return Problem(f"export {path} of share {name}", f"in use by {listing(observed.used[path], 3)}", wanted, step, "warning")


def _users(host: Host, mounts: tuple[Mount, ...], path: str) -> dict[str, str]:
    """Return the clients with files open on the file system of a path, and those that have it mounted by NFS 3, by address."""
    names = [found.split("/")[-2] for found in host.glob(f"{CLIENTS}/*/states")]
    states = {name: host.read(f"{CLIENTS}/{name}/states") or "" for name in names}
    infos = {name: host.read(f"{CLIENTS}/{name}/info") or "" for name in names}
    return {**openers(states, infos, device_of(mounts, path)), **mounters(host.read(RMTAB) or "", path)}


@dataclass(frozen=True)
class MakeDirectory:
    """Make the directory of a share, on the disk it is meant for."""

    export: Export

    def perform(self, host: Host) -> None:
        """See that the disk is mounted first: a directory below its mount point would fill the system's disk."""
        export = self.export
        mounts = parse_mounts(host.read(MOUNTINFO) or "")
        if export.disk_mount and mount_at(mounts, export.disk_mount) is None:
            raise BedplateError(
                f"share {export.name}: found nothing mounted at {export.disk_mount}; wanted the disk of {export.path} there. "
                "Next: mount it, or correct disk_mount"
            )
        if not host.exists(export.path):
            argv = ("install", "-d", "-m", export.directory_mode, export.path)
            RunCommand(argv, f"make {export.path}").perform(host)


@dataclass(frozen=True)
class Unexport:
    """Take a path out of force for every client, before it leaves our file: after that nothing would know it as ours."""

    path: str

    def perform(self, host: Host) -> None:
        """Take it out client by client."""
        for path, client in parse_table(host.read(TABLE) or ""):
            if path == self.path:
                bracketed = f"[{client}]" if ":" in client else client
                RunCommand(("exportfs", "-u", f"{bracketed}:{path}"), f"stop exporting {path} to {client}").perform(host)
