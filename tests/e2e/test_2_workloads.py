# SPDX-License-Identifier: Apache-2.0
"""What a user of the cluster needs: names, pods that reach each other across nodes, services, node ports."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

from .cluster import NAMESPACE, Cluster
from .wait import wait_until

Hosts = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def servers(cluster: Cluster, namespace: None, workers: list[str]) -> dict[str, str]:
    """An HTTP server pod on each of two workers: node to the pod's address."""
    for node in workers[:2]:
        cluster.start(f"server-{node}", ["netexec", "--http-port=8080"], node, {"role": "server"})
    return {node: cluster.running(f"server-{node}").status.pod_ip for node in workers[:2]}


@pytest.fixture(scope="module")
def service(cluster: Cluster, servers: dict[str, str]) -> Any:
    """A service with a node port in front of both servers, with both as endpoints."""
    spec = {"type": "NodePort", "selector": {"role": "server"}, "ports": [{"port": 80, "targetPort": 8080}]}
    made = cluster.core.create_namespaced_service(NAMESPACE, {"metadata": {"name": "server"}, "spec": spec})

    def both() -> bool:
        slices = cluster.discovery.list_namespaced_endpoint_slice(
            NAMESPACE, label_selector="kubernetes.io/service-name=server"
        ).items
        return sum(bool(one.conditions.ready) for found in slices for one in found.endpoints or []) == 2

    wait_until(both, "both servers to be endpoints", 60)
    return made


@pytest.fixture(scope="module")
def connections(cluster: Cluster, servers: dict[str, str], service: Any, workers: list[str]) -> dict[str, tuple[bool, str]]:
    """Clients that each connect to one thing, started together: name to success and log."""
    one, two = workers[:2]
    wanted = {
        "pod-to-pod": (one, f"{servers[two]}:8080"),
        "pod-back": (two, f"{servers[one]}:8080"),
        "dns-of-the-api": (one, "kubernetes.default.svc.cluster.local:443"),
        "dns-of-a-service": (two, f"server.{NAMESPACE}.svc.cluster.local:80"),
        "dns-short-name": (one, "server:80"),
        "service-address": (one, f"{service.spec.cluster_ip}:80"),
        "to-itself": (two, f"{servers[two]}:8080"),
    }
    for name, (node, target) in wanted.items():
        cluster.start(name, ["connect", "--timeout=10s", target], node)
    return {name: cluster.outcome(name) for name in wanted}


@pytest.mark.parametrize(
    "name",
    ["pod-to-pod", "pod-back", "dns-of-the-api", "dns-of-a-service", "dns-short-name", "service-address", "to-itself"],
)
def test_connection(connections: dict[str, tuple[bool, str]], name: str) -> None:
    succeeded, log = connections[name]
    assert succeeded, log


def test_pods_have_addresses_of_their_nodes_range(cluster: Cluster, servers: dict[str, str], workers: list[str]) -> None:
    nodes = cluster.nodes()
    for node in workers[:2]:
        network = nodes[node].spec.pod_cidr
        assert servers[node].rsplit(".", 1)[0] == network.split("/")[0].rsplit(".", 1)[0]


def test_node_port_answers_on_every_node_from_outside(service: Any, hosts: Hosts, servers: dict[str, str]) -> None:
    port = service.spec.ports[0].node_port
    for name, variables in hosts.items():
        answers = set()
        for _attempt in range(12):
            with urllib.request.urlopen(f"http://{variables['ansible_host']}:{port}/hostname", timeout=10) as response:
                answers.add(response.read().decode())
        assert answers and answers <= {f"server-{node}" for node in servers}, name


def test_a_pod_that_tolerates_nothing_does_not_land_on_a_pool(cluster: Cluster, namespace: None, workers: list[str]) -> None:
    cluster.create_pod("ordinary", {"name": "pause", "image": "registry.k8s.io/pause:3.10.2"}, {})
    cluster.unschedulable("ordinary", "untolerated taint")
