# SPDX-License-Identifier: Apache-2.0
"""What preflight wants and finds, and how the host's answers are read; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional

from .apt import HeldLock
from .kube_state import KubeState
from .network import Address
from .packages import PackageState

if TYPE_CHECKING:
    from .hardware import Hardware

TIME_SERVICES = ("systemd-timesyncd", "chrony", "chronyd", "ntp", "ntpsec", "ntpd", "openntpd")
DISK_PATHS = ("/", "/var/lib", "/var/cache/apt")
LISTENING = "0A"
"""State TCP_LISTEN in /proc/net/tcp, see proc_net_tcp.rst in the kernel's documentation."""


@dataclass(frozen=True)
class PreflightDesired:
    """What a host must offer. Sizes in bytes, times in seconds; ``node_ip`` None: find the only candidate.

    time_servers: ``host[:port]`` each. distributions: ``ID-VERSION_ID`` of os-release, lower case. report: look at the hardware
    too.
    """

    kind: str = "worker"
    node_ip: str | None = None
    node_cidrs: tuple[str, ...] = ()
    endpoint_address: str | None = None
    min_disk_bytes: int = 0
    min_memory_bytes: int = 0
    distributions: tuple[str, ...] = ()
    time_servers: tuple[str, ...] = ()
    max_offset_seconds: float = 5.0
    time_service_required: bool = False
    apt_lock_timeout_seconds: float = 300
    depot_uris: tuple[str, ...] = ()
    kubernetes_ports_free: bool = True
    report: bool = False


@dataclass(frozen=True)
class Disk:
    """Space of the file system that holds a path: bytes and inodes free to root; inodes None where it counts none."""

    path: str
    free_bytes: int
    free_inodes: int | None


@dataclass(frozen=True)
class PreflightObserved:
    """What was found. Empty strings and zeros where the host does not tell. nfs: roles of shares that left something here."""

    distribution: str = ""
    architecture: str = ""
    kernel: str = ""
    python: str = ""
    systemd: bool = True
    memory_bytes: int = 0
    disks: tuple[Disk, ...] = ()
    cgroup_version: int = 2
    addresses: tuple[Address, ...] = ()
    default_interfaces: tuple[str, ...] = ()
    offsets: dict[str, float | str] = field(default_factory=dict)
    time_services: tuple[str, ...] = ()
    synchronized: bool | None = None
    locks: tuple[HeldLock, ...] = ()
    broken_packages: dict[str, PackageState] = field(default_factory=dict)
    held_packages: tuple[str, ...] = ()
    dpkg_interrupted: bool = False
    unfinished_transaction: bool = False
    unreachable: dict[str, str] = field(default_factory=dict)
    listening_ports: tuple[int, ...] = ()
    kubelet: KubeState = field(default_factory=lambda: KubeState("none", None, None, False, False, {}))
    nfs: tuple[str, ...] = ()
    hardware: Optional[Hardware] = None


def parse_os_release(text: str) -> str:
    """Return ``ID-VERSION_ID`` of os-release(5), e.g. ``debian-12``."""
    values = dict(re.findall(r"^([A-Z_]+)=[\"']?([^\"'\n]*)", text, re.MULTILINE))
    return "-".join(v for v in (values.get("ID", ""), values.get("VERSION_ID", "")) if v).lower()


def parse_memory(text: str, item: str = "MemTotal") -> int:
    """Return an item of /proc/meminfo in bytes; 0 where it has none."""
    match = re.search(rf"^{item}:\s+(\d+) kB", text, re.MULTILINE)
    return int(match.group(1)) * 1024 if match else 0


def parse_disks(text: str) -> tuple[Disk, ...]:
    """Parse ``df -B1 --output=avail,iavail,itotal`` of :data:`DISK_PATHS`, one line per path in that order."""
    disks = []
    for path, line in zip(DISK_PATHS, text.splitlines()[1:]):
        fields = line.split()
        if len(fields) == 3 and fields[0].isdigit():
            counts_inodes = fields[1].isdigit() and fields[2].isdigit() and int(fields[2]) > 0
            disks.append(Disk(path, int(fields[0]), int(fields[1]) if counts_inodes else None))
    return tuple(disks)


def parse_default_interfaces(route: str, ipv6_route: str) -> tuple[str, ...]:
    """Return the interfaces of default routes from /proc/net/route and /proc/net/ipv6_route, lowest metric first."""
    found = []
    for line in route.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
            found.append((int(fields[6]), fields[0]))
    for line in ipv6_route.splitlines():
        fields = line.split()
        if len(fields) == 10 and fields[0] == "0" * 32 and fields[1] == "00" and fields[9] != "lo":
            found.append((int(fields[5], 16), fields[9]))
    return tuple(dict.fromkeys(interface for _metric, interface in sorted(found)))


def parse_listening(text: str) -> tuple[int, ...]:
    """Return the TCP ports something listens on, from /proc/net/tcp and tcp6."""
    fields = [line.split() for line in text.splitlines()]
    return tuple(sorted({int(f[1].rpartition(":")[2], 16) for f in fields if len(f) > 3 and f[3] == LISTENING}))


def public_facts(observed: PreflightObserved, node_ip: str | None) -> dict[str, Any]:
    """Return what later steps and reports use, as JSON types: ``bedplate_observed``; hardware only where it was asked for."""
    offsets = [o for o in observed.offsets.values() if isinstance(o, float)]
    facts = {
        "distribution": observed.distribution,
        "architecture": observed.architecture,
        "kernel": observed.kernel,
        "python": observed.python,
        "memory_bytes": observed.memory_bytes,
        "disk_free_bytes": {d.path: d.free_bytes for d in observed.disks},
        "cgroup_version": observed.cgroup_version,
        "addresses": [dict(vars(a)) for a in observed.addresses],
        "default_interfaces": list(observed.default_interfaces),
        "node_ip": node_ip,
        "clock_offset_seconds": round(sorted(offsets)[len(offsets) // 2], 3) if offsets else None,
        "time_services": list(observed.time_services),
        "held_packages": list(observed.held_packages),
        "nfs": list(observed.nfs),
        "kubelet": observed.kubelet.public(),
    }
    return {**facts, "hardware": observed.hardware.public()} if observed.hardware else facts
