# SPDX-License-Identifier: Apache-2.0
"""Labels and taints of nodes: planned from one list call, patched only where they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import BedplateError, Change
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, KubeError, node_path

MANAGED = "bedplate.dev/pool"
"""Annotation (JSON, format 1): the label and taint keys set here, so that they are removed again when no longer wanted."""
FORMAT = 1
ATTEMPTS = 4

Taint = Mapping[str, str]


@dataclass(frozen=True)
class NodeDesired:
    """What a node shall carry. labels include those under node-restriction.kubernetes.io/. taints: key, value, effect."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> NodeDesired:
        """Build from a host's derived data: labels, node_restriction_labels, taints (None values left out)."""
        labels = {**(data.get("labels") or {}), **(data.get("node_restriction_labels") or {})}
        taints = [{k: str(v) for k, v in taint.items() if v is not None} for taint in data.get("taints") or []]
        return cls({key: str(value) for key, value in labels.items() if value is not None}, taints)


@dataclass(frozen=True)
class NodePlan:
    """Changes to one node and the merge patch that makes them (empty when nothing differs)."""

    changes: Sequence[Change] = ()
    patch: Mapping[str, Any] = field(default_factory=dict)


def plan_node(node: Mapping[str, Any], desired: NodeDesired) -> NodePlan:
    """Compare a Node object with what it shall carry; pure.

    Labels and taints of others are kept. The patch carries the resourceVersion, so a list of taints that somebody else changed
    meanwhile is refused by the API instead of being overwritten.
    """
    name = node["metadata"]["name"]
    managed = _managed(node)
    labels: dict[str, str] = node["metadata"].get("labels") or {}
    patch_labels: dict[str, str | None] = {k: v for k, v in desired.labels.items() if labels.get(k) != v}
    patch_labels.update({k: None for k in managed["labels"] if k in labels and k not in desired.labels})
    changes = [Change(f"node {name} label {key}", labels.get(key), value) for key, value in sorted(patch_labels.items())]
    taints: list[dict[str, Any]] = list((node.get("spec") or {}).get("taints") or [])
    wanted_taints = merge_taints(taints, desired.taints, managed["taints"])
    changed_taints = wanted_taints != taints
    if changed_taints:
        changes.append(Change(f"node {name} taints", [_short(t) for t in taints], [_short(t) for t in wanted_taints]))
    keys = {"labels": sorted(desired.labels), "taints": sorted({t["key"] for t in desired.taints})}
    metadata: dict[str, Any] = {}
    if patch_labels:
        metadata["labels"] = patch_labels
    if keys != managed:
        metadata["annotations"] = {MANAGED: json.dumps({"format": FORMAT, **keys}, sort_keys=True)}
        if not changes:
            changes.append(Change(f"node {name} annotation {MANAGED}", managed, keys))
    if not changes:
        return NodePlan()
    patch: dict[str, Any] = {"metadata": {**metadata, "resourceVersion": node["metadata"].get("resourceVersion")}}
    if changed_taints:
        patch["spec"] = {"taints": wanted_taints}
    return NodePlan(changes, patch)


def merge_taints(found: Sequence[Mapping[str, Any]], desired: Sequence[Taint], managed: Sequence[str]) -> list[dict[str, Any]]:
    """Return the taints a node shall have: those found without managed ones no longer wanted, with the desired ones set."""
    wanted = {(t["key"], t["effect"]): t for t in desired}
    result: list[dict[str, Any]] = []
    for taint in found:
        identity = (taint["key"], taint["effect"])
        if identity in wanted:
            target = wanted.pop(identity)
            same = (taint.get("value") or "") == (target.get("value") or "")
            result.append(dict(taint) if same else dict(target))
        elif taint["key"] not in managed:
            result.append(dict(taint))
    return [*result, *(dict(t) for t in wanted.values())]


def reconcile(
    api: Api, hosts: Sequence[str], desired: Mapping[str, Mapping[str, Any]], *, check: bool
) -> tuple[list[Change], dict[str, str]]:
    """Bring the nodes of hosts to what they shall carry; return changes and, by host without a Node, a message."""
    wanted = {host: NodeDesired.of(desired.get(host) or {}) for host in hosts}
    nodes = {node["metadata"]["name"]: node for node in api.nodes()}
    changes: list[Change] = []
    missing: dict[str, str] = {}
    for host in hosts:
        if host not in nodes:
            missing[host] = f"node {host}: found no Node object; wanted one. Next: see why the host did not join, then repeat"
            continue
        plan = plan_node(nodes[host], wanted[host])
        changes += plan.changes
        if plan.patch and not check:
            _patch(api, nodes[host], wanted[host], plan)
    return changes, missing


def _patch(api: Api, node: Mapping[str, Any], desired: NodeDesired, plan: NodePlan) -> None:
    """Patch a node; when it changed since it was listed, look again."""
    path = node_path(node["metadata"]["name"])
    for _attempt in range(ATTEMPTS):
        try:
            if plan.patch:
                api.patch(path, plan.patch)
            return
        except KubeError as error:
            if error.status != 409:
                raise
        plan = plan_node(api.get(path), desired)
    raise BedplateError(f"node {node['metadata']['name']}: found it changing {ATTEMPTS} times while patching it. Next: repeat")


def _managed(node: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the keys set by an earlier run; an annotation that cannot be read counts as none."""
    text = (node["metadata"].get("annotations") or {}).get(MANAGED)
    try:
        data = json.loads(text) if text else {}
    except ValueError:
        data = {}
    if data and data.get("format") != FORMAT:
        raise BedplateError(
            f"node {node['metadata']['name']} annotation {MANAGED}: found format {data.get('format')!r}; wanted {FORMAT}. "
            "Next: use the Bedplate release that wrote it"
        )
    return {"labels": sorted(data.get("labels") or []), "taints": sorted(data.get("taints") or [])}


def _short(taint: Mapping[str, Any]) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"
