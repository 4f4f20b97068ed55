# SPDX-License-Identifier: Apache-2.0
"""G49 and the safe-to-re-run rule: what a host is, and whether its node carries work."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.plugin_utils.classify import Cluster, HostClass, classify, cluster_exists

CA, OTHER = "a" * 64, "b" * 64
NODES: dict[str, Any] = {"w1": {"ready": True}, "cp1": {"ready": True}, "w2": {"ready": False}}
RUNNING = Cluster(exists=True, reachable=True, source="cp1", ca_sha256=CA, nodes=NODES)
DOWN = Cluster(exists=True, reachable=False, source="cp1", ca_sha256=CA)
NOTHING = Cluster()


def worker(kubelet: dict[str, Any], cluster: Cluster, name: str = "w1") -> HostClass:
    return classify(name, kubelet, cluster, control_plane=False, init_host=False)


def first(kubelet: dict[str, Any], cluster: Cluster) -> HostClass:
    return classify("cp1", kubelet, cluster, control_plane=True, init_host=not cluster.exists)


@pytest.mark.parametrize(
    ("kubelet", "cluster", "kind", "in_service", "problem"),
    [
        ({"state": "complete", "ca_sha256": CA, "ours": True}, RUNNING, "member", True, None),
        ({"state": "complete", "ca_sha256": CA, "ours": False}, RUNNING, "member", True, None),
        ({"state": "complete", "ca_sha256": CA, "ours": True}, DOWN, "member", True, None),
        ({"state": "complete", "ca_sha256": OTHER, "ours": True}, RUNNING, "foreign", True, "another cluster"),
        ({"state": "complete", "ca_sha256": OTHER, "server": "https://x:6443"}, NOTHING, "foreign", True, "has been initialised"),
        ({"state": "partial", "ca_sha256": None, "ours": True}, RUNNING, "partial", True, None),
        ({"state": "partial", "ca_sha256": CA, "ours": False}, RUNNING, "partial", True, "no record of Bedplate"),
        ({"state": "none"}, RUNNING, "fresh", False, "is Ready while this host"),
        ({"state": "none"}, DOWN, "fresh", False, "does not answer"),
        ({"state": "none"}, NOTHING, "fresh", False, None),
        ({}, NOTHING, "fresh", False, None),
    ],
)
def test_workers(kubelet: dict[str, Any], cluster: Cluster, kind: str, in_service: bool, problem: str | None) -> None:
    found = worker(kubelet, cluster)
    assert (found.kind, found.in_service) == (kind, in_service)
    assert (problem is None) == (found.problem is None)
    assert problem is None or (problem in str(found.problem) and "Next:" in str(found.problem))


def test_a_reinstalled_host_whose_node_is_not_ready_joins_again() -> None:
    found = worker({"state": "none"}, RUNNING, "w2")
    assert (found.kind, found.in_service, found.node_exists, found.problem) == ("fresh", False, True, None)


def test_an_unfinished_join_without_a_node_is_not_in_service() -> None:
    found = worker({"state": "partial", "ca_sha256": CA, "ours": True}, RUNNING, "w9")
    assert (found.kind, found.in_service, found.problem) == ("partial", False, None)


def test_the_unfinished_first_init_goes_on_and_everything_on_the_host_may_change() -> None:
    found = first({"state": "partial", "ca_sha256": CA, "ours": True}, NOTHING)
    assert (found.kind, found.in_service, found.problem) == ("partial", False, None)


def test_no_second_cluster_while_a_control_plane_host_could_not_be_asked() -> None:
    found = first({"state": "none"}, Cluster(unknown=("cp2",)))
    assert "cp2" in str(found.problem)
    assert "cp2" in str(worker({"state": "none"}, Cluster(unknown=("cp2",))).problem)


def test_a_member_stays_one_while_its_control_plane_cannot_be_asked() -> None:
    found = worker({"state": "complete", "ca_sha256": CA, "ours": True}, Cluster(unknown=("cp1",)))
    assert (found.kind, found.in_service, found.problem) == ("member", True, None)


def test_a_kubeconfig_counts_unless_it_is_the_first_hosts_own_unfinished_init() -> None:
    unfinished = {"cp1": {"state": "partial", "ours": True}}
    assert not cluster_exists(None, {}, ["cp1"])
    assert not cluster_exists("cp1", unfinished, ["cp1", "cp2"])
    assert cluster_exists("cp1", {}, ["cp1"]), "not targeted, so not observed: it counts"
    assert cluster_exists("cp2", {"cp2": {"state": "partial", "ours": True}}, ["cp1", "cp2"])
    assert cluster_exists("cp1", {"cp1": {"state": "complete", "ours": False}}, ["cp1"])
