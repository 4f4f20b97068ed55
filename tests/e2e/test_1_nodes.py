# SPDX-License-Identifier: Apache-2.0
"""The cluster as site.yml leaves it: every host a Ready, accepted node that carries its pool's words."""

from __future__ import annotations

import json
from typing import Any

from .cluster import Cluster, gate_proof, ready, taints
from .hosts import sh
from .wait import wait_until

Hosts = dict[str, dict[str, Any]]


def test_every_host_is_a_ready_node_of_the_wanted_version(cluster: Cluster, hosts: Hosts) -> None:
    nodes = cluster.nodes()
    assert set(hosts) <= set(nodes)
    assert [name for name in hosts if not ready(nodes[name])] == []
    assert {nodes[name].status.node_info.kubelet_version for name in hosts} == {"v1.36.3"}
    assert {nodes[name].status.node_info.container_runtime_version for name in hosts} == {"containerd://2.4.2"}


def test_nodes_use_their_declared_address(cluster: Cluster, hosts: Hosts) -> None:
    for name, variables in hosts.items():
        addresses = {address.type: address.address for address in cluster.nodes()[name].status.addresses}
        assert addresses["InternalIP"] == variables["node_ip"]


def test_workers_carry_the_labels_of_their_pool(cluster: Cluster, hosts: Hosts, workers: list[str]) -> None:
    nodes = cluster.nodes()
    for name in workers:
        labels, declared = nodes[name].metadata.labels, hosts[name]
        assert labels["pool.bedplate.dev/name"] == declared["pool"]
        assert labels["pool.node-restriction.kubernetes.io/name"] == declared["pool"]
        assert labels["topology.bedplate.dev/rack"] == declared["rack"]
        assert labels["topology.bedplate.dev/block"] == declared["topology_block"]
        for word in ("accelerator", "topology", "fabric", "workload", "sharing"):
            assert labels[f"pool.bedplate.dev/{word}"]
    assert len({nodes[name].metadata.labels["pool.bedplate.dev/workload"] for name in workers}) == 2, (
        "training and inference differ"
    )


def test_workers_are_reserved_for_their_pool(cluster: Cluster, hosts: Hosts, workers: list[str]) -> None:
    for name in workers:
        assert ("pool.bedplate.dev/name", hosts[name]["pool"], "NoSchedule") in taints(cluster.nodes()[name])


def test_control_plane_is_not_for_ordinary_pods(cluster: Cluster, control_plane: str) -> None:
    assert ("node-role.kubernetes.io/control-plane", "", "NoSchedule") in taints(cluster.nodes()[control_plane])


def test_every_worker_went_through_the_gate(cluster: Cluster, workers: list[str]) -> None:
    for name in workers:
        node = cluster.nodes()[name]
        assert "bedplate.dev/unaccepted" not in {key for key, _value, _effect in taints(node)}
        proof = gate_proof(node)
        assert proof["format"] == 1
        assert proof["checks"]


def test_no_bootstrap_token_is_left(cluster: Cluster) -> None:
    """Joins withdraw theirs; the one that kubeadm's init wants dies within two minutes, and its cleaner looks now and then."""

    def none() -> bool:
        secrets = cluster.core.list_namespaced_secret("kube-system").items
        return not [s.metadata.name for s in secrets if s.type == "bootstrap.kubernetes.io/token"]

    wait_until(none, "the last bootstrap token to go", 180)


def test_kubelets_run_with_systemd_cgroups_and_the_pools_dropins(cluster: Cluster, hosts: Hosts) -> None:
    for name in hosts:
        answer = cluster.core.connect_get_node_proxy_with_path(name, "configz", _preload_content=False)
        running = json.loads(answer.data)["kubeletconfig"]
        assert running["cgroupDriver"] == "systemd"
        written = sh(name, "cat /etc/kubernetes/kubelet.conf.d/*.conf")
        assert "KubeletConfiguration" in written
        for policy in ("cpuManagerPolicy", "topologyManagerPolicy"):
            if policy in written:
                assert running[policy] in written
