# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate import (
    ANNOTATION,
    CHECKS,
    CONTROL_PLANE_LABEL,
    choose_target,
    gate_pod,
    judge,
    needs_gate,
)
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate_run import Gate, Settings
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api
from fake_api import FakeApi, Served, node

UNACCEPTED = {"key": "bedplate.dev/unaccepted", "effect": "NoSchedule"}
POOL = {"key": "pool.bedplate.dev/name", "value": "train", "effect": "NoSchedule"}
PODS = "/api/v1/namespaces/kube-system/pods"
PASSED = {"exitCode": 0, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:02Z"}


def status(**containers: dict[str, Any]) -> dict[str, Any]:
    """A pod's status; containers by name with underscores for dashes, each a container status."""
    statuses = [{"name": name.replace("_", "-"), **body} for name, body in containers.items()]
    done = all((s.get("state") or {}).get("terminated", {}).get("exitCode") == 0 for s in statuses)
    return {"phase": "Succeeded" if done else "Running", "containerStatuses": statuses}


def ok() -> dict[str, Any]:
    return {"state": {"terminated": PASSED}}


class Cluster:
    """A fake API whose kubelets answer gate pods with the status set for their node."""

    def __init__(self, *nodes: dict[str, Any], dns: str | None = "cp1") -> None:
        self.api = FakeApi(on_create=self.kubelet)
        self.statuses: dict[str, dict[str, Any]] = {}
        for body in nodes:
            self.api.add(f"/api/v1/nodes/{body['metadata']['name']}", body)
        if dns:
            ready = {"podIP": "10.244.0.2", "conditions": [{"type": "Ready", "status": "True"}]}
            labels = {"k8s-app": "kube-dns"}
            self.api.add(f"{PODS}/coredns-1", {"metadata": {"labels": labels}, "spec": {"nodeName": dns}, "status": ready})

    def kubelet(self, api: FakeApi, path: str, pod: dict[str, Any]) -> None:
        pod["status"] = self.statuses.get(pod["spec"]["nodeName"], status(service=ok(), pod_network=ok()))

    def gate(self, kubeconfig: Path, **settings: Any) -> Gate:
        ticks = iter(range(10_000))
        values: dict[str, Any] = {"image": "agnhost:1", "checks": list(CHECKS), "timeout_seconds": 20, **settings}
        return Gate(Api(kubeconfig), Settings(**values), now=lambda: float(next(ticks)), sleep=lambda seconds: None)


def result(api: FakeApi, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(api.node(name)["metadata"]["annotations"][ANNOTATION])
    return loaded


def test_a_node_that_passes_loses_the_taint_and_keeps_its_baseline(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", taints=[POOL, UNACCEPTED]))
    with Served(cluster.api, tmp_path) as kubeconfig:
        gate = cluster.gate(kubeconfig)
        gate.run(["w1"], check=False)
        assert [v.passed for v in gate.verdicts] == [True] and gate.changes
        cluster.api.requests.clear()
        again = cluster.gate(kubeconfig)
        again.run(["w1"], check=False)
        assert not again.changes
    assert cluster.api.requests == [("GET", "/api/v1/nodes")]
    assert cluster.api.node("w1")["spec"]["taints"] == [POOL]
    stored = result(cluster.api, "w1")
    assert stored["format"] == 1 and stored["passed"] and stored["checks"]["service"] == {"passed": True, "seconds": 2.0}
    assert f"{PODS}/bedplate-gate-w1" not in cluster.api.objects


def test_a_failing_node_keeps_its_taint_and_says_why_while_others_are_accepted(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", taints=[UNACCEPTED]), node("w2", taints=[UNACCEPTED]))
    refused = {
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": "TIMEOUT"}},
    }
    cluster.statuses["w2"] = status(service=refused, pod_network=ok())
    with Served(cluster.api, tmp_path) as kubeconfig:
        gate = cluster.gate(kubeconfig)
        gate.run(["w1", "w2"], check=False)
    assert {v.node: v.passed for v in gate.verdicts} == {"w1": True, "w2": False}
    assert cluster.api.node("w2")["spec"]["taints"] == [UNACCEPTED]
    message = result(cluster.api, "w2")["message"]
    assert "node w2 check service: found TIMEOUT" in message and "Next: " in message
    assert result(cluster.api, "w2")["checks"]["pod-network"]["passed"]
    assert f"{PODS}/bedplate-gate-w2" not in cluster.api.objects


@pytest.mark.parametrize(
    ("given", "check", "found"),
    [
        (
            status(service={"state": {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}}),
            "registry",
            "no such host",
        ),
        ({"phase": "Pending"}, "registry", "no container started (Pending)"),
        (status(service=ok(), pod_network={"state": {"running": {}}}), "pod-network", "running"),
    ],
)
def test_verdicts_name_what_was_found(given: dict[str, Any], check: str, found: str) -> None:
    pod = gate_pod("w1", "agnhost:1", CHECKS, target="10.0.0.1", dns_domain="cluster.local", run="r", deadline_seconds=9)
    verdict = judge("w1", {**pod, "status": given}, CHECKS)
    failed = {c.name: c.found for c in verdict.checks if not c.passed}
    assert found in failed[check] and not verdict.passed


def test_a_node_that_never_becomes_ready_is_named_with_its_condition(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", ready=False, taints=[UNACCEPTED]))
    with Served(cluster.api, tmp_path) as kubeconfig:
        gate = cluster.gate(kubeconfig)
        gate.run(["w1"], check=False)
    assert "check ready: found False (KubeletNotReady: cni)" in gate.verdicts[0].message


def test_without_cluster_dns_the_gate_says_so(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", taints=[UNACCEPTED]), dns=None)
    with Served(cluster.api, tmp_path) as kubeconfig:
        gate = cluster.gate(kubeconfig)
        gate.run(["w1"], check=False)
    assert "check dns: found none" in gate.verdicts[0].message


def test_a_pod_left_by_a_killed_run_is_replaced(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", taints=[UNACCEPTED]))
    labels = {"app.kubernetes.io/name": "bedplate-gate", "bedplate.dev/run": "old"}
    cluster.api.add(f"{PODS}/bedplate-gate-w1", {"metadata": {"labels": labels}, "spec": {"nodeName": "w1"}, "status": {}})
    with Served(cluster.api, tmp_path) as kubeconfig:
        gate = cluster.gate(kubeconfig)
        gate.run(["w1"], check=False)
    assert gate.verdicts[0].passed


def test_a_taint_added_at_the_same_moment_survives(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", taints=[UNACCEPTED]))
    raced: list[bool] = []

    def race(api: FakeApi, method: str, path: str) -> None:
        if method == "PATCH" and not raced:
            raced.append(True)
            api.touch(path, lambda body: body["spec"]["taints"].append({"key": "theirs", "effect": "NoSchedule"}))

    cluster.api.before = race
    with Served(cluster.api, tmp_path) as kubeconfig:
        cluster.gate(kubeconfig).run(["w1"], check=False)
    assert [t["key"] for t in cluster.api.node("w1")["spec"]["taints"]] == ["theirs"]


def test_check_mode_names_the_nodes_and_makes_no_pod(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", taints=[UNACCEPTED]), node("w2"))
    with Served(cluster.api, tmp_path) as kubeconfig:
        gate = cluster.gate(kubeconfig)
        gate.run(["w1", "w2"], check=True)
    assert [c.what for c in gate.changes] == ["node w1 acceptance"]
    assert {method for method, _path in cluster.api.requests} == {"GET"}


def test_which_nodes_need_the_gate() -> None:
    passed = {ANNOTATION: json.dumps({"format": 1, "passed": True})}
    control_plane = {CONTROL_PLANE_LABEL: ""}
    assert needs_gate(node("w1", taints=[UNACCEPTED], annotations=passed)), "the taint decides"
    assert not needs_gate(node("w1"))
    assert needs_gate(node("cp1", labels=control_plane))
    assert not needs_gate(node("cp1", labels=control_plane, annotations=passed))
    assert needs_gate(node("w1"), recheck=True)


def test_the_pod_tolerates_everything_and_obeys_the_restricted_policy() -> None:
    pod = gate_pod("w1", "agnhost:1", CHECKS, target="fd00::2", dns_domain="cluster.local", run="r", deadline_seconds=9)
    spec = pod["spec"]
    assert spec["nodeName"] == "w1" and spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["securityContext"]["runAsNonRoot"] and spec["automountServiceAccountToken"] is False
    assert all(
        c["imagePullPolicy"] == "Always" and c["securityContext"]["capabilities"] == {"drop": ["ALL"]} for c in spec["containers"]
    )
    assert ["connect", "--timeout=5s", "[fd00::2]:53"] in [c["args"] for c in spec["containers"]]


def test_the_pod_network_is_checked_across_nodes_where_there_is_another() -> None:
    assert choose_target("cp1", [("cp1", "10.0.0.1"), ("w1", "10.0.0.2")]) == "10.0.0.2"
    assert choose_target("cp1", [("cp1", "10.0.0.1")]) == "10.0.0.1"
