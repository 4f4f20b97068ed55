# SPDX-License-Identifier: Apache-2.0
"""The queue plan as Kueue's objects (API v1beta2). Pure.

Only what the site data say is in an object: a field that is not (a queue's strategy, its stopPolicy, a weight) is whoever's who
set it in the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.identity import MANAGED_LABEL, MANAGER

from .words import OWNER_LABEL, POLICY, POOL_LABEL, TENANT_LABEL

API = "kueue.x-k8s.io/v1beta2"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label that the API server keeps on every namespace; nobody else can set it."""
STRATEGIES = {"best-effort": "BestEffortFIFO", "strict": "StrictFIFO"}
RECLAIM = {"never": "Never", "lower-priority": "LowerPriority", "any": "Any"}
GROUP = API.partition("/")[0]
READ = ["get", "list", "watch"]
QUEUE_RULES = [
    {
        "apiGroups": [GROUP],
        "resources": ["clusterqueues", "cohorts", "resourceflavors", "topologies", "workloadpriorityclasses"],
        "verbs": READ,
    }
]
WORK_RULES = [
    {"apiGroups": [GROUP], "resources": ["localqueues", "workloads"], "verbs": READ},
    {"apiGroups": [f"visibility.{GROUP}"], "resources": ["localqueues/pendingworkloads"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [POLICY], "verbs": ["get"]},
]
"""What members of a team may read: of all queues, and in the team's namespace."""

Plan = Mapping[str, Any]


def kueue_objects(plan: Plan) -> list[dict[str, Any]]:
    """Return the objects of a plan in the order in which they are applied."""
    tenants = {tenant["name"]: tenant for tenant in plan["tenants"]}
    levels = dict.fromkeys(tuple(flavor["levels"]) for flavor in plan["flavors"])
    return [
        *(_object("Topology", topology_name(names), {"levels": [{"nodeLabel": name} for name in names]}) for names in levels),
        *map(_flavor, plan["flavors"]),
        *map(_priority, plan["priorities"]),
        *map(_cohort, plan["cohorts"]),
        *(_cluster_queue(queue, fair_sharing=plan["fair_sharing"]) for queue in plan["queues"]),
        *(_local_queue(queue["name"], tenants[tenant]) for queue in plan["queues"] for tenant in queue["tenants"]),
    ]


def topology_name(levels: Sequence[str]) -> str:
    """Return the name of the topology with these levels: they can never be changed, so they are in it."""
    return "-".join(level.rpartition("/")[2] for level in levels)


def _object(
    kind: str, name: str, spec: dict[str, Any], labels: Mapping[str, str] | None = None, namespace: str | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {MANAGED_LABEL: MANAGER, **(labels or {})}}
    if namespace is not None:
        metadata["namespace"] = namespace
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def _flavor(flavor: Plan) -> dict[str, Any]:
    spec = {
        "nodeLabels": dict(flavor["node_labels"]),
        "tolerations": [dict(toleration) for toleration in flavor["tolerations"]],
        "topologyName": topology_name(flavor["levels"]),
    }
    return _object("ResourceFlavor", flavor["name"], spec, {POOL_LABEL: flavor["pool"]})


def _priority(priority: Plan) -> dict[str, Any]:
    found = _object("WorkloadPriorityClass", priority["name"], {})
    del found["spec"]
    return {**found, "value": priority["value"], "description": priority["description"]}


def _cohort(cohort: Plan) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if cohort["parent"] is not None:
        spec["parentName"] = cohort["parent"]
    if cohort["shares"]:
        spec["resourceGroups"] = [_group(cohort)]
    return _object("Cohort", cohort["name"], {**spec, **_weight(cohort)})


def _cluster_queue(queue: Plan, *, fair_sharing: bool) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "namespaceSelector": {"matchExpressions": [{"key": NAMESPACE_NAME, "operator": "In", "values": list(queue["tenants"])}]},
        "resourceGroups": [_group(queue)],
        "preemption": {
            "reclaimWithinCohort": RECLAIM[queue["reclaim"]],
            "withinClusterQueue": RECLAIM[queue["preempt"]],
        },
        **_weight(queue),
    }
    if not queue["tenants"]:  # an empty list of values is refused; no selector lets nobody in
        del spec["namespaceSelector"]
    if queue["cohort"] is not None:
        spec["cohortName"] = queue["cohort"]
    if queue["strategy"] is not None:
        spec["queueingStrategy"] = STRATEGIES[queue["strategy"]]
    if fair_sharing and len(queue["tenants"]) > 1:
        spec["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    return _object("ClusterQueue", queue["name"], spec)


def _weight(owner: Plan) -> dict[str, Any]:
    return {} if owner["weight"] is None else {"fairSharing": {"weight": f"{owner['weight']:g}"}}


def _group(owner: Plan) -> dict[str, Any]:
    """Return the one group of resources: flavors of several groups could give the parts of one pod different nodes."""
    flavors = [
        {"name": share["flavor"], "resources": [_quota(name, share) for name in owner["covered"]]} for share in owner["shares"]
    ]
    return {"coveredResources": list(owner["covered"]), "flavors": flavors}


def _quota(name: str, share: Plan) -> dict[str, str]:
    """Return the quota of a resource; zero of what the pool does not offer."""
    quota = share["resources"].get(name, {"nominal": "0"})
    keys = {"nominal": "nominalQuota", "borrow": "borrowingLimit", "lend": "lendingLimit"}
    return {"name": name, **{keys[key]: value for key, value in quota.items()}}


def _local_queue(queue: str, tenant: Plan) -> dict[str, Any]:
    labels = {TENANT_LABEL: tenant["name"], OWNER_LABEL: tenant["owner"]}
    return _object("LocalQueue", queue, {"clusterQueue": queue}, labels, tenant["name"])
