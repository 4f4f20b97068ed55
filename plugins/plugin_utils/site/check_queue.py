# SPDX-License-Identifier: Apache-2.0
"""Checks of queues, cohorts, priorities and tenants against each other and against the pools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.mig import GPU_RESOURCE

from .check_references import names, referenced, unique_in
from .gather import Gathered
from .model_fabric import RDMA_FABRICS
from .model_queue import PRIORITIES, Queueing, Share
from .problem import WARNING, suggestion
from .queue_shares import CPU, MEMORY, TEXTS, accompanying, gpu_resources, pool_capacity
from .resolve import MISSING
from .yamlfile import Path

DEFAULT = "default"
"""Kueue takes the queue, and the priority, of this name for work that names none."""
SYSTEM_NAMESPACES = ("default", "rdma-device-plugin")
RESERVED_PREFIX = "kube-"
"""Namespaces of Kubernetes itself begin with it."""


@dataclass(frozen=True)
class Held:
    """A share as written. owner: the queue or cohort. section, path: where it stands. lender: towards whom its limits hold."""

    owner: str
    section: str
    path: Path
    share: Share
    lender: str | None


def check_queues(found: Gathered, broken_promise: str) -> None:
    """Add every finding about the queue. broken_promise: how severe it is that a pool has less than is promised."""
    held = list(shares_of(found))
    _shares(found, held)
    _promises(found, held, broken_promise)
    _coverage(found, held)
    _levels(found, held)
    _queues(found)
    _cohorts(found)
    _priorities(found)
    _tenants(found)


def shares_of(found: Gathered) -> Iterator[Held]:
    """Yield the shares of queues and cohorts."""
    for index, queue in enumerate(found.sections.get("queues") or []):
        for position, share in enumerate(queue.pools):
            yield Held(f"queue {queue.name}", "queues", (index, "pools", position), share, queue.cohort)
    for index, cohort in enumerate(_queueing(found).cohorts):
        for position, share in enumerate(cohort.pools):
            yield Held(f"cohort {cohort.name}", "queueing", ("cohorts", index, "pools", position), share, cohort.parent)


def _queueing(found: Gathered) -> Queueing:
    section: Queueing | None = found.sections.get("queueing")
    return section or Queueing()


def _shares(found: Gathered, held: list[Held]) -> None:
    """Refuse shares of pools that do not exist, two of one pool, and limits towards nobody."""
    pools = [name for name in found.pools if name != "system"]
    by_owner: dict[tuple[str, Path], list[str]] = {}
    for one in held:
        by_owner.setdefault((one.section, one.path[:-1]), []).append(one.share.pool)
        referenced(found, one.section, (*one.path, "pool"), one.share.pool, pools, "pool")
        for key in ("borrow", "lend"):
            if one.lender is None and (value := getattr(one.share, key)) is not None:
                needs = "cohort" if one.section == "queues" else "parent"
                rule = f"needs a {needs} to do so with: {one.owner} names none"
                found.problem(one.section, (*one.path, key), value, rule)
    for (section, path), written in by_owner.items():
        unique_in(found, section, path, written, "pool")


def _promises(found: Gathered, held: list[Held], severity: str) -> None:
    """Refuse shares that come to more than a pool has, by GPUs and by what is stated beside them."""
    for pool in found.pools.values():
        mine = [one for one in held if one.share.pool == pool.name]
        if pool.spec is None or not mine:
            continue
        capacity = pool_capacity(found, pool)
        gpus = f" with {pool.spec.gpus_per_node} GPUs"
        if (resources := gpu_resources(pool.spec, capacity.gpus)) != {GPU_RESOURCE: capacity.gpus}:
            gpus += f" ({', '.join(f'{count} {name}' for name, count in resources.items())})"
        rows = (
            ("gpus", None, capacity.gpus, gpus),
            ("cpus", CPU, capacity.cpus, ""),
            ("memory", MEMORY, capacity.memory_bytes, ""),
        )
        for key, resource, whole, what in rows:
            if whole is None:
                continue
            amounts = [
                accompanying(one.share, capacity, one.share.gpus)[resource] if resource else one.share.gpus for one in mine
            ]
            too_much = next((i for i in range(len(mine)) if sum(amounts[: i + 1]) > whole and _states(mine[i], key)), None)
            if too_much is None:
                continue
            text = TEXTS.get(resource or "", str)
            said = ", ".join(f"{one.owner} {text(amount)}" for one, amount in zip(mine, amounts, strict=True))
            hosts = len(pool.hosts)
            rule = (
                f"more than the pool {pool.name} has: {hosts} node{'s' * (hosts != 1)}{what} have {text(whole)}, "
                f"promised are {text(sum(amounts))} ({said})"
            )
            one = mine[too_much]
            # A pool that waits for its first host may be promised already; that it has none is said as well.
            found.problem(one.section, (*one.path, key), getattr(one.share, key), rule, severity if hosts else WARNING)


def _states(one: Held, key: str) -> bool:
    return getattr(one.share, key) is not None


def _coverage(found: Gathered, held: list[Held]) -> None:
    """Say aloud what is not counted because nothing says how much of it there is."""
    for one in held:
        pool = found.pools.get(one.share.pool)
        if pool is None or pool.spec is None or pool.written is None:
            continue
        counted = accompanying(one.share, pool_capacity(found, pool), one.share.gpus)
        for key, resource in (("cpus", CPU), ("memory", MEMORY)):
            if resource not in counted:
                rule = (
                    "nothing says how much there is, so queues with a share of the pool do not count it (work may take what its "
                    "nodes have): give it here, or in each share"
                )
                found.problems.append(pool.problem((key,), MISSING, rule, WARNING))


def _levels(found: Gathered, held: list[Held]) -> None:
    """Refuse a pool some of whose hosts have no place: work would never be placed on them."""
    for name in dict.fromkeys(one.share.pool for one in held):
        pool = found.pools.get(name)
        if pool is None or pool.spec is None or pool.spec.fabric in RDMA_FABRICS:  # those must all have it anyway
            continue
        hosts = [found.hosts[host] for host in pool.hosts]
        for key in ("rack", "topology_block"):
            without = [host for host in hosts if getattr(host.data, key) is None]
            for host in without if len(without) < len(hosts) else ():
                if key not in host.written:
                    rule = f"other hosts of pool {name} have it: the queue places work by it on all of them or on none"
                    found.problems.append(host.problem(key, MISSING, rule))


def _queues(found: Gathered) -> None:
    tenants = found.sections.get("tenants")
    queues = found.sections.get("queues") or []
    cohorts = [queue.cohort for queue in queues if queue.cohort]
    declared = {cohort.name: cohort for cohort in _queueing(found).cohorts}
    for index, queue in enumerate(queues):
        if queue.name == DEFAULT:
            rule = "Kueue puts work that names no queue into one of this name, where it shall be held; name it otherwise"
            found.problem("queues", (index, "name"), queue.name, rule)
        if tenants is not None and not any(queue.name in tenant.queues for tenant in tenants):
            found.problem("queues", (index, "name"), queue.name, "no tenant may submit to it", WARNING)
        alone = queue.cohort is not None and cohorts.count(queue.cohort) == 1 and queue.cohort not in declared
        if alone:
            hint = suggestion(queue.cohort, {*cohorts, *declared} - {queue.cohort})
            found.problem("queues", (index, "cohort"), queue.cohort, f"no other queue names this cohort{hint}", WARNING)
    if queues:
        used = {one.share.pool for one in shares_of(found)}
        for pool in found.pools.values():
            if pool.written is not None and pool.name not in used:
                found.problems.append(pool.problem((), "(no queue)", "no queue has a share of this pool", WARNING))


def _cohorts(found: Gathered) -> None:
    cohorts = _queueing(found).cohorts
    known = [cohort.name for cohort in cohorts]
    unique_in(found, "queueing", ("cohorts",), known, "name")
    parents = {cohort.name: cohort.parent for cohort in cohorts}
    for index, cohort in enumerate(cohorts):
        if cohort.parent is None:
            continue
        referenced(found, "queueing", ("cohorts", index, "parent"), cohort.parent, known, "cohort")
        line, above = [cohort.name], parents.get(cohort.name)
        while above is not None and above not in line:
            line.append(above)
            above = parents.get(above)
        if above == cohort.name:
            rule = f"comes back to itself: {' → '.join([*line, cohort.name])}; one of them must have no parent"
            found.problem("queueing", ("cohorts", index, "parent"), cohort.parent, rule)


def _priorities(found: Gathered) -> None:
    written = _queueing(found).priorities
    if written is not None:
        unique_in(found, "queueing", ("priorities",), [priority.name for priority in written], "name")
    for index, priority in enumerate(written or ()):
        if priority.name == DEFAULT:
            rule = "Kueue gives the priority of this name to work that names none, which has 0; name it otherwise"
            found.problem("queueing", ("priorities", index, "name"), priority.name, rule)
    known = [priority.name for priority in (PRIORITIES if written is None else written)]
    for index, tenant in enumerate(found.sections.get("tenants") or []):
        for position, name in enumerate(tenant.priorities or []):
            there = known if "queueing" in found.sections else None
            referenced(found, "tenants", (index, "priorities", position), name, there, "priority")


def _tenants(found: Gathered) -> None:
    queues = names(found, "queues")
    gpu = found.sections.get("gpu")
    own = {_queueing(found).kueue.namespace: "Kueue's", **dict.fromkeys(SYSTEM_NAMESPACES, "Kubernetes' or Bedplate's")}
    if gpu is not None:
        own.update({part.namespace: "of what shows the GPUs" for part in (gpu.operator, gpu.device_plugin, gpu.dra)})
    for index, tenant in enumerate(found.sections.get("tenants") or []):
        for position, name in enumerate(tenant.queues):
            referenced(found, "tenants", (index, "queues", position), name, queues, "queue")
        if not tenant.queues:
            rule = "needs at least one: what runs in its namespace must name a queue"
            found.problem("tenants", (index, "queues"), "(none)", rule)
        if tenant.name in own or tenant.name.startswith(RESERVED_PREFIX):
            whose = own.get(tenant.name, "Kubernetes' own")
            found.problem("tenants", (index, "name"), tenant.name, f"is a namespace ({whose}); name the team otherwise")
