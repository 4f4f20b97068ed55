# SPDX-License-Identifier: Apache-2.0
"""Checks across sections, pools and hosts. Each adds findings; none stops another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.kubelet_fields import FIELDS as KUBELET_FIELDS

from .check_fabric import check_fabric
from .check_gpu import check_gpu
from .check_network import check_network
from .check_nvme import check_nvme
from .check_storage import check_storage
from .gather import CONTROL_PLANE, GPU_NODES, Gathered
from .inventory import BUILT_IN_GROUPS
from .kube_proxy_fields import FIELDS as KUBE_PROXY_FIELDS
from .kubelet_config import eviction_memory
from .misplaced import check_places
from .model import NOT_USED_YET
from .model_fabric import RDMA_FABRICS
from .problem import ERROR, WARNING, Place, SiteProblem, suggestion
from .types import RFC_1123_RULE, address_or_none, is_dns_label, is_dns_name
from .versions import Versions

CREATE = "create"
PURPOSES = (CREATE, "change", "upgrade", "remove", "recover", "reset", "exit")
"""What a playbook is about to do. Only creation refuses an etcd size that cannot be kept; the others warn and go on."""

MAX_ETCD_MEMBERS = 5


def check_site(found: Gathered, versions: Versions, purpose: str = CREATE) -> None:
    """Add every finding that needs more than one value to be seen."""
    check_places(found)
    _host_names(found)
    _etcd_members(found, purpose)
    _kubernetes_version(found, versions)
    check_network(found)
    _component_fields(found)
    _pools(found)
    check_fabric(found)
    check_gpu(found)
    check_nvme(found)
    check_storage(found)
    _direct_members(found)
    _references(found)
    _not_used_yet(found)


def _host_names(found: Gathered) -> None:
    for host in found.hosts.values():
        if address_or_none(host.name) is not None:
            rule = "a host's name becomes the node's name: give it a name and put the address into ansible_host"
        elif not is_dns_name(host.name):
            rule = f"a host's name becomes the node's name: {RFC_1123_RULE}"
        else:
            continue
        found.problems.append(SiteProblem(host.place, "host", host.name, rule))


def _etcd_members(found: Gathered, purpose: str) -> None:
    names = [host.name for host in found.control_planes()]
    group = found.inventory.groups.get(CONTROL_PLANE)
    place = group.place if group else Place("inventory", 1)
    if not names:
        rule = f"the group {CONTROL_PLANE} must hold 1, 3 or 5 hosts"
        found.problems.append(SiteProblem(place, CONTROL_PLANE, "(no hosts)", rule))
        return
    count = len(names)
    if count <= MAX_ETCD_MEMBERS and count % 2 == 1:
        return
    if count > MAX_ETCD_MEMBERS:
        rule = f"each is an etcd member, and every write waits for a majority of them: at most {MAX_ETCD_MEMBERS}; use 1, 3 or 5"
    else:
        rule = f"{count} etcd members survive no more losses than {count - 1}, and their majority is larger; use 1, 3 or 5"
    severity = ERROR if purpose == CREATE else WARNING
    found.problems.append(SiteProblem(place, CONTROL_PLANE, f"{count} hosts ({', '.join(names)})", rule, severity))


def _kubernetes_version(found: Gathered, versions: Versions) -> None:
    cluster = found.sections.get("cluster")
    known = versions.kubernetes()
    if cluster is not None and cluster.kubernetes_version not in known:
        rule = f"this release of Bedplate deploys {', '.join(known)} (versions.yml)"
        found.problem("cluster", ("kubernetes_version",), cluster.kubernetes_version, rule)


def _component_fields(found: Gathered) -> None:
    """Refuse misspelt fields of kubelet's and kube-proxy's configuration, and thresholds a static memory manager cannot take."""
    site_kubelet: dict[str, Any] = {}
    for section, known in (("kubelet", KUBELET_FIELDS), ("kube_proxy", KUBE_PROXY_FIELDS)):
        settings = found.sections.get(section)
        if settings is None or section not in found.written:
            continue
        site_kubelet = settings.config if section == "kubelet" else site_kubelet
        for name in settings.config:
            if name not in known:
                rule = f"unknown field{suggestion(name, known)}"
                found.problem(section, ("config", name), settings.config[name], rule)
    for pool in found.pools.values():
        if pool.spec is None or pool.written is None:
            continue
        kubelet = pool.spec.kubelet
        for name in kubelet.config:
            if name not in KUBELET_FIELDS:
                rule = f"unknown field{suggestion(name, KUBELET_FIELDS)}"
                found.problems.append(pool.problem(("kubelet", "config", name), kubelet.config[name], rule))
        eviction = eviction_memory(site_kubelet, kubelet.config)
        if kubelet.memory_manager == "Static" and eviction.endswith("%"):
            rule = (
                f"Static needs a hard eviction threshold in bytes, such as 100Mi; memory.available of evictionHard is {eviction}"
            )
            found.problems.append(pool.problem(("kubelet", "memory_manager"), kubelet.memory_manager, rule))


def _pools(found: Gathered) -> None:
    seen: dict[str, str] = {}
    for pool in found.pools.values():
        if pool.name == "system":
            continue
        flavor = pool.name.replace("_", "-")
        if not is_dns_label(flavor):
            rule = "a pool's name becomes labels and queue flavors: lower-case letters, digits, '-' and '_', 63 at most"
            found.problems.append(SiteProblem(pool.place, "pool", pool.name, rule))
        elif flavor in seen:
            found.problems.append(SiteProblem(pool.place, "pool", pool.name, f"too close to the pool {seen[flavor]}"))
        seen.setdefault(flavor, pool.name)
        if not pool.hosts:
            found.problems.append(SiteProblem(pool.place, "pool", pool.name, "has no hosts", WARNING))
        if pool.spec is not None and pool.spec.fabric in RDMA_FABRICS:
            _places_of_hosts(found, pool.hosts, pool.name, pool.spec.fabric)


def _places_of_hosts(found: Gathered, hosts: Sequence[str], pool: str, fabric: str) -> None:
    for name in hosts:
        host = found.hosts[name]
        for key in ("rack", "topology_block"):
            if getattr(host.data, key) is None and key not in host.written:
                rule = f"hosts of a pool with fabric {fabric} ({pool}) need it: jobs are placed by {key}"
                found.problems.append(host.problem(key, "(missing)", rule))


def _direct_members(found: Gathered) -> None:
    inventory = found.inventory
    group = inventory.groups.get(GPU_NODES)
    for name, place in (group.hosts if group else {}).items():
        if found.hosts.get(name) is None:
            rule = f"stands directly under {GPU_NODES}: put the host into a pool, a group below {GPU_NODES}"
            found.problems.append(SiteProblem(place, "host", name, rule))
    if group is None and not inventory.hosts_of("system_nodes"):
        for name in inventory.groups:
            if name not in BUILT_IN_GROUPS and (hint := suggestion(name, [GPU_NODES, "system_nodes"])):
                found.problems.append(SiteProblem(inventory.groups[name].place, "group", name, f"unknown group{hint}"))


def _references(found: Gathered) -> None:
    _unique(found, "registries", "host")
    for section in ("queues", "tenants", "storage", "monitoring"):
        _unique(found, section, "name")
    packages = found.sections.get("packages")
    if packages is not None and "packages" in found.written:
        for key in ("repositories", "authorities"):
            _unique_in(found, "packages", (key,), [item.name for item in getattr(packages, key)], "name")
    pools = [name for name in found.pools if name != "system"]
    queues = _names(found, "queues")
    tenants = _names(found, "tenants")
    for index, queue in enumerate(found.sections.get("queues") or []):
        _unique_in(found, "queues", (index, "pools"), [share.pool for share in queue.pools], "pool")
        for position, share in enumerate(queue.pools):
            _known(found, "queues", (index, "pools", position, "pool"), share.pool, pools, "pool")
            _enough(found, (index, "pools", position, "gpus"), share.pool, share.gpus)
    for index, tenant in enumerate(found.sections.get("tenants") or []):
        for position, name in enumerate(tenant.queues):
            _known(found, "tenants", (index, "queues", position), name, queues, "queue")
    for index, storage in enumerate(found.sections.get("storage") or []):
        for position, name in enumerate(storage.tenants):
            _known(found, "storage", (index, "tenants", position), name, tenants, "tenant")


def _not_used_yet(found: Gathered) -> None:
    for section in NOT_USED_YET:
        if section in found.written and found.sections.get(section):
            found.problem(section, (), "(written)", "is checked and kept, but nothing acts on it yet", WARNING)


def _names(found: Gathered, section: str) -> list[str] | None:
    """Return the names of a section's entries; None when the section is wrong, so that nothing is compared with it."""
    if section not in found.sections:
        return None
    return [item.name for item in found.sections[section] or []]


def _unique(found: Gathered, section: str, key: str) -> None:
    if section in found.written and section in found.sections:
        _unique_in(found, section, (), [getattr(item, key) for item in found.sections[section] or []], key)


def _unique_in(found: Gathered, section: str, path: tuple[str | int, ...], names: Sequence[str], key: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            found.problem(section, (*path, index, key), name, f"stands twice (first as entry {names.index(name)})")


def _known(found: Gathered, section: str, path: tuple[str | int, ...], name: str, known: Sequence[str] | None, kind: str) -> None:
    if known is not None and name not in known:
        hint = suggestion(name, known) or f"; known are {', '.join(known) or 'none'}"
        found.problem(section, path, name, f"there is no {kind} of this name{hint}")


def _enough(found: Gathered, path: tuple[str | int, ...], name: str, gpus: int) -> None:
    pool = found.pools.get(name)
    if pool is None or pool.spec is None:
        return
    total = pool.spec.gpus_per_node * len(pool.hosts)
    if gpus > total:
        rule = f"more than the pool {name} has: {len(pool.hosts)} nodes with {pool.spec.gpus_per_node} GPUs are {total}"
        found.problem("queues", path, gpus, rule, WARNING)
