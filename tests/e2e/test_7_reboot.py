# SPDX-License-Identifier: Apache-2.0
"""A host is switched off and on: its node comes back by itself, and there is nothing to repair."""

from __future__ import annotations

from typing import Any

import pytest

from .cluster import NAMESPACE, Cluster, ready
from .hosts import lab, sh
from .site import Site
from .wait import wait_until


@pytest.fixture(scope="module")
def rebooted(cluster: Cluster, namespace: None, workers: list[str]) -> str:
    """A worker that was rebooted with a pod on it."""
    name = workers[1]
    labels = {"role": "survivor"}
    pod = {"containers": [{"name": "s", "image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0", "args": ["netexec"]}]}
    spec: dict[str, Any] = {**pod, "nodeSelector": {"kubernetes.io/hostname": name}, "tolerations": [{"operator": "Exists"}]}
    body = {
        "metadata": {"name": "survivor"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    cluster.apps.create_namespaced_deployment(NAMESPACE, body)
    wait_until(lambda: _available(cluster), "the deployment to be available", 90)
    before = sh(name, "stat -c %Z /proc/1")
    lab("host", "reboot", name)
    assert sh(name, "stat -c %Z /proc/1") != before, "the host was rebooted"
    return name


def _available(cluster: Cluster) -> bool:
    return bool(cluster.apps.read_namespaced_deployment("survivor", NAMESPACE).status.available_replicas)


def _kubelet_started(cluster: Cluster, name: str) -> bool:
    """Tell whether the Ready condition was reported by the kubelet that runs now."""
    node = cluster.node(name)
    if not ready(node) or node is None:
        return False
    started = int(sh(name, "stat -c %Z /proc/$(systemctl show --property MainPID --value kubelet)", check=False).strip() or 0)
    heartbeat = next(c.last_heartbeat_time for c in node.status.conditions if c.type == "Ready")
    return bool(started > 0 and heartbeat.timestamp() >= started)


def test_kubelet_comes_back_by_itself(cluster: Cluster, rebooted: str) -> None:
    wait_until(lambda: _kubelet_started(cluster, rebooted), f"node {rebooted} to be Ready again", 180)


def test_its_pods_come_back(cluster: Cluster, rebooted: str) -> None:
    wait_until(lambda: _available(cluster), "the deployment to be available again", 180)


def test_the_kernel_settings_came_back(rebooted: str) -> None:
    names = "net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables"
    assert sh(rebooted, f"sysctl -n {names}").split() == ["1", "1"]


def test_there_is_nothing_to_repair(site: Site, cluster: Cluster, rebooted: str) -> None:
    cluster.wait_ready(rebooted)
    run = site.run("--limit", rebooted).ok()
    assert run.of(rebooted)["changed"] == 0, run.output[-4000:]
