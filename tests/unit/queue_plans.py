# SPDX-License-Identifier: Apache-2.0
"""A queue plan as site data derive it, for what is made of one."""

from __future__ import annotations

from typing import Any

RACK, HOSTNAME = "topology.bedplate.dev/rack", "kubernetes.io/hostname"


def flavor(name: str = "train", **over: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "pool": name,
        "accelerator": "h100-80gb",
        "sharing": "full-gpu",
        "workload": "distributed-training",
        "exposure": "device-plugin",
        "device_class": None,
        "nodes": 2,
        "gpus": 16,
        "resources": {"nvidia.com/gpu": 16},
        "most_per_container": {"nvidia.com/gpu": 8},
        "node_labels": {"pool.bedplate.dev/name": name},
        "tolerations": [{"key": "pool.bedplate.dev/name", "operator": "Equal", "value": name, "effect": "NoSchedule"}],
        "levels": [RACK, HOSTNAME],
    }
    return {**found, **over}


def share(pool: str = "train", gpus: int = 8, **over: Any) -> dict[str, Any]:
    limits = {key: str(over[key]) for key in ("borrow", "lend") if over.get(key) is not None}
    resources = {"nvidia.com/gpu": {"nominal": str(gpus), **limits}, "cpu": {"nominal": "64"}}
    return {"pool": pool, "flavor": pool, "gpus": gpus, "borrow": None, "lend": None, "resources": resources, **over}


def queue(name: str, *tenants: str, **over: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": name,
        "cohort": None,
        "reclaim": "any",
        "preempt": "lower-priority",
        "strategy": None,
        "weight": None,
        "longest_wait_seconds": None,
        "covered": ["nvidia.com/gpu", "cpu"],
        "shares": [share()],
        "tenants": list(tenants),
    }
    return {**found, **over}


def tenant(name: str, *queues: str, **over: Any) -> dict[str, Any]:
    return {"name": name, "owner": name, "groups": [], "queues": list(queues), "priorities": None, **over}


def plan(**over: Any) -> dict[str, Any]:
    """Two teams, each with a queue of half the pool that lends to the other."""
    found: dict[str, Any] = {
        "enabled": True,
        "cluster": "site-1",
        "system": "kueue",
        "fair_sharing": True,
        "gang": {"timeout_seconds": 300, "retries": None, "one_at_a_time": False},
        "example_image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0",
        "flavors": [flavor()],
        "priorities": [{"name": "high", "value": 1000, "description": "Waited for."}],
        "cohorts": [],
        "queues": [queue("a", "one", cohort="both"), queue("b", "two", cohort="both")],
        "tenants": [tenant("one", "a"), tenant("two", "b")],
    }
    return {**found, **over}
