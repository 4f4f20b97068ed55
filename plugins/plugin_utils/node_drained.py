# SPDX-License-Identifier: Apache-2.0
"""Whether a node is drained: cordoned, and without pods that a drain would have taken away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.wording import listing
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, node_path

SHOWN = 5


def require_drained(api: Api, name: str) -> None:
    """Raise :class:`BedplateError` unless the node is drained; a host that is no node carries no work either."""
    node = api.find(node_path(name))
    if node is None:
        return
    step = f"drain it (kubectl drain {name} --ignore-daemonsets), then repeat"
    if not (node.get("spec") or {}).get("unschedulable"):
        raise BedplateError(f"node {name}: found it schedulable; wanted it cordoned and drained. Next: {step}")
    pods = work(api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={name}")["items"])
    if pods:
        raise BedplateError(f"node {name}: found pods on it ({listing(pods, SHOWN)}); wanted it drained. Next: {step}")


def work(pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the pods that are work, as namespace/name: not those of DaemonSets, static ones, and those that have ended."""
    found = []
    for pod in pods:
        metadata = pod["metadata"]
        kinds = {owner["kind"] for owner in metadata.get("ownerReferences") or []}
        static = "kubernetes.io/config.mirror" in (metadata.get("annotations") or {})
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if "DaemonSet" not in kinds and not static and not ended:
            found.append(f"{metadata['namespace']}/{metadata['name']}")
    return sorted(found)
