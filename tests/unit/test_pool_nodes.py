# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, KubeError
from ansible_collections.bedplate.metal.plugins.plugin_utils.pool_nodes import (
    EXPOSURE,
    NodeDesired,
    Reconciled,
    plan_node,
    reconcile,
)
from fake_api import FakeApi, Served, node

RESTRICTED = "pool.node-restriction.kubernetes.io/name"
UNACCEPTED = {"key": "bedplate.dev/unaccepted", "effect": "NoSchedule"}
DESIRED: dict[str, Any] = {
    "labels": {"pool.bedplate.dev/name": "train"},
    "node_restriction_labels": {RESTRICTED: "train"},
    "taints": [{"key": "pool.bedplate.dev/name", "value": "train", "effect": "NoSchedule"}],
    "pool": "train",
    "roles": {},
}


def cluster(**nodes: dict[str, Any]) -> FakeApi:
    api = FakeApi()
    for name, body in nodes.items():
        api.add(f"/api/v1/nodes/{name}", body)
    return api


def test_only_nodes_that_differ_are_patched_and_a_second_run_is_one_list_call(tmp_path: Path) -> None:
    fake = cluster(w1=node("w1", labels={"kubernetes.io/os": "linux"}, taints=[UNACCEPTED]), w2=node("w2"))
    with Served(fake, tmp_path) as kubeconfig:
        found = reconcile(Api(kubeconfig), ["w1"], {"w1": DESIRED}, check=False)
        assert found.changes and not found.missing
        assert fake.node("w1")["metadata"]["labels"] == {
            "kubernetes.io/os": "linux",
            "pool.bedplate.dev/name": "train",
            RESTRICTED: "train",
        }
        assert fake.node("w1")["spec"]["taints"] == [UNACCEPTED, DESIRED["taints"][0]], "the gate's taint is not the pool's"
        assert "labels" not in fake.node("w2") and fake.node("w2")["metadata"]["labels"] == {}
        fake.requests.clear()
        assert reconcile(Api(kubeconfig), ["w1"], {"w1": DESIRED}, check=False) == Reconciled()
    assert fake.requests == [("GET", "/api/v1/nodes")]


def test_what_was_set_here_and_is_no_longer_wanted_goes_and_foreign_things_stay(tmp_path: Path) -> None:
    theirs = {"key": "maintenance", "value": "yes", "effect": "NoExecute"}
    fake = cluster(w1=node("w1", labels={"team": "x"}, taints=[theirs]))
    with Served(fake, tmp_path) as kubeconfig:
        reconcile(Api(kubeconfig), ["w1"], {"w1": DESIRED}, check=False)
        moved = {"labels": {"pool.bedplate.dev/workload": "inference"}, "taints": []}
        changes = reconcile(Api(kubeconfig), ["w1"], {"w1": moved}, check=False).changes
    assert fake.node("w1")["metadata"]["labels"] == {"team": "x", "pool.bedplate.dev/workload": "inference"}
    assert fake.node("w1")["spec"]["taints"] == [theirs]
    assert "node w1 taints" in [c.what for c in changes]


def test_check_mode_predicts_and_patches_nothing(tmp_path: Path) -> None:
    fake = cluster(w1=node("w1"))
    with Served(fake, tmp_path) as kubeconfig:
        predicted = reconcile(Api(kubeconfig), ["w1"], {"w1": DESIRED}, check=True).changes
        assert {method for method, _path in fake.requests} == {"GET"}
        done = reconcile(Api(kubeconfig), ["w1"], {"w1": DESIRED}, check=False).changes
    assert [c.public() for c in predicted] == [c.public() for c in done]


def test_a_taint_somebody_adds_at_the_same_moment_is_not_lost(tmp_path: Path) -> None:
    fake = cluster(w1=node("w1"))
    raced: list[bool] = []

    def race(api: FakeApi, method: str, path: str) -> None:
        if method == "PATCH" and not raced:
            raced.append(True)
            api.touch(path, lambda body: body["spec"]["taints"].append({"key": "theirs", "effect": "NoSchedule"}))

    fake.before = race
    with Served(fake, tmp_path) as kubeconfig:
        reconcile(Api(kubeconfig), ["w1"], {"w1": DESIRED}, check=False)
    assert [t["key"] for t in fake.node("w1")["spec"]["taints"]] == ["theirs", "pool.bedplate.dev/name"]


def test_a_host_without_a_node_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    fake = cluster(w1=node("w1"))
    with Served(fake, tmp_path) as kubeconfig:
        found = reconcile(Api(kubeconfig), ["w9", "w1"], {"w1": DESIRED}, check=False, wait_seconds=0)
    assert "found no Node object" in found.missing["w9"] and found.changes


def test_a_node_that_registers_a_moment_after_the_join_is_waited_for(tmp_path: Path) -> None:
    fake = cluster()

    def register(api: FakeApi, method: str, path: str) -> None:
        if len(api.requests) == 2:
            api.add("/api/v1/nodes/w1", node("w1"))

    fake.before = register
    with Served(fake, tmp_path) as kubeconfig:
        found = reconcile(Api(kubeconfig), ["w1"], {"w1": DESIRED}, check=False)
    assert not found.missing and found.changes


def test_a_changed_value_of_a_taint_replaces_it() -> None:
    found = node("w1", taints=[{"key": "pool.bedplate.dev/name", "value": "old", "effect": "NoSchedule"}])
    plan = plan_node(found, NodeDesired.of(DESIRED))
    assert plan.patch["spec"]["taints"] == DESIRED["taints"]


SHOWN = {EXPOSURE: "device-plugin", "pool.bedplate.dev/exposure-config": "whole"}
SLICED = {EXPOSURE: "device-plugin", "pool.bedplate.dev/exposure-config": "time-slices-4"}
OPERATOR = {EXPOSURE: "operator", "nvidia.com/device-plugin.config": "whole"}


def test_shown_gpus_change_only_on_a_node_without_work(tmp_path: Path) -> None:
    fake = cluster(w1=node("w1"))
    with Served(fake, tmp_path) as kubeconfig:
        api = Api(kubeconfig)

        def run(exposure: dict[str, str], busy: bool) -> Reconciled:
            wanted = {"w1": {**DESIRED, "exposure_labels": exposure}}
            return reconcile(api, ["w1"], wanted, check=False, busy=["w1"] if busy else [])

        first = run(SHOWN, busy=True)
        assert not first.deferred, "a node that shows no GPUs yet has no work to disturb"
        assert SHOWN.items() <= fake.node("w1")["metadata"]["labels"].items()
        for exposure in (SLICED, OPERATOR):
            waiting = run(exposure, busy=True)
            assert [(c.before, c.after, sorted(c.effects)) for c in waiting.deferred["w1"]] == [(SHOWN, exposure, ["drain"])]
            assert not waiting.changes and SHOWN.items() <= fake.node("w1")["metadata"]["labels"].items()
        assert waiting.deferred_results()[0]["host"] == "w1"
        assert waiting.deferred_results()[0]["playbook"] == "bedplate.metal.roll_pool"
        drained = run(OPERATOR, busy=False)
        assert drained.changes and not drained.deferred
        labels = fake.node("w1")["metadata"]["labels"]
        assert OPERATOR.items() <= labels.items() and "pool.bedplate.dev/exposure-config" not in labels
        assert run(OPERATOR, busy=True) == Reconciled()


def test_gpus_that_are_shown_no_more_wait_for_a_drain_and_go(tmp_path: Path) -> None:
    fake = cluster(w1=node("w1"))
    with Served(fake, tmp_path) as kubeconfig:
        api = Api(kubeconfig)
        reconcile(api, ["w1"], {"w1": {**DESIRED, "exposure_labels": SHOWN}}, check=False)
        none = {"w1": {**DESIRED, "exposure_labels": {}}}
        waiting = reconcile(api, ["w1"], none, check=False, busy=["w1"])
        assert [(c.before, c.after) for c in waiting.deferred["w1"]] == [(SHOWN, {})] and not waiting.changes
        reconcile(api, ["w1"], none, check=False)
        assert not SHOWN.keys() & fake.node("w1")["metadata"]["labels"].keys()
        assert reconcile(api, ["w1"], none, check=False, busy=["w1"]) == Reconciled()


def test_other_labels_of_a_busy_node_are_set_while_its_gpus_wait(tmp_path: Path) -> None:
    fake = cluster(w1=node("w1"))
    with Served(fake, tmp_path) as kubeconfig:
        api = Api(kubeconfig)
        reconcile(api, ["w1"], {"w1": {**DESIRED, "exposure_labels": SHOWN}}, check=False)
        moved = {**DESIRED, "labels": {"pool.bedplate.dev/workload": "dev"}, "exposure_labels": SLICED}
        found = reconcile(api, ["w1"], {"w1": moved}, check=False, busy=["w1"])
    assert [c.what for c in found.changes] == ["node w1 label pool.bedplate.dev/name", "node w1 label pool.bedplate.dev/workload"]
    assert list(found.deferred) == ["w1"]
    assert SHOWN.items() <= fake.node("w1")["metadata"]["labels"].items()


def test_an_annotation_of_a_future_format_is_refused() -> None:
    found = node("w1", annotations={"bedplate.dev/pool": '{"format": 2}'})
    with pytest.raises(BedplateError, match="found format 2"):
        plan_node(found, NodeDesired.of(DESIRED))


def test_an_api_that_is_down_is_named(tmp_path: Path) -> None:
    with Served(FakeApi(), tmp_path) as kubeconfig:
        pass
    with pytest.raises(KubeError, match=r"GET /api/v1/nodes: no answer"):
        Api(kubeconfig).nodes()
