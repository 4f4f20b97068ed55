# SPDX-License-Identifier: Apache-2.0
"""What a team writes in its manifests for Kueue, with an example that runs as it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .kueue_objects import topology_name
from .words import PRIORITY_LABEL, QUEUE_LABEL

RACK = "topology.bedplate.dev/rack"
CLAIM = "one-gpu"

Plan = Mapping[str, Any]


def manifest_rules(plan: Plan, queues: list[Plan]) -> list[str]:
    """Return what a manifest must say to use queues, a sentence each."""
    flavors = {flavor["name"]: flavor for flavor in plan["flavors"]}
    used = list({share["flavor"]: flavors[share["flavor"]] for queue in queues for share in queue["shares"]}.values())
    names = " or ".join(f"`{queue['name']}`" for queue in queues)
    rules = [
        f"The label `{QUEUE_LABEL}` with {names}, on the Job, JobSet, RayJob, Deployment, StatefulSet or Pod itself. What names "
        "no queue is held: it is there and does not run.",
        f"The label `{PRIORITY_LABEL}` where it is not ordinary work (see the priorities).",
        "GPUs as limits of a container, by the names in the table of pools; CPU and memory as requests, which count too.",
        "No tolerations: the queue adds those of the pool. A `nodeSelector` `pool.bedplate.dev/name` only to choose one of a "
        "queue's pools.",
        "A `terminationGracePeriodSeconds` that is enough for a checkpoint: so long work that is stopped has until it ends.",
    ]
    if any(RACK in flavor["levels"] for flavor in used):
        rules.append(
            "For pods that must be close to each other, on the pod template, the annotation "
            f"`kueue.x-k8s.io/podset-required-topology: {RACK}` (all in one rack, or none runs) or "
            f"`kueue.x-k8s.io/podset-preferred-topology: {RACK}`."
        )
    return rules


def example(plan: Plan, tenant: Plan) -> list[dict[str, Any]]:
    """Return a worked example for a team: a Job on the first pool of its first queue, with what that needs."""
    queue = next(queue for queue in plan["queues"] if queue["name"] == tenant["queues"][0])
    flavor = next(flavor for flavor in plan["flavors"] if flavor["name"] == queue["shares"][0]["flavor"])
    labels = {QUEUE_LABEL: queue["name"]}
    if tenant["priorities"]:
        labels[PRIORITY_LABEL] = tenant["priorities"][0]
    requests = {"cpu": "100m", "memory": "64Mi"}
    container: dict[str, Any] = {
        "name": "main",
        "image": plan["example_image"],
        "args": ["help"],
        "resources": {"requests": requests},
    }
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    objects: list[dict[str, Any]] = []
    if flavor["exposure"] == "dra":
        request = {"name": "gpu", "exactly": {"deviceClassName": flavor["device_class"]}}
        claim = {"spec": {"devices": {"requests": [request]}}}
        objects.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": CLAIM, "namespace": tenant["name"]},
                "spec": claim,
            }
        )
        container["resources"]["claims"] = [{"name": "gpu"}]
        pod["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": CLAIM}]
    else:
        container["resources"]["limits"] = {next(iter(flavor["resources"])): "1"}
    if len(queue["shares"]) > 1:
        pod["nodeSelector"] = {"pool.bedplate.dev/name": flavor["pool"]}
    objects.append(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "queue-example", "namespace": tenant["name"], "labels": labels},
            "spec": {"backoffLimit": 0, "ttlSecondsAfterFinished": 3600, "template": {"spec": pod}},
        }
    )
    return objects


def places(flavor: Plan) -> str:
    """Return the levels of places in a pool, the widest first."""
    return topology_name(flavor["levels"]).replace("-", ", ")
