# SPDX-License-Identifier: Apache-2.0
"""What an NFS server exports: our file of exports(5), the table that is in force, and who has files open. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

FILE = "/etc/exports.d/bedplate.exports"
OTHERS = ("/etc/exports", "/etc/exports.d/*.exports")
TABLE = "/var/lib/nfs/etab"
"""What exportfs has put in force (exportfs(8))."""
HEADER = "# Written by Bedplate; changes are overwritten.\n"
OPEN = re.compile(r'type: (?:open|lock|layout), .*superblock: "([0-9a-f]+):([0-9a-f]+):')
"""A file that a client has open, in /proc/fs/nfsd/clients/*/states (Linux, fs/nfsd/nfs4state.c). A delegation alone is a promise
that the server may take back.
"""
ADDRESS = re.compile(r"[0-9.]+(/[0-9]+)?$|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/[0-9]+)?$")


@dataclass(frozen=True)
class Export:
    """A share as served. clients: addresses and ranges. disk_mount: mount point that must be mounted, "" for none."""

    name: str
    path: str
    clients: tuple[str, ...] = ()
    read_only: bool = False
    root_squash: bool = True
    directory_mode: str = "1777"
    disk_mount: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """Options of exports(5). sync: what a client was told is written is on the disk, also after a power cut."""
        access = ("ro" if self.read_only else "rw", "root_squash" if self.root_squash else "no_root_squash")
        return (*access, "sync", "no_subtree_check", *((f"mp={self.disk_mount}",) if self.disk_mount else ()))


def line_of(export: Export) -> str:
    """Return a share's lines: its name as a comment, its path, options and clients."""
    return f"# share {export.name}\n{export.path} -{','.join(export.options)} {' '.join(export.clients)}\n"


def parse_file(text: str) -> dict[str, str]:
    """Return the lines of shares in our file by name, as :func:`line_of` writes them."""
    return {match[1]: match[0] for match in re.finditer(r"^# share (\S+)\n[^\n]*\n", text, re.MULTILINE)}


def path_in(lines: str) -> str:
    """Return the path that a share's lines export."""
    return lines.splitlines()[1].split()[0]


def paths_of(text: str) -> list[str]:
    """Return the paths that a file of exports(5) exports."""
    joined = text.replace("\\\n", " ")
    return [line.split()[0].strip('"') for line in joined.splitlines() if line.split() and not line.startswith("#")]


Table = Mapping[tuple[str, str], frozenset[str]]


def parse_table(text: str) -> Table:
    """Parse the table in force (``path<tab>client(options)``): options by path and client."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\S+)\t(\S+)\((.*)\)", line)
        if match:
            found[match[1], match[2]] = frozenset(match[3].split(","))
    return found


def in_force(table: Table, exports: Iterable[Export]) -> bool:
    """Tell whether the table has every client of the shares with what it may do, and nobody else there."""
    for export in exports:
        found, wanted = clients_of(table, export.path), set(export.options[:2])
        if set(found) != set(export.clients) or not all(wanted <= options for options in found.values()):
            return False
    return True


def clients_of(table: Table, path: str) -> dict[str, frozenset[str]]:
    """Return the options in force for a path by client."""
    return {client: options for (exported, client), options in table.items() if exported == path}


def losers(table: Table, export: Export) -> list[str]:
    """Return the clients that may do less by an export than they may now: those that it leaves out, or all of them."""
    found = clients_of(table, export.path)
    less = {"rw"} if export.read_only else set()
    less |= {"no_root_squash"} if export.root_squash else set()
    return [client for client, options in found.items() if client not in export.clients or less & options]


def keeping(table: Table, export: Export) -> Export:
    """Return an export that leaves everybody what is in force."""
    found = clients_of(table, export.path)
    now = frozenset[str]().union(*found.values())
    return replace(
        export,
        clients=tuple(dict.fromkeys([*export.clients, *found])),
        read_only=export.read_only and "rw" not in now,
        root_squash=export.root_squash and "no_root_squash" not in now,
    )


def openers(states: Mapping[str, str], infos: Mapping[str, str], device: str) -> dict[str, str]:
    """Return the clients that have files open on a device (``major:minor``), by address, as they are called in messages.

    states, infos: texts by client's directory.
    """
    who = {}
    for client, text in states.items():
        devices = {f"{int(major, 16)}:{int(minor, 16)}" for major, minor in OPEN.findall(text)}
        found = re.search(r'^address: "\[?([0-9a-fA-F.:]+?)\]?(?::\d+)?"', infos.get(client, ""), re.MULTILINE)
        if device in devices and found:
            who[found[1]] = f"client {found[1]}"
    return who


def mounters(rmtab: str, path: str) -> dict[str, str]:
    """Return the clients that have a path mounted by NFS 3 (/var/lib/nfs/rmtab); the server does not know their open files."""
    rows = [line.rsplit(":", 2) for line in rmtab.splitlines()]
    return {row[0]: f"client {row[0]} (NFS 3)" for row in rows if len(row) == 3 and row[1] == path}


def among(who: Mapping[str, str], clients: Iterable[str]) -> tuple[str, ...]:
    """Return those whose address is one of some clients, or in a range of theirs; a name could be anybody's address."""
    named = {client for client in clients if not ADDRESS.match(client)}
    ranges = [ipaddress.ip_network(client) for client in clients if client not in named]

    def is_one(address: str) -> bool:
        return bool(named) or not ADDRESS.match(address) or any(ipaddress.ip_address(address) in one for one in ranges)

    return tuple(shown for address, shown in who.items() if is_one(address))
