# SPDX-License-Identifier: Apache-2.0
"""Checks of the places for data against hosts, pools and each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from ansible_collections.bedplate.metal.plugins.module_utils.paths import inside, nested

from .derive_storage import addresses_of, own_address, pools_of, server_of, users_of
from .gather import Gathered, SiteHost
from .model_storage import NOT_USED_KINDS, Storage
from .problem import WARNING, suggestion
from .types_host import OF_THE_SYSTEM, of_the_system

OF_A_SERVER = ("address", "clients", "root_squash", "directory_mode", "disk_mount")
"""Keys that say how a server of the inventory is set up."""


def check_storage(found: Gathered) -> None:
    """Add every finding about local places and shares."""
    if "storage" not in found.written:
        return
    entries: list[Storage] = found.sections.get("storage") or []
    for index, storage in enumerate(entries):
        _pools(found, index, storage)
        if storage.kind in NOT_USED_KINDS:
            rule = "is checked and kept, but nothing acts on it yet"
            found.problem("storage", (index, "kind"), storage.kind, rule, WARNING)
        if storage.kind == "nfs" and storage.server is not None and storage.path is not None:
            _server(found, index, storage)
    _paths_of_servers(found, entries)
    _mounts(found, entries)


def _pools(found: Gathered, index: int, storage: Storage) -> None:
    for position, name in enumerate(storage.pools):
        if name not in found.pools:
            hint = suggestion(name, found.pools) or f"; known are {', '.join(found.pools)}"
            found.problem("storage", (index, "pools", position), name, f"there is no pool of this name{hint}")


def _server(found: Gathered, index: int, share: Storage) -> None:
    name, host = str(share.server), server_of(found, share)
    if host is None:
        if "." not in name and ":" not in name:
            hint = suggestion(name, [*found.hosts, *found.servers])
            rule = f"no host of the inventory is called so{hint or ''}; one of your own has an address or a full name with dots"
            found.problem("storage", (index, "server"), name, rule)
        for key in OF_A_SERVER:
            if key in share.model_fields_set:
                rule = f"sets up a server of the inventory, and {name} is none: say it on that server"
                found.problem("storage", (index, key), getattr(share, key), rule)
        return
    if share.address is None and own_address(found, host) is None:
        rule = f"{host.name} serves {share.name}, and nothing says its address: give it ansible_host or node_ip"
        found.problems.append(host.problem("node_ip", "(missing)", rule))
    if of_the_system(str(share.path)):
        found.problem("storage", (index, "path"), share.path, OF_THE_SYSTEM)
    if share.disk_mount is not None and not inside(str(share.path), share.disk_mount):
        found.problem("storage", (index, "disk_mount"), share.disk_mount, f"the path {share.path} does not lie there")
    _clients(found, index, share, host)


def _clients(found: Gathered, index: int, share: Storage, server: SiteHost) -> None:
    users = users_of(found, share)
    if not users and not share.clients and set(share.pools) <= set(found.pools):
        found.problem("storage", (index, "pools"), share.pools, "no node uses it and clients names nobody, so nobody is let in")
    for host in users:
        if host is server:
            rule = f"{host.name} of the pool {host.pool} is its server, and a host does not use its own share over NFS"
            found.problem("storage", (index, "pools"), share.pools or pools_of(found, share), rule)
        elif not addresses_of(host):
            rule = f"uses {share.name}, whose server {server.name} lets clients in by address: give it node_ip"
            found.problems.append(host.problem("node_ip", "(missing)", rule))


def _paths_of_servers(found: Gathered, entries: list[Storage]) -> None:
    """Refuse exports in one another: who is let into the outer reaches all of the inner (exports(5), no_subtree_check)."""
    served = [(i, s, str(s.path)) for i, s in enumerate(entries) if s.kind == "nfs" and s.path and server_of(found, s)]
    for (_index, first, path), (index, second, other) in combinations(served, 2):
        if first.server == second.server and nested(path, other):
            rule = f"lies in or over the path of {first.name} on {first.server}, whose clients would reach it too"
            found.problem("storage", (index, "path"), other, rule)


def _mounts(found: Gathered, entries: list[Storage]) -> None:
    """Refuse mount points in one another on nodes of one pool, its own volumes included; a local place may be a volume's."""
    for pool in found.pools.values():
        volumes = {name: volume.mount for name, volume in (pool.spec.nvme if pool.spec is not None else {}).items()}
        seen: list[tuple[str, str, str]] = [(f"volume {name} of {pool.name}", path, "volume") for name, path in volumes.items()]
        for index, storage, path in _of_pool(found, entries, pool.name):
            for name, other, kind in seen:
                same = storage.kind == "local" and kind == "volume" and path == other
                if not same and nested(path, other):
                    key = "path" if storage.kind == "local" else "mount"
                    found.problem("storage", (index, key), path, f"lies in or over {other}, where {name} is mounted")
            seen.append((storage.name, path, storage.kind))


def _of_pool(found: Gathered, entries: list[Storage], pool: str) -> Iterator[tuple[int, Storage, str]]:
    for index, storage in enumerate(entries):
        path = storage.path if storage.kind == "local" else storage.mount
        if path is not None and pool in pools_of(found, storage):
            yield index, storage, path
