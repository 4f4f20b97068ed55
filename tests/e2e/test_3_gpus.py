# SPDX-License-Identifier: Apache-2.0
"""What a team gets of the lab's pools: whole GPUs by the device plugin, slices of time by NVIDIA's operator."""

from __future__ import annotations

import pytest

from .cluster import Cluster
from .gpus import UUID, allocatable, ask, catalogue
from .hosts import lab, sh
from .site import Site
from .wait import wait_until

OPERATOR = ("-n", "gpu-operator")
OPERANDS = ("gpu-feature-discovery", "nvidia-dcgm-exporter", "nvidia-device-plugin-daemonset", "nvidia-operator-validator")


@pytest.fixture(scope="module")
def pods(cluster: Cluster, namespace: None) -> dict[str, tuple[bool, str]]:
    """Pods that each look around and end, started together: name to success and log."""
    ask(cluster, "train", "two-gpus", {"nvidia.com/gpu": 2})
    ask(cluster, "infer", "one-slice", {"nvidia.com/gpu": 1})
    return {name: cluster.outcome(name) for name in ("two-gpus", "one-slice")}


def test_nodes_advertise_what_the_catalogue_promises(cluster: Cluster, workers: list[str]) -> None:
    assert allocatable(cluster, workers[0]) == catalogue(cluster, "train")["resources_per_node"] == {"nvidia.com/gpu": 8}
    assert allocatable(cluster, workers[1]) == catalogue(cluster, "infer")["resources_per_node"] == {"nvidia.com/gpu": 16}


def test_a_pod_sees_exactly_the_two_gpus_it_asked_for(pods: dict[str, tuple[bool, str]]) -> None:
    succeeded, log = pods["two-gpus"]
    assert succeeded, log
    assert len(set(UUID.findall(log))) == 2 and log.count("H100") == 2, log
    assert len([line for line in log.splitlines() if line.startswith("nvidia")]) == 2, log


def test_a_slice_of_time_is_one_gpu(pods: dict[str, tuple[bool, str]]) -> None:
    succeeded, log = pods["one-slice"]
    assert succeeded, log
    assert len(set(UUID.findall(log))) == 1 and log.count("L40S") == 1, log


def test_a_pod_that_says_nothing_of_the_pool_does_not_land_there(cluster: Cluster, namespace: None) -> None:
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    cluster.create_pod("stranger", {"name": "main", "image": "registry.k8s.io/pause:3.10.2", "resources": limits}, {})
    cluster.unschedulable("stranger", "untolerated taint")


def test_the_operator_is_done_and_runs_nvidias_own_plugin(workers: list[str]) -> None:
    state = lab("kubectl", "get", "clusterpolicies.nvidia.com", "-o", "jsonpath={.items[*].status.state}").stdout
    assert state == "ready"
    columns = "custom-columns=N:.metadata.name,H:.spec.nodeName"
    shown = lab("kubectl", *OPERATOR, "get", "pods", "-o", columns, "--no-headers").stdout
    running = {name.rsplit("-", 1)[0]: node for name, node in (line.split() for line in shown.splitlines())}
    for operand in OPERANDS:
        assert running.get(operand) == workers[1], shown


def test_containerds_configuration_has_one_owner(site: Site, cluster: Cluster, workers: list[str]) -> None:
    """Neither a restart of the operator nor its removal touches it or other pools; site.yml brings the operator back."""
    node = workers[1]
    before = _configuration(node)
    lab("kubectl", *OPERATOR, "rollout", "restart", "deployment/gpu-operator")
    lab("kubectl", *OPERATOR, "rollout", "status", "deployment/gpu-operator", "--timeout=120s")
    assert _configuration(node) == before
    lab("kubectl", "delete", "clusterpolicies.nvidia.com", "--all", "--timeout=60s")
    wait_until(
        lambda: "device-plugin" not in lab("kubectl", *OPERATOR, "get", "pods", "-o", "name").stdout, "its operands to go", 120
    )
    again = site.run().ok()
    assert {host: found["changed"] for host, found in again.hosts.items() if found["changed"]} == {"controller": 1}, again.output
    assert _configuration(node) == before


def _configuration(host: str) -> str:
    return sh(host, "cd /etc/containerd && find . -type f | sort | xargs sha256sum")
