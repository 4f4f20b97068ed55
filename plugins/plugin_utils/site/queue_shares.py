# SPDX-License-Identifier: Apache-2.0
"""What a pool has and what a share of it comes to, resource by resource. Pure.

A share is written in GPUs. What pods ask for are resources: GPUs by the names that the pool's sharing creates, and CPUs, memory,
disk and places for pods, which go with the GPUs in proportion unless the share says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.mig import advertised

from .gather import Gathered, Pool
from .kubelet_config import eviction_memory, quantity_bytes
from .model_pool import GpuPool
from .model_queue import Share

CPU, MEMORY, DISK, PODS = "cpu", "memory", "ephemeral-storage", "pods"
DRA_RESOURCE = "dra.bedplate.dev/gpu"
"""Stands for a device of a claim (DRA), which is no resource of a container."""
DEFAULT_MAX_PODS = 110
"""Kubelet's own default of maxPods (Kubernetes documentation, KubeletConfiguration)."""
MIB, GIB = 1024**2, 1024**3


@dataclass(frozen=True)
class Quota:
    """Amounts of one resource as Kubernetes writes quantities. borrow, lend: None for no limit."""

    nominal: str
    borrow: str | None = None
    lend: str | None = None


@dataclass(frozen=True)
class PoolCapacity:
    """What a pool's hosts have for pods, all together; None for what the site data do not say.

    cpus: in thousandths. memory_bytes: installed, without what the pool's kubelet settings keep off pods.
    """

    gpus: int
    cpus: int | None
    memory_bytes: int | None
    pods: int


def pool_capacity(found: Gathered, pool: Pool) -> PoolCapacity:
    """Return what a pool has."""
    spec = pool.spec
    assert spec is not None
    hosts = len(pool.hosts)
    site = found.sections["kubelet"].config if found.sections.get("kubelet") else {}
    reserved = spec.kubelet.reserved
    cpus = memory = None
    if spec.cpus is not None:
        cpus = hosts * 1000 * (spec.cpus - _listed(reserved.cpus))
    if spec.memory is not None:
        eviction = eviction_memory(site, spec.kubelet.config)
        kept = quantity_bytes(reserved.memory or "0") + (0 if eviction.endswith("%") else quantity_bytes(eviction))
        memory = hosts * (quantity_bytes(spec.memory) - kept)
    most_pods = {**site, **spec.kubelet.config}.get("maxPods")
    pods = hosts * (most_pods if isinstance(most_pods, int) else DEFAULT_MAX_PODS)
    return PoolCapacity(hosts * spec.gpus_per_node, cpus, memory, pods)


def gpu_resources(spec: GpuPool, gpus: int) -> dict[str, int]:
    """Return the resources by which pods ask for a number of a pool's GPUs."""
    if spec.shown_by == "dra":
        return {DRA_RESOURCE: gpus}
    return advertised(gpus, sharing=spec.sharing, geometry=spec.mig, strategy=spec.mig_strategy, slices=spec.time_slices)


def accompanying(share: Share, capacity: PoolCapacity, gpus: int) -> dict[str, int]:
    """Return what goes with a number of GPUs of a share, by resource, in thousandths of a CPU and in bytes.

    As the share states it for its own GPUs, else in proportion to what the pool has; what neither says is left out.
    """
    stated = {
        CPU: None if share.cpus is None else 1000 * share.cpus,
        MEMORY: None if share.memory is None else quantity_bytes(share.memory),
        DISK: None if share.ephemeral_storage is None else quantity_bytes(share.ephemeral_storage),
    }
    whole = {CPU: capacity.cpus, MEMORY: capacity.memory_bytes, PODS: capacity.pods}
    found: dict[str, int] = {}
    for name in (CPU, MEMORY, DISK, PODS):
        own, all_there_is = stated.get(name), whole.get(name)
        if own is not None and (share.gpus or gpus == 0):
            found[name] = own * gpus // share.gpus if share.gpus else own
        elif all_there_is is not None:
            found[name] = all_there_is * gpus // capacity.gpus if capacity.gpus else 0
        elif own is not None:
            found[name] = own
    return found


def quotas(share: Share, spec: GpuPool, capacity: PoolCapacity) -> dict[str, Quota]:
    """Return a share's quotas by resource; what neither the share nor its pool says is left out."""

    def amounts(gpus: int | None) -> dict[str, str]:
        if gpus is None:
            return {}
        found = {**gpu_resources(spec, gpus), **accompanying(share, capacity, gpus)}
        return {name: TEXTS.get(name, str)(count) for name, count in found.items()}

    own, borrow, lend = (amounts(gpus) for gpus in (share.gpus, share.borrow, share.lend))
    return {name: Quota(nominal, borrow.get(name), lend.get(name)) for name, nominal in own.items()}


def covered(shares: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the resources a queue covers, from the quotas of its shares.

    GPUs by every name (a pool without one offers none of it), and what is known of all of its pools: with a zero in place of what
    is not known, work would wait for ever.
    """
    names = list(dict.fromkeys(name for share in shares for name in share))
    return [name for name in names if name not in (CPU, MEMORY, DISK, PODS) or all(name in share for share in shares)]


def cpu_text(thousandths: int) -> str:
    """Return CPUs as a quantity."""
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def memory_text(count: int) -> str:
    """Return bytes as a quantity: whole gibibytes, or mebibytes where that would lose more than a hundredth."""
    return f"{count // GIB}Gi" if count % GIB == 0 or count >= 100 * GIB else f"{count // MIB}Mi"


TEXTS: dict[str, Callable[[int], str]] = {CPU: cpu_text, MEMORY: memory_text, DISK: memory_text}
"""How amounts are written; those that are not here are counts."""


def _listed(cpus: str | None) -> int:
    """Return how many CPUs a list such as ``0-3,64`` names."""
    parts = [part.partition("-") for part in (cpus or "").split(",") if part]
    return sum(int(last or first) - int(first) + 1 for first, _dash, last in parts)
