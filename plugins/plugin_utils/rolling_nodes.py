# SPDX-License-Identifier: Apache-2.0
"""The steps of a rolling on Node objects: begin (remember and cordon), drained, finish (restore), undo, fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import Change
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.rolling import (
    ANNOTATION,
    CORDONED,
    DRAINED,
    FAILED,
    RollingNode,
    RollingState,
    Upgrade,
    advanced,
    begun,
)
from ansible_collections.bedplate.metal.plugins.plugin_utils.classify import slim_node
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, KubeError, node_path

STEPS = ("begin", "drained", "finish", "undo", "fail")
ATTEMPTS = 5


def rolling_node(node: Mapping[str, Any], *, pending: bool) -> RollingNode:
    """Build the planner's view of a Node object."""
    slim = slim_node(node)
    return RollingNode(
        name=node["metadata"]["name"],
        pending=pending,
        ready=slim["ready"],
        unschedulable=slim["unschedulable"],
        state=RollingState.read(slim["annotations"].get(ANNOTATION)),
    )


def pool_nodes(api: Api, names: Sequence[str], pending: Sequence[str]) -> list[RollingNode]:
    """Return a pool's nodes from one list call; raise :class:`BedplateError` for names without a Node."""
    nodes = {node["metadata"]["name"]: node for node in api.nodes()}
    absent = [name for name in names if name not in nodes]
    if absent:
        raise BedplateError(
            f"nodes {', '.join(absent)}: found none of these names; wanted them in the cluster. Next: run site.yml"
        )
    return [rolling_node(nodes[name], pending=name in pending) for name in names]


def waiting(hostvars: Mapping[str, Any], hosts: Sequence[str], results: Sequence[str]) -> list[str]:
    """Return the hosts where a registered result of a component (by variable name) has deferred changes."""
    found = []
    for host in hosts:
        variables = hostvars.get(host, {})
        if any((variables.get(name) or {}).get("deferred") for name in results):
            found.append(host)
    return found


def plan_step(node: Mapping[str, Any], step: str, *, action: str = "", message: str = "") -> dict[str, Any]:
    """Return the merge patch of a step on a Node object, empty where nothing is to do; pure.

    Raises :class:`BedplateError` for a step that the node's state does not allow.
    """
    found = rolling_node(node, pending=False)
    if step == "begin":
        if found.state is not None and found.state.state == DRAINED and found.unschedulable:
            return {}
        state = begun(found.unschedulable, found.state, action)
        return {"metadata": {"annotations": {ANNOTATION: state.text()}}, "spec": {"unschedulable": True}}
    if found.state is None:
        if step in ("finish", "undo"):
            return {}
        raise BedplateError(
            f"node {found.name}: found no rolling begun; wanted one before the step {step}. Next: repeat the playbook"
        )
    if step in ("finish", "undo"):
        patch: dict[str, Any] = {"metadata": {"annotations": {ANNOTATION: None}}}
        if not found.state.cordoned_before:
            patch["spec"] = {"unschedulable": None}
        return patch
    state = advanced(found.state, {"drained": DRAINED, "fail": FAILED}.get(step, CORDONED), message)
    return {"metadata": {"annotations": {ANNOTATION: state.text()}}}


def take_step(api: Api, name: str, step: str, *, action: str, message: str, check: bool) -> list[Change]:
    """Take a step on a node; the Node's resourceVersion keeps it from overwriting what somebody changes at the same moment."""
    for _attempt in range(ATTEMPTS):
        node = api.get(node_path(name))
        patch = plan_step(node, step, action=action, message=message)
        if not patch:
            return []
        before = _shown(node)
        patch["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
        if check:
            return [Change(f"node {name} rolling", before, step)]
        try:
            return [Change(f"node {name} rolling", before, _shown(api.patch(node_path(name), patch)))]
        except KubeError as error:
            if error.status != 409:
                raise
    raise BedplateError(f"node {name}: found it changing {ATTEMPTS} times while patching it. Next: repeat")


def refusal(nodes: Sequence[RollingNode], names: Sequence[str], upgrade: Upgrade) -> str:
    """Return why a batch may not begin now, or nothing; limit and budget are judged by the cluster as it is (case H50c).

    The budget does not keep failed nodes from being tried again.
    """
    failed = [n.name for n in nodes if n.failed and n.name not in names]
    again = all(n.failed for n in nodes if n.name in names)
    if len(failed) > upgrade.failure_budget and not again:
        return (
            f"found {len(failed)} failed node(s) ({', '.join(failed)}); wanted at most {upgrade.failure_budget} (failure_budget)"
        )
    staying = [n for n in nodes if n.name not in names or n.cordoned_by_others]
    out = [n.name for n in staying if not n.ready or n.unschedulable]
    adding = [n.name for n in nodes if n.name in names and not n.cordoned_by_others]
    limit = upgrade.limit(len(nodes))
    if adding and len(out) + len(adding) > limit:
        found = f"found {len(out)} node(s) out ({', '.join(out) or 'none'}) beside {', '.join(names)}"
        return f"{found}; wanted at most {limit} of {len(nodes)} (max_unavailable)"
    return ""


def _shown(node: Mapping[str, Any]) -> str:
    found = rolling_node(node, pending=False)
    cordon = "cordoned" if found.unschedulable else "schedulable"
    return f"{cordon}, {found.state.state}" if found.state else cordon
