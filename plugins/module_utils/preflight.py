# SPDX-License-Identifier: Apache-2.0
"""Preflight: look at a host once, and say everything that would stop it later."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, ClassVar, Optional

from .apt import apt_get, wait_for_locks
from .core import Change, Component, Plan
from .fstab import FSTAB
from .host import Host
from .kube_state import observe_kube_state
from .network import LocalNetwork, Network
from .nfs_exports import FILE as EXPORTS
from .nfs_mount import MARK
from .operations import RemoveFile, RunCommand
from .packages import UNFINISHED, FinishInterrupted, parse_packages
from .preflight_checks import check_host
from .preflight_facts import (
    DISK_PATHS,
    TIME_SERVICES,
    PreflightDesired,
    PreflightObserved,
    parse_default_interfaces,
    parse_disks,
    parse_listening,
    parse_memory,
    parse_os_release,
)

if TYPE_CHECKING:
    from .hardware import Hardware


class Preflight(Component[PreflightDesired, PreflightObserved]):
    """Reports problems; its only change finishes a package transaction of this project that was killed."""

    name: ClassVar[str] = "preflight"

    def __init__(self, network: Network | None = None) -> None:
        self.network = network or LocalNetwork()

    def observe(self, host: Host, desired: PreflightDesired) -> PreflightObserved:
        """Look once; waits for package locks (bounded) first, because what dpkg says meanwhile is not its final word."""
        locks = wait_for_locks(host, desired.apt_lock_timeout_seconds, self.network.sleep, self.network.monotonic)
        packages = parse_packages(host.run(["dpkg-query", "-W", "-f", "${Package}\\t${Version}\\t${Status}\\n"]).out)
        services = host.run(["systemctl", "is-active", *TIME_SERVICES]).out.split()
        kernel = (host.read("/proc/sys/kernel/osrelease") or "").strip()
        return PreflightObserved(
            distribution=parse_os_release(host.read("/etc/os-release") or ""),
            architecture=platform.machine(),
            kernel=kernel,
            python=platform.python_version(),
            systemd=host.exists("/run/systemd/system"),
            memory_bytes=parse_memory(host.read("/proc/meminfo") or ""),
            disks=parse_disks(host.run(["df", "-B1", "--output=avail,iavail,itotal", *DISK_PATHS]).out),
            cgroup_version=2 if host.exists("/sys/fs/cgroup/cgroup.controllers") else 1,
            addresses=tuple(self.network.addresses()),
            default_interfaces=parse_default_interfaces(
                host.read("/proc/net/route") or "", host.read("/proc/net/ipv6_route") or ""
            ),
            offsets=self.network.offsets(list(desired.time_servers)),
            time_services=tuple(n for n, state in zip(TIME_SERVICES, services) if state == "active"),
            synchronized=None if desired.time_servers else self._synchronized(host),
            locks=tuple(locks),
            broken_packages={n: s for n, s in packages.items() if s.broken},
            held_packages=tuple(sorted(n for n, s in packages.items() if s.held)),
            dpkg_interrupted=bool(host.glob("/var/lib/dpkg/updates/[0-9]*")),
            unfinished_transaction=host.exists(UNFINISHED),
            unreachable=self.network.unreachable(list(desired.depot_uris)),
            listening_ports=parse_listening(f"{host.read('/proc/net/tcp') or ''}\n{host.read('/proc/net/tcp6') or ''}"),
            kubelet=observe_kube_state(host, desired.kind),
            nfs=shares_left(host),
            hardware=self._hardware(host) if desired.report else None,
        )

    def plan(self, observed: PreflightObserved, desired: PreflightDesired) -> Plan:
        """Return every problem at once."""
        return Plan(repairs(observed), check_host(observed, desired))

    @staticmethod
    def _hardware(host: Host) -> Optional[Hardware]:
        from .hardware import observe_hardware  # only the report pays for it

        return observe_hardware(host)

    @staticmethod
    def _synchronized(host: Host) -> bool | None:
        answer = host.run(["timedatectl", "show", "--property=NTPSynchronized", "--value"]).out.strip()
        return {"yes": True, "no": False}.get(answer)


def shares_left(host: Host) -> tuple[str, ...]:
    """Return the roles that have served or mounted shares here: they run also where the site data name none any more."""
    left = {"nfs_server": host.exists(EXPORTS), "nfs_client": MARK in (host.read(FSTAB) or "")}
    return tuple(role for role, here in left.items() if here)


def repairs(observed: PreflightObserved) -> list[Change]:
    """Finish what a killed transaction of ours left; other people's half-configured packages are a problem instead."""
    if not observed.unfinished_transaction or observed.locks:
        return []
    changes = []
    if observed.broken_packages or observed.dpkg_interrupted:
        found = ", ".join(f"{n} {s.status}" for n, s in sorted(observed.broken_packages.items())) or "dpkg interrupted"
        repair = "finish the interrupted package transaction"
        fix = RunCommand((*apt_get(), "install", "--fix-broken", "--yes"), repair, 900)
        changes.append(
            Change("packages half-configured by an interrupted run", found, "configured", operation=FinishInterrupted())
        )
        changes.append(Change("packages broken by an interrupted run", found, "repaired", operation=fix))
    changes.append(Change(f"file {UNFINISHED}", "left by an interrupted run", None, operation=RemoveFile(UNFINISHED)))
    return changes
