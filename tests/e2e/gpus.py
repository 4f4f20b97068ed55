# SPDX-License-Identifier: Apache-2.0
"""Pods that ask for GPUs as an application team would, after the catalogue, and what their nodes advertise."""

from __future__ import annotations

import re
from typing import Any

import yaml

from .cluster import Cluster
from .wait import wait_until

IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"
"""An image with a shell and a C library, which the driver's programs need."""
LOOK = 'nvidia-smi -L && for node in /dev/nvidia[0-9]*; do echo "${node##*/}"; done'
"""What a pod sees: devices by nvidia-smi, and their nodes."""
UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f-]{36}")


def catalogue(cluster: Cluster, pool: str) -> dict[str, Any]:
    """What the catalogue says of a pool."""
    data = cluster.core.read_namespaced_config_map("bedplate-gpus", "kube-public").data
    found: dict[str, Any] = yaml.safe_load(data[f"{pool}.yaml"])
    return found


def ask(cluster: Cluster, pool: str, name: str, resources: dict[str, int], script: str = LOOK) -> None:
    """Start a pod on a pool, with nothing in its manifest but what the catalogue says, that runs a shell script."""
    entry = catalogue(cluster, pool)
    container = {
        "name": "main",
        "image": IMAGE,
        "command": ["bash", "-c", script],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": {"limits": {key: str(count) for key, count in resources.items()}},
    }
    cluster.create_pod(name, container, {"nodeSelector": entry["node_selector"], "tolerations": entry["tolerations"]})


def allocatable(cluster: Cluster, node: str) -> dict[str, int]:
    """What a node advertises of NVIDIA's resources."""
    found = cluster.nodes()[node].status.allocatable
    return {name: int(count) for name, count in found.items() if name.startswith("nvidia.com/")}


def wait_allocatable(cluster: Cluster, node: str, wanted: dict[str, int], seconds: float) -> None:
    """Wait for a node to advertise exactly this."""
    wait_until(lambda: allocatable(cluster, node) == wanted, f"node {node} to advertise {wanted}", seconds)
