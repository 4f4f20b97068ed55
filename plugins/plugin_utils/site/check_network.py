# SPDX-License-Identifier: Apache-2.0
"""Checks of address ranges and addresses against each other. They read what is written, so one wrong entry hides no other."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from .gather import Gathered, SiteHost
from .types import Address, Network, address_or_none

NODE, POD, SERVICE = "node_cidrs", "pod_cidrs", "service_cidrs"
KINDS = {NODE: "node range", POD: "pod range", SERVICE: "Service range"}
MAX_SERVICE_BITS = 20
"""kubeadm refuses a Service range with more host bits (its constant MaximumBitsForServiceSubnet)."""
MAX_NODE_BITS = 16
"""kube-controller-manager refuses more bits between the pod range and a node's share of it."""


@dataclass(frozen=True)
class Range:
    """A range and where it is written."""

    kind: str
    index: int
    network: Network

    def __str__(self) -> str:
        return f"{KINDS[self.kind]} {self.network}"


def check_network(found: Gathered) -> None:
    """Add findings about overlaps, families, sizes and addresses."""
    if "network" not in found.written or not isinstance(found.written["network"].value, dict):
        return
    ranges = _ranges(found)
    _overlaps(found, ranges)
    _families(found, ranges)
    _sizes(found, ranges)
    _dns_address(found, ranges)
    _endpoint(found, ranges)
    _nodes(found, ranges)


def _ranges(found: Gathered) -> list[Range]:
    result: list[Range] = []
    written = found.written["network"]
    for kind in KINDS:
        entries = written.value.get(kind)
        for index, entry in enumerate(entries if isinstance(entries, list) else []):
            if written.is_unknown((kind, index)):
                continue
            try:
                result.append(Range(kind, index, ipaddress.ip_network(entry, strict=False)))
            except (ValueError, TypeError):
                continue  # the model has said so
    return result


def _of(ranges: Iterable[Range], kind: str) -> list[Range]:
    return [r for r in ranges if r.kind == kind]


def _overlaps(found: Gathered, ranges: list[Range]) -> None:
    for first, second in combinations(ranges, 2):
        if first.network.version != second.network.version or not first.network.overlaps(second.network):
            continue
        rule = f"overlaps the {second} (network.{second.kind}[{second.index}]); ranges of nodes, pods and Services must be apart"
        found.problem("network", (first.kind, first.index), first.network, f"{KINDS[first.kind]} {rule}")


def _families(found: Gathered, ranges: list[Range]) -> None:
    pods = [r.network.version for r in _of(ranges, POD)]
    services = [r.network.version for r in _of(ranges, SERVICE)]
    for kind, versions in ((POD, pods), (SERVICE, services)):
        if len(versions) == 2 and versions[0] == versions[1]:
            shown = _shown(_of(ranges, kind))
            found.problem(
                "network", (kind,), shown, "two ranges make a dual-stack cluster: one IPv4 and one IPv6, not two of a family"
            )
            return
    if pods and services and pods != services:
        rule = f"pods have {_words(pods)}, Services {_words(services)}: both lists need the same families in the same order"
        found.problem("network", (SERVICE,), _shown(_of(ranges, SERVICE)), rule)
    nodes = {r.network.version for r in _of(ranges, NODE)}
    missing = [version for version in pods if nodes and version not in nodes]
    if missing:
        rule = f"pods have {_words(pods)}, but there is no {_words(missing)} range of nodes"
        found.problem("network", (NODE,), _shown(_of(ranges, NODE)), rule)


def _words(versions: Iterable[int]) -> str:
    return " and ".join(f"IPv{version}" for version in versions)


def _shown(ranges: Iterable[Range]) -> str:
    return ", ".join(str(r.network) for r in ranges)


def _sizes(found: Gathered, ranges: list[Range]) -> None:
    for service in _of(ranges, SERVICE):
        bits = service.network.max_prefixlen - service.network.prefixlen
        if bits > MAX_SERVICE_BITS:
            smallest = service.network.max_prefixlen - MAX_SERVICE_BITS
            rule = (
                f"a Service range has at most 2^{MAX_SERVICE_BITS} addresses (/{smallest} or longer prefix): kubeadm refuses more"
            )
            found.problem("network", (SERVICE, service.index), service.network, rule)
        elif bits < 5:
            found.problem("network", (SERVICE, service.index), service.network, "a Service range has at least 32 addresses")
    network = found.sections.get("network")
    if network is None:
        return
    nodes = len(found.hosts)
    for pod in _of(ranges, POD):
        key = f"node_prefix_ipv{pod.network.version}"
        share = int(getattr(network, key))
        bits = share - pod.network.prefixlen
        if bits < 0:
            rule = f"smaller than the /{share} every node gets out of it ({key})"
        elif bits > MAX_NODE_BITS:
            rule = f"a /{share} for each node out of it makes more than 2^{MAX_NODE_BITS} shares; raise its prefix or lower {key}"
        elif 2**bits < nodes:
            rule = f"holds {2**bits} nodes with a /{share} each ({key}); the inventory has {nodes}"
        else:
            continue
        found.problem("network", (POD, pod.index), pod.network, rule)


def _dns_address(found: Gathered, ranges: list[Range]) -> None:
    network = found.sections.get("network")
    if network is None or network.dns_address is None:
        return
    address = ipaddress.ip_address(network.dns_address)
    services = _of(ranges, SERVICE)
    if services and not any(address in service.network for service in services):
        rule = f"must lie in a Service range ({_shown(services)})"
        found.problem("network", ("dns_address",), network.dns_address, rule)


def _inside(address: Address, ranges: Iterable[Range], *kinds: str) -> Range | None:
    return next((r for r in ranges if r.kind in kinds and address in r.network), None)


def _endpoint(found: Gathered, ranges: list[Range]) -> None:
    cluster = found.sections.get("cluster")
    if cluster is None or cluster.endpoint.address is None:
        return
    text = cluster.endpoint.address
    address = ipaddress.ip_address(text)
    path = ("endpoint", "address")
    inside = _inside(address, ranges, POD, SERVICE)
    if inside is not None:
        rule = f"lies in the {inside} (network.{inside.kind}[{inside.index}]); nodes could not reach it"
        found.problem("cluster", path, text, rule)
    worker = next((h for h in found.hosts.values() if h.kind == "worker" and text in _addresses(h)), None)
    if worker is not None:
        found.problem("cluster", path, text, f"is the address of the worker {worker.name}, which has no API server")
    control_planes = found.control_planes()
    owner = next((h for h in control_planes if text in _addresses(h)), None)
    if owner is not None and len(control_planes) > 1:
        rule = f"is {owner.name}'s own address: with {len(control_planes)} control-plane hosts the API is lost with that host"
        found.problem("cluster", path, text, f"{rule}; a virtual IP or a load balancer is not", "warning")


def _addresses(host: SiteHost) -> list[str]:
    return [a for a in (host.data.node_ip, host.data.node_ip_secondary, host.address) if a]


def _nodes(found: Gathered, ranges: list[Range]) -> None:
    owners: dict[str, str] = {}
    node_ranges = _of(ranges, NODE)
    for host in found.hosts.values():
        for key in ("node_ip", "node_ip_secondary", "ansible_host"):
            text = host.address if key == "ansible_host" else getattr(host.data, key)
            address = address_or_none(text)
            if address is None:
                continue
            inside = _inside(address, ranges, POD, SERVICE)
            if inside is not None:
                where = f"network.{inside.kind}[{inside.index}]"
                rule = f"node address lies in the {inside} ({where}); the node would drop its own traffic"
                found.problems.append(host.problem(key, text, rule))
            elif key != "ansible_host" and node_ranges and not _inside(address, ranges, NODE):
                rule = f"must lie in network.node_cidrs ({_shown(node_ranges)})"
                found.problems.append(host.problem(key, text, rule))
            other = owners.setdefault(str(address), host.name)
            if other != host.name:
                found.problems.append(host.problem(key, text, f"is also the address of {other}"))
        _address_known(found, host, node_ranges)


def node_ip(host: SiteHost, node_ranges: Iterable[Network]) -> str | None:
    """Return a host's address in the cluster: as declared, else ansible_host where it lies in a node range, else None."""
    if host.data.node_ip is not None:
        return host.data.node_ip
    address = address_or_none(host.address)
    if address is not None and any(address in network for network in node_ranges):
        return str(address)
    return None


def _address_known(found: Gathered, host: SiteHost, node_ranges: list[Range]) -> None:
    written = host.written.get("node_ip")
    if written is not None and (written.unknown or (host.data.node_ip is None and written.value is not None)):
        return  # the model has said so
    if node_ip(host, [r.network for r in node_ranges]) is not None:
        _families_of(found, host, node_ranges)
        return
    if host.kind != "control-plane":
        return  # preflight takes the only address in the node ranges, or names the candidates
    variable = host.written.get("ansible_host")
    have = (
        f"ansible_host is {variable.value}, which is no address in the node ranges"
        if variable
        else "there is no ansible_host either"
    )
    rule = f"the address of a control-plane host must be known to render the cluster's configuration, and {have}; give node_ip"
    found.problems.append(host.problem("node_ip", "(missing)", rule))


def _families_of(found: Gathered, host: SiteHost, node_ranges: list[Range]) -> None:
    network = found.sections.get("network")
    first = address_or_none(node_ip(host, [r.network for r in node_ranges]))
    if network is None or first is None:
        return
    wanted = [ipaddress.ip_network(text).version for text in network.pod_cidrs]
    second = address_or_none(host.data.node_ip_secondary)
    if first.version != wanted[0]:
        rule = f"must be an IPv{wanted[0]} address: the first pod range {network.pod_cidrs[0]} is IPv{wanted[0]}"
        key = "node_ip" if host.data.node_ip else "ansible_host"
        found.problems.append(host.problem(key, str(first), rule))
    elif second is not None and len(wanted) == 1:
        rule = "is not used: the cluster has one range of pods (two make it dual-stack)"
        found.problems.append(host.problem("node_ip_secondary", str(second), rule))
    elif second is None and len(wanted) == 2:
        rule = f"the cluster is dual-stack: give the host's IPv{wanted[1]} address as well"
        found.problems.append(host.problem("node_ip_secondary", "(missing)", rule))
    elif second is not None and second.version != wanted[1]:
        found.problems.append(host.problem("node_ip_secondary", str(second), f"must be an IPv{wanted[1]} address"))
