# SPDX-License-Identifier: Apache-2.0
"""What preflight objects to; pure functions from what was observed and desired to problems."""

from __future__ import annotations

import ipaddress
import re

from .apt import LOCK_NEXT_STEP
from .core import Problem
from .kubeadm import KUBELET_PORT, STATIC_POD_PORTS
from .network import Address, same_address
from .preflight_facts import TIME_SERVICES, PreflightDesired, PreflightObserved

FULL_DISK_BYTES = 256 * 1024**2
"""Below this a host that already works cannot even take a configuration change safely."""
FULL_DISK_INODES = 2000
CONTROL_PLANE_PORTS = {port: pod for pod, ports in STATIC_POD_PORTS.items() for port in ports}
WORKER_PORTS = {KUBELET_PORT: "kubelet"}
VIRTUAL_INTERFACES = re.compile(r"^(cni|docker|podman|virbr|veth|flannel|cilium|lxc|cali|tunl|kube-|br-|nodelocaldns)")
"""Interfaces that container networks make; their addresses are never a node's."""


def check_host(observed: PreflightObserved, desired: PreflightDesired) -> list[Problem]:
    """Return all problems of a host, the fundamental ones first."""
    return [
        *check_system(observed, desired),
        *check_disks(observed, desired),
        *check_packages(observed, desired),
        *check_node_ip(observed, desired),
        *check_clock(observed, desired),
        *check_reachable(observed),
        *check_ports(observed, desired),
    ]


def check_system(observed: PreflightObserved, desired: PreflightDesired) -> list[Problem]:
    """Distribution, init system, memory."""
    problems = []
    if desired.distributions and observed.distribution not in desired.distributions:
        wanted = "one of " + ", ".join(desired.distributions)
        step = "reinstall the host with one of them, or take it out of the inventory"
        problems.append(Problem("distribution", observed.distribution or "no os-release", wanted, step))
    if not observed.systemd:
        problems.append(Problem("init system", "no running systemd", "systemd as process 1", "boot the host with systemd"))
    if observed.memory_bytes < desired.min_memory_bytes:
        wanted = f"at least {size(desired.min_memory_bytes)}"
        problems.append(Problem("memory", size(observed.memory_bytes), wanted, "give the host more memory"))
    return problems


def check_disks(observed: PreflightObserved, desired: PreflightDesired) -> list[Problem]:
    """Free space: what a new node needs under /var/lib; on a working node only that its disks are not full."""
    problems = []
    for disk in observed.disks:
        fresh = observed.kubelet.state != "complete"
        wanted = desired.min_disk_bytes if fresh and disk.path == "/var/lib" else min(FULL_DISK_BYTES, desired.min_disk_bytes)
        if disk.free_bytes < wanted:
            step = f"free space or enlarge the file system (du -xh --max-depth=2 {disk.path} shows the largest)"
            found = f"{size(disk.free_bytes)} free"
            problems.append(Problem(f"disk {disk.path}", found, f"at least {size(wanted)}", step))
        if disk.free_inodes is not None and disk.free_inodes < FULL_DISK_INODES:
            found, floor = f"{disk.free_inodes} free inodes", f"at least {FULL_DISK_INODES}"
            problems.append(Problem(f"disk {disk.path}", found, floor, "remove small files, e.g. old logs or sessions"))
    return problems


def check_packages(observed: PreflightObserved, desired: PreflightDesired) -> list[Problem]:
    """Locks that stayed held, and half-configured packages that are not ours to finish."""
    problems = [
        Problem(
            f"package lock {lock.path}",
            f"held by {lock.holder} for more than {desired.apt_lock_timeout_seconds:g} s",
            "free",
            LOCK_NEXT_STEP,
        )
        for lock in observed.locks
    ]
    if observed.locks or observed.unfinished_transaction:
        return problems
    step = "dpkg --configure -a && apt-get --fix-broken install on the host, then run this again"
    for name, state in sorted(observed.broken_packages.items()):
        problems.append(Problem(f"package {name}", f"{state.status} (version {state.version})", "fully configured", step))
    if observed.dpkg_interrupted and not observed.broken_packages:
        problems.append(Problem("dpkg", "an interrupted run (/var/lib/dpkg/updates)", "none", step))
    return problems


def candidates(observed: PreflightObserved, desired: PreflightDesired) -> list[Address]:
    """Return the addresses a node could have: inside node_cidrs if given, no container network's, not the endpoint's own."""
    networks = [ipaddress.ip_network(c, strict=False) for c in desired.node_cidrs]
    found = [a for a in observed.addresses if not VIRTUAL_INTERFACES.match(a.interface)]
    found = [a for a in found if not same_address(a.address, desired.endpoint_address)]
    if networks:
        return [a for a in found if any(ipaddress.ip_address(a.address) in n for n in networks)]
    ipv4 = [a for a in found if ipaddress.ip_address(a.address).version == 4]
    return ipv4 or found


def node_ip(observed: PreflightObserved, desired: PreflightDesired) -> str | None:
    """Return the node's address in canonical form: the declared one, else the only candidate, else None."""
    if desired.node_ip:
        return str(ipaddress.ip_address(desired.node_ip))
    found = candidates(observed, desired)
    return found[0].address if len(found) == 1 else None


def check_node_ip(observed: PreflightObserved, desired: PreflightDesired) -> list[Problem]:
    """The declared address is on an interface and in range; an undeclared one is unambiguous. Default routes don't matter."""
    everything = listing(list(observed.addresses))
    if desired.node_ip:
        if not any(same_address(a.address, desired.node_ip) for a in observed.addresses):
            step = "correct node_ip of this host in the inventory, or configure the interface"
            return [Problem("node_ip", everything, f"{desired.node_ip} on an interface", step)]
        networks = [ipaddress.ip_network(c, strict=False) for c in desired.node_cidrs]
        if networks and not any(ipaddress.ip_address(desired.node_ip) in n for n in networks):
            step = "correct node_ip of this host or network.node_cidrs in the inventory"
            return [Problem("node_ip", desired.node_ip, "an address inside " + ", ".join(desired.node_cidrs), step)]
        return []
    found = candidates(observed, desired)
    if len(found) == 1:
        return []
    wanted = "exactly one candidate" + (f" inside {', '.join(desired.node_cidrs)}" if desired.node_cidrs else "")
    step = "declare node_ip for this host in the inventory"
    return [Problem("node_ip", f"{len(found)} candidates ({listing(found) if found else everything})", wanted, step)]


def check_clock(observed: PreflightObserved, desired: PreflightDesired) -> list[Problem]:
    """The clock's offset, and a service that keeps it; certificates and etcd do not survive a wrong clock."""
    problems = []
    limit = f"within {desired.max_offset_seconds:g} s"
    measured = {server: offset for server, offset in observed.offsets.items() if isinstance(offset, float)}
    if measured:
        server, offset = sorted(measured.items(), key=lambda item: item[1])[len(measured) // 2]
        if abs(offset) > desired.max_offset_seconds:
            direction = "ahead of" if offset > 0 else "behind"
            found = f"{abs(offset):.1f} s {direction} {server}"
            step = "set the clock (chronyc makestep, or restart the time service) and check its sources"
            problems.append(Problem("clock", found, limit, step))
    elif observed.offsets:
        reasons = ", ".join(f"{server}: {reason}" for server, reason in observed.offsets.items())
        severity = "warning" if observed.kubelet.state == "complete" else "error"
        step = "correct time.servers in the site data, or open UDP port 123 to them"
        problems.append(Problem("clock", f"no answer ({reasons})", f"a time server's answer, {limit}", step, severity))
    elif observed.synchronized is False and observed.time_services:
        step = "wait for the time service to synchronize, or check its sources"
        problems.append(Problem("clock", "a time service that is not synchronized", "a synchronized clock", step))
    if desired.time_service_required and not observed.time_services:
        step = "give time.servers in the site data, or set time.service_required: false where the clock is kept otherwise"
        if desired.time_servers:  # the role kernel brings chrony; the offset has been judged above
            step = "nothing, where the role kernel follows: it installs chrony"
        severity = "warning" if desired.time_servers else "error"
        problems.append(Problem("time service", "none active", "one of " + ", ".join(TIME_SERVICES), step, severity))
    return problems


def check_reachable(observed: PreflightObserved) -> list[Problem]:
    """Package and image sources accept connections; a working node that needs nothing from them is only warned."""
    severity = "warning" if observed.kubelet.state == "complete" else "error"
    step = "check the address in the site data, the service there, and routes or firewalls between"
    wanted = "a TCP connection"
    return [Problem(f"reachability of {u}", reason, wanted, step, severity) for u, reason in observed.unreachable.items()]


def check_ports(observed: PreflightObserved, desired: PreflightDesired) -> list[Problem]:
    """On a host without Kubernetes nothing else listens on its ports."""
    if not desired.kubernetes_ports_free or observed.kubelet.state != "none":
        return []
    ports = {**(CONTROL_PLANE_PORTS if desired.kind == "control-plane" else {}), **WORKER_PORTS}
    return [
        Problem(f"port {port}", "in use", f"free for {user}", f"see what listens there (ss -ltnp sport = :{port}) and stop it")
        for port, user in ports.items()
        if port in observed.listening_ports
    ]


def listing(addresses: list[Address]) -> str:
    """Return addresses with their interfaces for a message."""
    return ", ".join(f"{a.address} on {a.interface}" for a in addresses) or "no address"


def size(count: int) -> str:
    """Return bytes in the largest unit that keeps the number above one."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
