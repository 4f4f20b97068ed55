# SPDX-License-Identifier: Apache-2.0
"""Nodes carry their pool's words as labels and taints."""

from __future__ import annotations

import json

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"


def test_worker_carries_its_pools_labels_and_taint(host: Host) -> None:
    node = json.loads(host.check_output(f"{KUBECTL} get node mw -o json"))
    labels = node["metadata"]["labels"]
    assert labels["pool.bedplate.dev/name"] == "train"
    assert labels["pool.node-restriction.kubernetes.io/name"] == "train"
    assert (labels["topology.bedplate.dev/rack"], labels["topology.bedplate.dev/block"]) == ("r1", "b1")
    assert {"key": "pool.bedplate.dev/name", "value": "train", "effect": "NoSchedule"} in [
        {key: taint.get(key) for key in ("key", "value", "effect")} for taint in node["spec"].get("taints", [])
    ]


def test_foreign_labels_are_left_alone(host: Host) -> None:
    labels = json.loads(host.check_output(f"{KUBECTL} get node mw -o json"))["metadata"]["labels"]
    assert labels["kubernetes.io/hostname"] == "mw"
