# SPDX-License-Identifier: Apache-2.0
"""Kubelet drop-ins of a pool: resource managers and what they need, in KubeletConfiguration's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .model_pool import GpuPool

DEFAULT_EVICTION_MEMORY = "100Mi"
"""Kubelet's own default of evictionHard memory.available (Kubernetes documentation, node-pressure eviction)."""

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_UNITS.update({f"{unit}i": 1024**power for power, unit in enumerate("KMGTP", 1)})


def quantity_bytes(text: str) -> int:
    """Return a quantity such as ``16Gi`` in bytes; raise ValueError for a share such as ``5%``."""
    number = text.rstrip("kKMGTPi")
    return int(float(number) * _UNITS[text[len(number) :]])


def eviction_memory(site_config: Mapping[str, Any], pool_config: Mapping[str, Any]) -> str:
    """Return the hard eviction threshold of memory that will hold on the pool's nodes."""
    merged: dict[str, Any] = {**(site_config.get("evictionHard") or {}), **(pool_config.get("evictionHard") or {})}
    return str(merged.get("memory.available", DEFAULT_EVICTION_MEMORY))


def pool_fragment(spec: GpuPool, site_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pool's KubeletConfiguration fragment; empty for a pool that asks for nothing.

    With the Static memory manager the memory reserved on the NUMA nodes must add up to systemReserved plus the hard eviction
    threshold (Kubernetes documentation, memory manager); it is divided evenly, the remainder on node 0.
    """
    kubelet = spec.kubelet
    fragment: dict[str, Any] = {}
    if kubelet.cpu_manager != "none":
        fragment["cpuManagerPolicy"] = kubelet.cpu_manager
    if kubelet.reserved.cpus is not None:
        fragment["reservedSystemCPUs"] = kubelet.reserved.cpus
    if kubelet.reserved.memory is not None:
        fragment["systemReserved"] = {"memory": kubelet.reserved.memory}
    if kubelet.memory_manager != "None":
        fragment["memoryManagerPolicy"] = kubelet.memory_manager
        fragment["reservedMemory"] = _reserved_memory(spec, eviction_memory(site_config, kubelet.config))
    if kubelet.topology_manager != "none":
        fragment["topologyManagerPolicy"] = kubelet.topology_manager
    return {**fragment, **kubelet.config}


def _reserved_memory(spec: GpuPool, eviction: str) -> list[dict[str, Any]]:
    nodes: int = spec.numa_nodes or 1
    reserved: str | None = spec.kubelet.reserved.memory
    total = quantity_bytes(reserved or "0") + quantity_bytes(eviction)
    share, rest = divmod(total, nodes)
    return [{"numaNode": node, "limits": {"memory": str(share + (rest if node == 0 else 0))}} for node in range(nodes)]
