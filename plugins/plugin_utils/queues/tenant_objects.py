# SPDX-License-Identifier: Apache-2.0
"""What teams get whatever the queue system is: a namespace, the policy in writing, the right to see why work waits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.identity import MANAGED_LABEL, MANAGER

from .words import OWNER_LABEL, PRIORITIES, PRIORITY_LABEL, TENANT_LABEL

RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io/v1"
QUEUE_READER, WORK_READER = "bedplate-queue-reader", "bedplate-work-reader"
PRIORITY_POLICY = "bedplate-priorities"
NAMED = (
    "request.kind.kind == 'Workload' && request.kind.group == 'kueue.x-k8s.io' "
    "? (has(object.spec.priorityClassRef) ? object.spec.priorityClassRef.name : '') "
    f": (has(object.metadata.labels) && '{PRIORITY_LABEL}' in object.metadata.labels "
    f"? object.metadata.labels['{PRIORITY_LABEL}'] : '')"
)
"""CEL: the priority that an object names. What Kueue makes of it counts: a pod's own priority class ends there too."""
LIMITED = f"has(namespaceObject.metadata.annotations) && '{PRIORITIES}' in namespaceObject.metadata.annotations"
ALLOWED = f"namespaceObject.metadata.annotations['{PRIORITIES}']"

Plan = Mapping[str, Any]


def namespaces(plan: Plan) -> list[dict[str, Any]]:
    """Return each tenant's namespace."""
    found = []
    for tenant in plan["tenants"]:
        annotations = {} if tenant["priorities"] is None else {"annotations": {PRIORITIES: ",".join(tenant["priorities"])}}
        labels = {**_managed(), TENANT_LABEL: tenant["name"], OWNER_LABEL: tenant["owner"]}
        found.append(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant["name"], "labels": labels, **annotations}}
        )
    return found


def config_map(tenant: Plan, name: str, data: Mapping[str, str]) -> dict[str, Any]:
    """Return a ConfigMap in a tenant's namespace."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named(name, tenant["name"]), "data": dict(data)}


def readers(plan: Plan, queue_rules: list[dict[str, Any]], work_rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what lets the members of teams see queues (rules of what has no namespace), and their own work in theirs."""
    teams = [tenant for tenant in plan["tenants"] if tenant["groups"]]
    if not teams:
        return []
    everybody = sorted({group for team in teams for group in team["groups"]})
    return [
        _rbac("ClusterRole", QUEUE_READER, {"rules": queue_rules}),
        _rbac("ClusterRole", WORK_READER, {"rules": work_rules}),
        _rbac("ClusterRoleBinding", QUEUE_READER, _bound(QUEUE_READER, everybody)),
        *(_rbac("RoleBinding", WORK_READER, _bound(WORK_READER, team["groups"]), team["name"]) for team in teams),
    ]


def priority_policy(plan: Plan) -> list[dict[str, Any]]:
    """Return the admission policy that refuses a priority the team may not name; none where all may name all."""
    if all(tenant["priorities"] is None for tenant in plan["tenants"]):
        return []
    rule = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["*"],
        "scope": "Namespaced",
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchExpressions": [{"key": TENANT_LABEL, "operator": "Exists"}]},
            "resourceRules": [rule],
        },
        # Not as a condition of the match: the API server has no namespaceObject there.
        "variables": [{"name": "limited", "expression": LIMITED}, {"name": "named", "expression": NAMED}],
        "validations": [
            {
                "expression": f"!variables.limited || variables.named == '' || variables.named in {ALLOWED}.split(',')",
                "messageExpression": f"'priority ' + variables.named + ': this team may name ' + {ALLOWED}",
            }
        ],
    }
    bound = {"policyName": PRIORITY_POLICY, "validationActions": ["Deny"]}
    return [
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicy", "metadata": _named(PRIORITY_POLICY), "spec": spec},
        {"apiVersion": ADMISSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": _named(PRIORITY_POLICY), "spec": bound},
    ]


def _managed() -> dict[str, str]:
    return {MANAGED_LABEL: MANAGER}


def _named(name: str, namespace: str | None = None) -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "labels": _managed()}


def _rbac(kind: str, name: str, content: dict[str, Any], namespace: str | None = None) -> dict[str, Any]:
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": _named(name, namespace), **content}


def _bound(role: str, groups: list[str]) -> dict[str, Any]:
    return {
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in groups],
    }
