# SPDX-License-Identifier: Apache-2.0
"""From the inventory as written to typed site data: sections, pools, hosts; with everything that is wrong on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from . import older
from .explain import check
from .inventory import ALL, Inventory
from .model import SECTIONS, Site
from .model_host import HostData
from .model_pool import GpuPool
from .problem import Place, SiteProblem
from .resolve import Resolved, ResolveError, Resolver, is_template, resolve
from .types import Shape, address_or_none
from .yamlfile import Path

CONTROL_PLANE = "control_plane"
SYSTEM_NODES = "system_nodes"
GPU_NODES = "gpu_nodes"
STORAGE_SERVERS = "storage_servers"
POOL_SPEC = "gpu_pool"
RESERVED_POOL_NAMES = ("system", "control-plane", CONTROL_PLANE, SYSTEM_NODES, GPU_NODES, STORAGE_SERVERS)
HOST_KEYS = tuple(HostData.model_fields)


@dataclass
class SiteHost:
    """A host. kind: control-plane, worker, or storage-server (no node). address: ansible_host where it is an IP address."""

    name: str
    kind: str
    pool: str
    place: Place
    data: HostData = field(default_factory=HostData)
    address: str | None = None
    written: dict[str, Resolved] = field(default_factory=dict)

    def problem(self, key: str, value: Any, rule: str, severity: str = "error") -> SiteProblem:
        """Return a finding about a variable of the host, at its line or else at the host's."""
        if key in self.written:
            found = self.written[key].problem((), value, rule, severity)
            return SiteProblem(found.place, f"{self.name}.{key}", found.value, rule, severity)
        return SiteProblem(self.place, f"{self.name}.{key}", str(value), rule, severity)


@dataclass
class Pool:
    """A pool and its hosts; spec is None for the system pool and for a pool whose spec is wrong."""

    name: str
    place: Place
    hosts: list[str]
    spec: GpuPool | None = None
    written: Resolved | None = None

    def problem(self, path: Path, value: Any, rule: str, severity: str = "error") -> SiteProblem:
        """Return a finding about a part of the spec."""
        assert self.written is not None
        found = self.written.problem(path, value, rule, severity)
        return SiteProblem(found.place, f"{self.name}.{found.key}", found.value, rule, severity)


@dataclass
class Gathered:
    """All that is known of the site. sections: typed, those that are right; written: as resolved, also wrong ones. hosts: nodes;
    servers: hosts that are none.
    """

    inventory: Inventory
    sections: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Resolved] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    hosts: dict[str, SiteHost] = field(default_factory=dict)
    servers: dict[str, SiteHost] = field(default_factory=dict)
    problems: list[SiteProblem] = field(default_factory=list)

    def control_planes(self) -> list[SiteHost]:
        """Return the control-plane hosts in the order written."""
        return [host for host in self.hosts.values() if host.kind == "control-plane"]

    def complete(self) -> bool:
        """Tell whether everything of the site could be read; encrypted values need their password."""
        return set(SECTIONS) <= set(self.sections) and all(pool.spec for pool in self.pools.values() if pool.written is not None)

    def site(self) -> Site:
        """Return the typed site; only for a site without errors."""
        return Site.model_construct(**self.sections)

    def problem(self, section: str, path: Sequence[str | int], value: Any, rule: str, severity: str = "error") -> None:
        """Add a finding about a section."""
        self.problems.append(self.written[section].problem(tuple(path), value, rule, severity))


def gather(inventory: Inventory, resolver: Resolver | None) -> Gathered:
    """Read sections, pools and hosts out of an inventory."""
    found = Gathered(inventory, problems=list(inventory.problems))
    first = next(iter(inventory.host_variables), None)
    _sections(found, first, resolver)
    _hosts(found, resolver)
    _pool_specs(found, resolver)
    return found


def _sections(found: Gathered, host: str | None, resolver: Resolver | None) -> None:
    everyone = found.inventory.groups[ALL].variables if ALL in found.inventory.groups else {}
    for name in SECTIONS:
        info = Site.model_fields[name]
        variable = everyone.get(name)
        if variable is None:
            if info.is_required():
                found.problems.append(_missing_section(found.inventory, name))
            else:
                found.sections[name] = info.default
            continue
        resolved = found.written[name] = resolve(variable, host, resolver)
        refused = older.older_registries(resolved) if name == "registries" else []
        if refused:
            found.problems.extend([*resolved.problems, *refused])
            continue
        adapter = _adapter(Site, name)
        model, problems = check(resolved, adapter)
        found.problems.extend(problems)
        if model is not None or (resolved.value is None and not problems):
            found.sections[name] = model
        elif not problems:
            found.problems.append(resolved.unread())
    found.problems.extend(older.misplaced(everyone))


def _missing_section(inventory: Inventory, name: str) -> SiteProblem:
    place = inventory.groups[ALL].place if ALL in inventory.groups else Place("inventory", 1)
    hidden = f" (not looked for in the encrypted {', '.join(inventory.encrypted)})" if inventory.encrypted else ""
    return SiteProblem(place, name, "(missing)", f"the site data must have this section in group_vars/all{hidden}")


def _hosts(found: Gathered, resolver: Resolver | None) -> None:
    inventory = found.inventory
    for name, place in inventory.hosts_of(CONTROL_PLANE).items():
        found.hosts[name] = SiteHost(name, "control-plane", "system", place)
    members = {SYSTEM_NODES: inventory.hosts_of(SYSTEM_NODES)}
    pools = inventory.groups[GPU_NODES].children if GPU_NODES in inventory.groups else {}
    for pool, place in pools.items():
        if pool in RESERVED_POOL_NAMES:
            rule = "this name is taken by Bedplate itself; name the pool otherwise"
            found.problems.append(SiteProblem(place, "pool", pool, rule))
            continue
        members[pool] = inventory.hosts_of(pool)
        group = inventory.groups.get(pool)
        found.pools[pool] = Pool(pool, group.place if group else place, list(members[pool]))
    for group_name, hosts in members.items():
        pool = "system" if group_name == SYSTEM_NODES else group_name
        for name, place in hosts.items():
            if name in found.hosts:
                other = found.hosts[name]
                there = CONTROL_PLANE if other.kind == "control-plane" else other.pool
                rule = f"a host belongs to exactly one pool; it is also in {there} ({other.place.file}:{other.place.line})"
                found.problems.append(SiteProblem(place, f"{group_name}.hosts", name, rule))
            else:
                found.hosts[name] = SiteHost(name, "worker", pool, place)
    system = [h.name for h in found.hosts.values() if h.pool == "system"]
    if members[SYSTEM_NODES]:
        system = [name for name in system if found.hosts[name].kind == "worker"]
        for host in found.control_planes():
            host.pool = "control-plane"
    place = inventory.groups[CONTROL_PLANE].place if CONTROL_PLANE in inventory.groups else Place("inventory", 1)
    found.pools["system"] = Pool("system", place, system)
    for name, place in inventory.hosts_of(STORAGE_SERVERS).items():
        if name in found.hosts:
            rule = f"is a node as well, which may serve shares without being in {STORAGE_SERVERS}: take it out of here"
            found.problems.append(SiteProblem(place, f"{STORAGE_SERVERS}.hosts", name, rule))
        else:
            found.servers[name] = SiteHost(name, "storage-server", STORAGE_SERVERS, place)
    for host in (*found.hosts.values(), *found.servers.values()):
        _host_data(found, host, resolver)


def _host_data(found: Gathered, host: SiteHost, resolver: Resolver | None) -> None:
    values: dict[str, Any] = {}
    for key in HOST_KEYS:
        variable = found.inventory.variable(host.name, key)
        if variable is None:
            continue
        resolved = host.written[key] = resolve(variable, host.name, resolver)
        value, problems = check(resolved, _adapter(HostData, key))
        values[key] = value
        for problem in problems:
            key_name = f"{host.name}.{problem.key}"
            found.problems.append(SiteProblem(problem.place, key_name, problem.value, problem.rule, problem.severity))
    host.data = HostData.model_construct(**values)
    host.address = _address(found, host, resolver)


@cache
def _adapter(shape: type[Shape], key: str) -> TypeAdapter[Any]:
    annotation: Any = shape.model_fields[key].annotation
    return TypeAdapter(annotation)


def _address(found: Gathered, host: SiteHost, resolver: Resolver | None) -> str | None:
    variable = found.inventory.variable(host.name, "ansible_host")
    if variable is None:
        address = address_or_none(host.name)
        return str(address) if address else None
    host.written["ansible_host"] = Resolved("ansible_host", variable.value, variable.places)
    value = variable.value
    if is_template(value) and resolver is not None:
        try:
            value = resolver.value(host.name, ("ansible_host",))
        except ResolveError:
            return None
    address = address_or_none(value)
    return str(address) if address else None


def _pool_specs(found: Gathered, resolver: Resolver | None) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(GpuPool)
    for pool in found.pools.values():
        group = found.inventory.groups.get(pool.name)
        variable = group.variables.get(POOL_SPEC) if group else None
        if pool.name == "system" or (variable is None and group is None):
            continue
        if variable is None:
            rule = f"a pool needs a spec: write gpu_pool: {{accelerator: …}} in group_vars/{pool.name}.yml"
            found.problems.append(SiteProblem(pool.place, f"{pool.name}.{POOL_SPEC}", "(missing)", rule))
            continue
        pool.written = resolve(variable, pool.hosts[0] if pool.hosts else None, resolver)
        pool.spec, problems = check(pool.written, adapter)
        if pool.spec is None and not problems:
            problems = [pool.written.unread()]
        for p in problems:
            found.problems.append(SiteProblem(p.place, f"{pool.name}.{p.key}", p.value, p.rule, p.severity))
