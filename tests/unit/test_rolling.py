# SPDX-License-Identifier: Apache-2.0
"""H50a–c: waves, limits, dead and cordoned nodes, interrupted runs; the cordon before is restored exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.rolling import (
    ANNOTATION,
    CORDONED,
    DRAINED,
    FAILED,
    RollingNode,
    RollingState,
    RollPlan,
    Upgrade,
    plan_waves,
    share,
)
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api
from ansible_collections.bedplate.metal.plugins.plugin_utils.rolling_nodes import plan_step, refusal, take_step, waiting
from fake_api import FakeApi, Served, node


def pool(count: int, **special: dict[str, Any]) -> list[RollingNode]:
    return [RollingNode(**{"name": f"n{i:02}", "pending": True, **special.get(f"n{i:02}", {})}) for i in range(1, count + 1)]


def sizes(plan: RollPlan) -> list[int]:
    return [len(batch) for batch in plan.batches]


def test_canary_then_cumulative_waves_never_more_than_the_limit_out() -> None:
    plan = plan_waves(pool(20), Upgrade(1, ("25%", "100%"), "25%", 1))
    assert sizes(plan) == [1, 4, 5, 5, 5]
    assert list(plan.waves) == [1, 1, 3]
    assert plan.order == [f"n{i:02}" for i in range(1, 21)]


@pytest.mark.parametrize(
    ("total", "text", "limit"), [(3, "30%", 1), (10, "30%", 3), (2, "25%", 1), (8, "2", 2), (1, "100%", 1), (10, "29.9%", 2)]
)
def test_a_share_rounds_down_but_never_below_one(total: int, text: str, limit: int) -> None:
    assert Upgrade(max_unavailable=text).limit(total) == limit


def test_wave_shares_round_up() -> None:
    assert share("25%", 10, up=True) == 3 and share("7", 10, up=True) == 7


def test_a_dead_node_is_skipped_named_and_takes_up_room() -> None:
    plan = plan_waves(pool(10, n03={"ready": False}), Upgrade(1, ("100%",), "30%"))
    assert plan.skipped == {"n03": "not Ready"} and "n03" not in plan.order
    assert max(sizes(plan)) == 2
    blocked = plan_waves(pool(4, n03={"ready": False}), Upgrade(1, ("100%",), "1"))
    assert not blocked.batches and "n03" in blocked.blocked and "wanted fewer than 1 of 4" in blocked.blocked


def test_a_node_an_admin_cordoned_is_rolled_and_counts_as_out_throughout() -> None:
    plan = plan_waves(pool(10, n05={"unschedulable": True}), Upgrade(1, ("100%",), "30%"))
    assert plan.order[0] == "n05" and sorted(plan.order) == [f"n{i:02}" for i in range(1, 11)]
    assert all(len(batch) <= 2 for batch in plan.batches)


def test_nodes_an_interrupted_run_has_out_go_first() -> None:
    state = RollingState(DRAINED, False, "pool train")
    plan = plan_waves(pool(6, n04={"unschedulable": True, "ready": False, "state": state}), Upgrade(1, ("100%",), "1"))
    assert plan.order[0] == "n04" and sizes(plan) == [1] * 6


def test_nothing_pending_is_no_batch() -> None:
    plan = plan_waves([RollingNode("n01", pending=False)], Upgrade())
    assert not plan.batches and not plan.blocked


def test_the_failure_budget_stops_the_rolling_and_within_it_the_failed_go_first() -> None:
    failed = {"unschedulable": True, "state": RollingState(FAILED, False)}
    stopped = plan_waves(pool(8, n02={**failed, "pending": False}), Upgrade(failure_budget=0, max_unavailable="2"))
    assert stopped.order == ["n02"], "a failed node is tried again, also where nothing but its check failed"
    assert all("failure_budget" in reason for reason in stopped.skipped.values()) and len(stopped.skipped) == 7
    assert plan_waves(pool(8, n02=failed), Upgrade(failure_budget=1, max_unavailable="2")).order[0] == "n02"


def test_upgrade_data_may_be_partial() -> None:
    assert Upgrade.of({"max_unavailable": 2, "waves": [50, "100%"], "cost": 1}) == Upgrade(1, ("50", "100%"), "2")


@pytest.mark.parametrize("cordoned_before", [False, True])
@pytest.mark.parametrize("killed_after", ["begin", "drained", "fail"])
def test_the_cordon_before_is_restored_exactly_also_when_killed_in_between(
    cordoned_before: bool, killed_after: str, tmp_path: Path
) -> None:
    fake = FakeApi()
    fake.add("/api/v1/nodes/w1", node("w1", unschedulable=cordoned_before))
    with Served(fake, tmp_path) as kubeconfig:
        api = Api(kubeconfig)

        def step(name: str) -> None:
            take_step(api, "w1", name, action="pool train", message="broke", check=False)

        for name in ("begin", "drained", "fail"):
            step(name)
            if name == killed_after:
                break
        assert fake.node("w1")["spec"]["unschedulable"] is True
        for name in ("begin", "drained", "finish"):
            step(name)
    assert bool(fake.node("w1")["spec"].get("unschedulable")) is cordoned_before
    assert ANNOTATION not in fake.node("w1")["metadata"]["annotations"]


def test_undo_before_draining_leaves_no_trace() -> None:
    begun = plan_step(node("w1"), "begin", action="x")
    assert begun["spec"] == {"unschedulable": True}
    held = node("w1", unschedulable=True, annotations={ANNOTATION: RollingState(CORDONED, False).text()})
    assert plan_step(held, "undo")["spec"] == {"unschedulable": None}
    assert plan_step(node("w1"), "undo") == {}


def test_a_step_out_of_order_is_refused() -> None:
    with pytest.raises(BedplateError, match="found no rolling begun"):
        plan_step(node("w1"), "drained")


def test_the_limit_is_judged_again_when_a_batch_begins() -> None:
    nodes = pool(10, n09={"ready": False})
    assert refusal(nodes, ["n01", "n02"], Upgrade(max_unavailable="30%")) == ""
    nodes = pool(10, n08={"unschedulable": True}, n09={"ready": False})
    assert "n08, n09" in refusal(nodes, ["n01", "n02"], Upgrade(max_unavailable="30%"))
    failed = {"state": RollingState(FAILED, False), "unschedulable": True}
    assert "failure_budget" in refusal(pool(10, n01=failed), ["n02"], Upgrade(max_unavailable="30%"))
    assert refusal(pool(10, n01=failed, n02=failed), ["n02"], Upgrade(max_unavailable="30%")) == "", "failed ones may try again"


def test_a_state_of_a_future_format_is_refused() -> None:
    with pytest.raises(BedplateError, match="found format 2"):
        RollingState.read('{"format": 2}')


def test_hosts_with_deferred_changes_wait() -> None:
    hostvars = {"w1": {"_kubelet_result": {"deferred": [{}]}}, "w2": {"_kubelet_result": {"deferred": []}}, "w3": {}}
    assert waiting(hostvars, ["w1", "w2", "w3", "w4"], ["_kubelet_result", "_kernel_result"]) == ["w1"]
