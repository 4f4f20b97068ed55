# SPDX-License-Identifier: Apache-2.0
"""What is mounted where, and who uses it. Only the kernel's tables are read: a look at a mount waits for its server."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .apt import lock_holder
from .fstab import unescape
from .host import Host
from .paths import inside

MOUNTINFO = "/proc/self/mountinfo"
LINKS_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Mount:
    """A mounted file system: where, its device as ``major:minor``, its source as mounted, and its type."""

    path: str
    device: str
    source: str
    type: str = ""


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """Parse /proc/self/mountinfo (proc(5)); blanks in paths are octal escapes."""
    mounts = []
    for line in text.splitlines():
        left, _dash, right = line.partition(" - ")
        fields, source = left.split(), right.split()
        if len(fields) >= 5 and len(source) >= 2:
            mounts.append(Mount(unescape(fields[4]), fields[2], unescape(source[1]), source[0]))
    return tuple(mounts)


def mount_at(mounts: Iterable[Mount], path: str) -> Mount | None:
    """Return what is mounted at a path; of several over one another the last, which is the one that is seen."""
    return next((mount for mount in reversed(tuple(mounts)) if mount.path == path), None)


def device_of(mounts: Iterable[Mount], path: str) -> str:
    """Return the device of the file system that holds a path; "" where nothing says."""
    over = [mount for mount in mounts if inside(path, mount.path)]
    return max(over, key=lambda mount: len(mount.path)).device if over else ""


def parse_links(text: str) -> dict[str, dict[str, str]]:
    """Parse the output of :func:`users`' find: by process its links (``cwd``, ``fd/3``, ``ns/mnt`` …) and where they lead."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"/proc/(\d+)/([^\t]+)\t(.*)", line)
        if match:
            found.setdefault(match[1], {})[match[2]] = match[3]
    return found


def users(host: Host, mount: Mount) -> list[str]:
    """Return who uses a mount: processes with a file or their directory in it, and those of other mount namespaces (containers)
    that have the same file system mounted.
    """
    kinds = [f"/proc/[0-9]*/{kind}" for kind in ("cwd", "root", "exe", "fd/*", "ns/mnt")]
    wanted: list[str] = []
    for kind in kinds:
        wanted += [*(["-o"] if wanted else []), "-path", kind]
    argv = ["find", "/proc", "-mindepth", "2", "-maxdepth", "3", "-type", "l", "(", *wanted, ")", "-printf", "%p\\t%l\\n"]
    links = parse_links(host.run(argv, timeout_seconds=LINKS_TIMEOUT_SECONDS).out)
    return [lock_holder(host, pid) for pid in [*_within(links, mount.path), *_elsewhere(host, links, mount.device)]]


def _within(links: dict[str, dict[str, str]], path: str) -> list[str]:
    """Return the processes of this namespace that have something below a path."""
    own = links.get("1", {}).get("ns/mnt")
    return [
        pid
        for pid, found in links.items()
        if found.get("ns/mnt") in (own, None) and any(inside(to, path) for to in found.values())
    ]


def _elsewhere(host: Host, links: dict[str, dict[str, str]], device: str) -> list[str]:
    """Return a process of each other namespace in which the device is mounted."""
    own = links.get("1", {}).get("ns/mnt")
    first: dict[str, str] = {}
    for pid, found in links.items():
        namespace = found.get("ns/mnt")
        if namespace not in (own, None):
            first.setdefault(str(namespace), pid)
    mounted = {pid: parse_mounts(host.read(f"/proc/{pid}/mountinfo") or "") for pid in first.values()}
    return [pid for pid, mounts in mounted.items() if any(one.device == device for one in mounts)]
