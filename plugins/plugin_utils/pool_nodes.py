# SPDX-License-Identifier: Apache-2.0
"""Labels and taints of nodes: planned from one list call, patched only where they differ.

How a node's GPUs are shown is decided by labels too (the exposure labels): a device plugin or operand comes to a node and leaves
it with them. They change only where no work can be disturbed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import DRAIN, Change
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, KubeError, node_path

MANAGED = "bedplate.dev/pool"
"""Annotation (JSON, format 1): the label and taint keys set here, so that they are removed again when no longer wanted."""
FORMAT = 1
ATTEMPTS = 4
REGISTER_SECONDS = 60.0
"""How long a host that has joined may be without a Node: kubeadm ends when kubelet has its certificate, before it registers."""
POLL_SECONDS = 1.0
EXPOSURE = "pool.bedplate.dev/exposure"
"""Label: how the node's GPUs are shown to Kubernetes."""
EXPOSURE_PREFIXES = (EXPOSURE, "nvidia.com/", "feature.node.kubernetes.io/")
"""Begin the keys of the labels that decide it."""
ROLLING_PLAYBOOK = "bedplate.metal.roll_pool"

Taint = Mapping[str, str]


@dataclass(frozen=True)
class NodeDesired:
    """What a node shall carry. labels include those under node-restriction.kubernetes.io/. taints: key, value, effect.

    exposure_labels: labels that change only on a node without work.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    exposure_labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> NodeDesired:
        """Build from a host's derived data: labels, node_restriction_labels, exposure_labels, taints (None values left out)."""
        labels = {**(data.get("labels") or {}), **(data.get("node_restriction_labels") or {})}
        taints = [{k: str(v) for k, v in taint.items() if v is not None} for taint in data.get("taints") or []]
        exposure = {key: str(value) for key, value in (data.get("exposure_labels") or {}).items() if value is not None}
        return cls({key: str(value) for key, value in labels.items() if value is not None}, taints, exposure)


@dataclass(frozen=True)
class NodePlan:
    """Changes to one node and the merge patch that makes them (empty when nothing differs). deferred: they wait for a drain."""

    changes: Sequence[Change] = ()
    patch: Mapping[str, Any] = field(default_factory=dict)
    deferred: Sequence[Change] = ()


@dataclass
class Reconciled:
    """What became of the nodes. deferred: by host, what waits for a drain. missing: by host without a Node, a message."""

    changes: list[Change] = field(default_factory=list)
    deferred: dict[str, list[Change]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def deferred_results(self) -> list[dict[str, Any]]:
        """Return what waits as a module returns it, each with its host and playbook."""
        pairs = [(host, change) for host, changes in self.deferred.items() for change in changes]
        return [{**change.public(), "host": host, "playbook": ROLLING_PLAYBOOK} for host, change in pairs]


def plan_node(node: Mapping[str, Any], desired: NodeDesired, *, busy: bool = False) -> NodePlan:
    """Compare a Node object with what it shall carry; pure. busy: it carries work, so shown GPUs stay as they are.

    Labels and taints of others are kept. The patch carries the resourceVersion, so a list of taints that somebody else changed
    meanwhile is refused by the API instead of being overwritten.
    """
    name = node["metadata"]["name"]
    managed = _managed(node)
    labels: dict[str, str] = node["metadata"].get("labels") or {}
    kept, deferred = _kept_exposure(name, labels, desired, managed["labels"]) if busy else (desired.exposure_labels, [])
    wanted = {**desired.labels, **kept}
    patch_labels: dict[str, str | None] = {k: v for k, v in wanted.items() if labels.get(k) != v}
    patch_labels.update({k: None for k in managed["labels"] if k in labels and k not in wanted})
    changes = [Change(f"node {name} label {key}", labels.get(key), value) for key, value in sorted(patch_labels.items())]
    taints: list[dict[str, Any]] = list((node.get("spec") or {}).get("taints") or [])
    wanted_taints = merge_taints(taints, desired.taints, managed["taints"])
    changed_taints = wanted_taints != taints
    if changed_taints:
        changes.append(Change(f"node {name} taints", [_short(t) for t in taints], [_short(t) for t in wanted_taints]))
    keys = {"labels": sorted(wanted), "taints": sorted({t["key"] for t in desired.taints})}
    metadata: dict[str, Any] = {}
    if patch_labels:
        metadata["labels"] = patch_labels
    if keys != managed:
        metadata["annotations"] = {MANAGED: json.dumps({"format": FORMAT, **keys}, sort_keys=True)}
        if not changes:
            changes.append(Change(f"node {name} annotation {MANAGED}", managed, keys))
    if not changes:
        return NodePlan(deferred=deferred)
    patch: dict[str, Any] = {"metadata": {**metadata, "resourceVersion": node["metadata"].get("resourceVersion")}}
    if changed_taints:
        patch["spec"] = {"taints": wanted_taints}
    return NodePlan(changes, patch, deferred)


def _kept_exposure(
    name: str, labels: Mapping[str, str], desired: NodeDesired, managed: Sequence[str]
) -> tuple[Mapping[str, str], list[Change]]:
    """Return the exposure labels a busy node keeps, and what waits; a node that shows no GPUs yet takes the desired ones."""
    if labels.get(EXPOSURE, "none") == "none":
        return desired.exposure_labels, []
    present = {k: labels[k] for k in managed if k in labels and k.startswith(EXPOSURE_PREFIXES) and k not in desired.labels}
    if present == desired.exposure_labels:
        return present, []
    return present, [Change(f"node {name} shown GPUs", present, dict(desired.exposure_labels), frozenset({DRAIN}))]


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
    api: Api,
    hosts: Sequence[str],
    desired: Mapping[str, Mapping[str, Any]],
    *,
    check: bool,
    busy: Collection[str] = (),
    wait_seconds: float = REGISTER_SECONDS,
) -> Reconciled:
    """Bring the nodes of hosts to what they shall carry. busy: hosts whose nodes carry work. wait_seconds: for missing nodes."""
    wanted = {host: NodeDesired.of(desired.get(host) or {}) for host in hosts}
    nodes = _nodes(api, hosts, 0 if check else wait_seconds)
    found = Reconciled()
    for host in hosts:
        if host not in nodes:
            text = f"node {host}: found no Node object; wanted one. Next: journalctl -u kubelet on the host says why, then repeat"
            found.missing[host] = text
            continue
        plan = plan_node(nodes[host], wanted[host], busy=host in busy)
        found.changes += plan.changes
        if plan.deferred:
            found.deferred[host] = list(plan.deferred)
        if plan.patch and not check:
            _patch(api, nodes[host], wanted[host], plan, busy=host in busy)
    return found


def _nodes(api: Api, hosts: Sequence[str], wait_seconds: float) -> dict[str, Mapping[str, Any]]:
    """Return the Node objects by name, as soon as the hosts have theirs or the time is over."""
    deadline = time.monotonic() + wait_seconds
    while True:
        nodes: dict[str, Mapping[str, Any]] = {node["metadata"]["name"]: node for node in api.nodes()}
        if nodes.keys() >= set(hosts) or time.monotonic() >= deadline:
            return nodes
        time.sleep(POLL_SECONDS)


def _patch(api: Api, node: Mapping[str, Any], desired: NodeDesired, plan: NodePlan, *, busy: bool) -> None:
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
        plan = plan_node(api.get(path), desired, busy=busy)
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
