# SPDX-License-Identifier: Apache-2.0
"""What an NFS server exports: our file of exports(5), the table that is in force, and who has files open. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FILE = "/etc/exports.d/bedplate.exports"
OTHERS = ("/etc/exports", "/etc/exports.d/*.exports")
TABLE = "/var/lib/nfs/etab"
"""What exportfs has put in force (exportfs(8))."""
HEADER = "# Written by Bedplate; changes are overwritten.\n"
OPEN = re.compile(r'type: (?:open|lock|layout), .*superblock: "([0-9a-f]+):([0-9a-f]+):')
"""A file that a client has open, in /proc/fs/nfsd/clients/*/states (Linux, fs/nfsd/nfs4state.c). A delegation alone is a promise
that the server may take back.
"""


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


def parse_table(text: str) -> dict[tuple[str, str], frozenset[str]]:
    """Parse the table in force (``path<tab>client(options)``): options by path and client."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(\S+)\t(\S+)\((.*)\)", line)
        if match:
            found[match[1], match[2]] = frozenset(match[3].split(","))
    return found


def in_force(table: Mapping[tuple[str, str], frozenset[str]], exports: Iterable[Export]) -> bool:
    """Tell whether the table has every client of the shares with what it may do, and nobody else there."""
    for export in exports:
        found = {client: options for (path, client), options in table.items() if path == export.path}
        wanted = set(export.options[:2])
        if set(found) != set(export.clients) or not all(wanted <= options for options in found.values()):
            return False
    return True


def openers(states: Mapping[str, str], infos: Mapping[str, str], device: str) -> list[str]:
    """Return the clients that have files open on a device (``major:minor``). states, infos: texts by client's directory."""
    who = []
    for client, text in states.items():
        devices = {f"{int(major, 16)}:{int(minor, 16)}" for major, minor in OPEN.findall(text)}
        if device in devices:
            address = re.search(r'^address: "(\S+?)(?::\d+)?"', infos.get(client, ""), re.MULTILINE)
            who.append(f"client {address[1]}" if address else f"client {client}")
    return who


def mounters(rmtab: str, path: str) -> list[str]:
    """Return the clients that have a path mounted by NFS 3 (/var/lib/nfs/rmtab); the server does not know their open files."""
    rows = [line.rsplit(":", 2) for line in rmtab.splitlines()]
    return [f"client {row[0]} (NFS 3)" for row in rows if len(row) == 3 and row[1] == path]
