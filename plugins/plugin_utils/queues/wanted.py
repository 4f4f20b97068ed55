# SPDX-License-Identifier: Apache-2.0
"""All objects that a queue plan comes to, and what becomes of those it names no more. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import Problem
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.difference import Difference
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.identity import Kind, Object, name_of

from .document import markdown
from .kueue_objects import API, QUEUE_RULES, WORK_RULES, kueue_objects
from .policy import example_text, tenant_policy
from .tenant_objects import config_map, namespaces, priority_policy, readers
from .words import POLICY

RBAC, ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
SHARED_KINDS: tuple[Kind, ...] = (
    ("v1", "ConfigMap"),
    (RBAC, "ClusterRole"),
    (RBAC, "ClusterRoleBinding"),
    (RBAC, "RoleBinding"),
    (ADMISSION, "ValidatingAdmissionPolicy"),
    (ADMISSION, "ValidatingAdmissionPolicyBinding"),
)
"""Kinds that a cluster has many of: only ours are looked at."""
QUEUE_KINDS: tuple[Kind, ...] = (
    ("v1", "Namespace"),
    *((API, kind) for kind in ("Topology", "ResourceFlavor", "WorkloadPriorityClass", "Cohort", "ClusterQueue", "LocalQueue")),
)
"""In the order in which they are made."""
COUNTERS = ("reservingWorkloads", "pendingWorkloads", "admittedWorkloads")


def wanted_objects(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a plan in the order in which they are made."""
    return [
        *namespaces(plan),
        *kueue_objects(plan),
        *(config_map(tenant, POLICY, _policy(plan, tenant)) for tenant in plan["tenants"]),
        *readers(plan, QUEUE_RULES, WORK_RULES),
        *priority_policy(plan),
    ]


def _policy(plan: Mapping[str, Any], tenant: Mapping[str, Any]) -> dict[str, str]:
    return {"policy.md": markdown(tenant_policy(plan, tenant)), "example.yaml": example_text(plan, tenant)}


def unchangeable(item: Object, different: Sequence[Difference]) -> list[Problem]:
    """Return why a flavor cannot be changed: Kueue's definition lets nobody change one that has a topology."""
    if item["kind"] != "ResourceFlavor":
        return []
    return [
        Problem(
            f"{name_of(item)} {one.label}",
            str(one.before),
            f"{one.after}, but a flavor with a topology can never be changed",
            "take the pool out of all queues, run this, put it back and run this again: the flavor is then made anew",
        )
        for one in different
        if one.path[0] == "spec"
    ]


def keeps(item: Object, staying: Sequence[Object]) -> str | None:
    """Say why an object that the plan names no more stays: it holds something, or what stays names it."""
    if item["kind"] == "Namespace":
        return "belongs to no team of the site data any more; it is left with all that is in it"
    status = item.get("status") or {}
    held = ", ".join(f"{counter} {status[counter]}" for counter in COUNTERS if status.get(counter))
    if held:
        return f"is in the site data no more; it stays until its work is gone ({held})"
    return "" if any(_names(one, item) for one in staying) else None


def _names(item: Object, other: Object) -> bool:
    """Tell whether an object names another, which must then not go before it."""
    spec, name = item.get("spec") or {}, other["metadata"]["name"]
    if other["kind"] == "ResourceFlavor":
        return name in [flavor["name"] for group in spec.get("resourceGroups") or [] for flavor in group["flavors"]]
    if other["kind"] == "ClusterQueue":
        return bool(item["kind"] == "LocalQueue" and spec.get("clusterQueue") == name)
    return bool(other["kind"] == "Topology" and spec.get("topologyName") == name)
