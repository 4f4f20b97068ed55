# SPDX-License-Identifier: Apache-2.0
"""Checks of the pools' cards and of their addresses against each other and against the cluster's ranges."""

from __future__ import annotations

import ipaddress
from typing import Any

from .derive_fabric import host_devices, unshown_cards
from .gather import Gathered, Pool, SiteHost
from .problem import WARNING, suggestion
from .types import address_or_none

RANGES = {"node_cidrs": "node range", "pod_cidrs": "pod range", "service_cidrs": "Service range"}


def check_fabric(found: Gathered) -> None:
    """Add findings about cards, addresses, and the replacement of drivers of cards that hosts are reached by."""
    for pool in found.pools.values():
        if pool.spec is not None and pool.written is not None:
            _names(found, pool)
            _mtu(found, pool)
            _one_at_a_time(found, pool)
            _shown(found, pool)
    owners = _node_addresses(found)
    for host in found.hosts.values():
        known = _cards(found, host)
        for key in ("fabric_addresses", "fabric_devices"):
            for name in getattr(host.data, key, None) or {}:
                if known is not None and name not in known:
                    hint = suggestion(name, known) or f"; its pool has {', '.join(known) or 'none'}"
                    found.problems.append(host.problem(key, name, f"there is no card of this name in nics{hint}"))
        for name, text in (host.data.fabric_addresses or {}).items():
            _address(found, host, name, text, owners)


def _cards(found: Gathered, host: SiteHost) -> list[str] | None:
    """Return the names of a host's cards; None where they cannot be told."""
    pool = found.pools.get(host.pool)
    if pool is None or (pool.spec is None and pool.written is None):
        return []
    return None if pool.spec is None else [nic.name for nic in pool.spec.nics]


def _names(found: Gathered, pool: Pool) -> None:
    assert pool.spec is not None
    names = [nic.name for nic in pool.spec.nics]
    for index, name in enumerate(names):
        if name in names[:index]:
            rule = f"stands twice (first as entry {names.index(name)})"
            found.problems.append(pool.problem(("nics", index, "name"), name, rule))
        with_address = [h for h in pool.hosts if name in (found.hosts[h].data.fabric_addresses or {})]
        for host in pool.hosts if with_address else []:
            if host not in with_address and found.hosts[host].data.fabric_addresses is not None:
                rule = f"has no address on the card {name}, which {with_address[0]} has; give every host of the pool one"
                found.problems.append(found.hosts[host].problem("fabric_addresses", "(missing)", rule))


def _mtu(found: Gathered, pool: Pool) -> None:
    assert pool.spec is not None
    for index, nic in enumerate(pool.spec.nics):
        if nic.mtu and pool.hosts and not any(nic.name in (found.hosts[h].data.fabric_addresses or {}) for h in pool.hosts):
            rule = "is set together with an address, and no host has one on this card in fabric_addresses"
            found.problems.append(pool.problem(("nics", index, "mtu"), nic.mtu, rule))


def _one_at_a_time(found: Gathered, pool: Pool) -> None:
    assert pool.spec is not None
    reached = [h for h in pool.hosts if found.hosts[h].data.out_of_band]
    if pool.spec.rdma_stack.source == "doca" and reached and pool.spec.upgrade.max_unavailable != 1:
        rule = f"must be 1: the driver of the card that {reached[0]} is reached by is replaced on one node at a time"
        found.problems.append(pool.problem(("upgrade", "max_unavailable"), pool.spec.upgrade.max_unavailable, rule))


def _shown(found: Gathered, pool: Pool) -> None:
    """Warn of cards that the device plugin cannot select."""
    assert pool.spec is not None
    for index, nic in unshown_cards(pool.spec, host_devices(found, pool.name)):
        rule = "the RDMA device plugin selects RoCE cards by interface: give that as device, or pods do not get the card"
        found.problems.append(pool.problem(("nics", index), nic.device or nic.name, rule, WARNING))


def _node_addresses(found: Gathered) -> dict[str, str]:
    owners: dict[str, str] = {}
    for host in found.hosts.values():
        for text in (host.data.node_ip, host.data.node_ip_secondary, host.address):
            address = address_or_none(text)
            if address is not None:
                owners.setdefault(str(address), host.name)
    return owners


def _address(found: Gathered, host: SiteHost, name: str, text: Any, owners: dict[str, str]) -> None:
    interface = ipaddress.ip_interface(text)
    key = str(interface.ip)
    if key in owners:
        rule = f"{name} has an address that is also {owners[key]}'s"
        found.problems.append(host.problem("fabric_addresses", text, rule))
    owners.setdefault(key, f"{host.name} {name}")
    network = found.sections.get("network")
    for kind, words in RANGES.items() if network is not None else ():
        for cidr in getattr(network, kind):
            other = ipaddress.ip_network(cidr)
            if other.version == interface.version and other.overlaps(interface.network):
                rule = f"{name} lies in {interface.network}, which overlaps the {words} {cidr}; a fabric has ranges of its own"
                found.problems.append(host.problem("fabric_addresses", text, rule))
