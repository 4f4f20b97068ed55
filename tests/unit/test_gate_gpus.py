# SPDX-License-Identifier: Apache-2.0
"""The gate's GPU part: fewer GPUs than declared (case C25), mismatch, hung probe (C27), XIDs; one node, never its neighbours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate_gpus import GpuState, had
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate_run import ACCEPTED_WAIT_SECONDS, Gate
from fake_api import FakeApi, Served, node
from test_gate import UNACCEPTED, Cluster, result

GPUS = {"nvidia.com/gpu": 8}
LABELS = {"pool.bedplate.dev/exposure": "operator"}
DESIRED = {"gpus": {"declared": 8, "resources": GPUS}, "exposure_labels": LABELS}
HEALTHY: dict[str, Any] = {"gpu": {"probe": "ok", "loaded": "580.126.09", "libraries": ["580.126.09"], "findings": []}}


def finding(what: str, found: str, wanted: str, **probe: Any) -> dict[str, Any]:
    return {"gpu": {**HEALTHY["gpu"], **probe, "findings": [{"what": what, "found": found, "wanted": wanted, "next_step": "-"}]}}


LOST = finding("GPU 0000:4e:00.0", "known to the machine, and not answering", "answering", probe="lost")
WEDGED = finding("nvidia-smi", "nvidia-smi gave no answer within 12 s and was killed", "an answer", probe="wedged")
XID = finding("GPU 0000:1b:00.0", "XID 79 since the last boot", "no XID of the hardware")
MISMATCH = finding("GPU driver", "module 550.90.07 loaded and library 550.107.02 installed", "both 550.107.02", probe="mismatch")
UPGRADE = finding("GPU driver", "module 580.126.09 loaded and library 580.126.09 installed", "both 580.159.03")


SEVEN = {"1g.10gb": 7}
UNDIVIDED = {"what": "GPUs divided by MIG", "before": {"0": "no instances"}, "after": {"0": SEVEN}, "effects": ["drain"]}
CLAIMED = {"gpus": {"declared": 8, "resources": {}}, "exposure_labels": {"pool.bedplate.dev/exposure": "dra"}}
"""A node that shows its GPUs by dynamic resource allocation."""


def state(driver: dict[str, Any] = HEALTHY, **sharing: Any) -> GpuState:
    return GpuState.of(DESIRED, driver, sharing)


def gpu_node(name: str, allocatable: int = 8, **changes: Any) -> dict[str, Any]:
    body = node(name, **{"labels": LABELS, **changes})
    body["status"]["allocatable"] = {"cpu": "8", "nvidia.com/gpu": str(allocatable)}
    return body


def gate(cluster: Cluster, tmp_path: Path, check: bool = False, **gpus: GpuState) -> Gate:
    with Served(cluster.api, tmp_path) as kubeconfig:
        run = cluster.gate(kubeconfig, gpus=gpus)
        run.run(list(gpus), check=check)
    return run


def taints(api: FakeApi, name: str) -> list[str]:
    return [taint["key"] for taint in api.node(name)["spec"].get("taints") or []]


def accepted(tmp_path: Path) -> Cluster:
    """A cluster whose node w1 passed the gate with eight GPUs."""
    cluster = Cluster(gpu_node("w1", taints=[UNACCEPTED]))
    gate(cluster, tmp_path, w1=state())
    assert taints(cluster.api, "w1") == []
    cluster.api.requests.clear()
    return cluster


def set_allocatable(cluster: Cluster, count: int) -> None:
    cluster.api.touch("/api/v1/nodes/w1", lambda body: body["status"]["allocatable"].update({"nvidia.com/gpu": str(count)}))


def test_a_healthy_node_is_accepted_with_its_gpus_and_a_second_run_is_one_list_call(tmp_path: Path) -> None:
    cluster = accepted(tmp_path)
    checks = result(cluster.api, "w1")["checks"]
    assert checks["gpu-health"]["passed"] and checks["gpu-resources"]["passed"]
    assert not gate(cluster, tmp_path, w1=state()).changes
    assert cluster.api.requests == [("GET", "/api/v1/nodes")]


@pytest.mark.parametrize("driver", [LOST, WEDGED, XID, MISMATCH], ids=["lost", "wedged", "xid", "mismatch"])
def test_a_new_node_with_sick_gpus_is_refused_at_once_and_the_others_go_on(tmp_path: Path, driver: dict[str, Any]) -> None:
    cluster = Cluster(gpu_node("w1", taints=[UNACCEPTED]), gpu_node("w2", taints=[UNACCEPTED]))
    run = gate(cluster, tmp_path, w1=state(driver), w2=state())
    assert {verdict.node: verdict.passed for verdict in run.verdicts} == {"w1": False, "w2": True}
    assert taints(cluster.api, "w1") == [UNACCEPTED["key"]] and taints(cluster.api, "w2") == []
    message = result(cluster.api, "w1")["message"]
    found = driver["gpu"]["findings"][0]
    assert (
        f"node w1 check gpu-health: found {found['what']}: found {found['found']}" in message
        and "Next: drain the node" in message
    )
    assert not [path for method, path in cluster.api.requests if method == "POST" and "w1" in path]


def test_seven_of_eight_allocatable_keep_the_node_out(tmp_path: Path) -> None:
    cluster = Cluster(gpu_node("w1", 7, taints=[UNACCEPTED]))
    run = gate(cluster, tmp_path, w1=state())
    assert "check gpu-resources: found nvidia.com/gpu 7 of 8; wanted all of them allocatable" in run.verdicts[0].message
    assert taints(cluster.api, "w1") == [UNACCEPTED["key"]]


@pytest.mark.parametrize("driver", [LOST, WEDGED, XID, MISMATCH], ids=["lost", "wedged", "xid", "mismatch"])
def test_an_accepted_node_whose_gpus_fail_gets_its_taint_again_without_waiting(tmp_path: Path, driver: dict[str, Any]) -> None:
    cluster = accepted(tmp_path)
    run = gate(cluster, tmp_path, w1=state(driver))
    assert taints(cluster.api, "w1") == [UNACCEPTED["key"]]
    assert [c.after for c in run.changes] == ["rejected"]
    assert "gpu-health" in result(cluster.api, "w1")["message"]
    healed = gate(cluster, tmp_path, w1=state())
    assert healed.verdicts[0].passed and taints(cluster.api, "w1") == []


def test_an_accepted_node_that_advertises_less_for_long_loses_its_acceptance(tmp_path: Path) -> None:
    cluster = accepted(tmp_path)
    set_allocatable(cluster, 7)
    run = gate(cluster, tmp_path, w1=state())
    assert "nvidia.com/gpu 7 of 8" in run.verdicts[0].message and taints(cluster.api, "w1") == [UNACCEPTED["key"]]
    assert ACCEPTED_WAIT_SECONDS < 60, "visible within a minute"


def test_a_device_plugin_that_is_being_replaced_is_waited_for(tmp_path: Path) -> None:
    cluster = accepted(tmp_path)
    set_allocatable(cluster, 0)
    looks = []

    def comes_back(api: FakeApi, method: str, path: str) -> None:
        looks.append(path)
        if len(looks) == 4:
            set_allocatable(cluster, 8)

    cluster.api.before = comes_back
    run = gate(cluster, tmp_path, w1=state())
    assert not run.changes and taints(cluster.api, "w1") == []


def test_what_waits_for_a_drain_is_no_reason_to_take_the_acceptance(tmp_path: Path) -> None:
    cluster = accepted(tmp_path)
    assert not gate(cluster, tmp_path, w1=state(UPGRADE)).changes, "a driver upgrade that waits"
    divided = {"gpus": {"resources": {"nvidia.com/mig-1g.10gb": 56}}, "exposure_labels": LABELS}
    assert not gate(cluster, tmp_path, w1=GpuState.of(divided, HEALTHY, {"deferred": [UNDIVIDED]})).changes
    moved = {"gpus": {"resources": {"nvidia.com/gpu": 32}}, "exposure_labels": {"pool.bedplate.dev/exposure": "device-plugin"}}
    assert not gate(cluster, tmp_path, w1=GpuState.of(moved, HEALTHY, {})).changes, "another way to show them that waits"
    assert taints(cluster.api, "w1") == []


def test_a_new_node_must_have_the_driver_that_is_wanted(tmp_path: Path) -> None:
    cluster = Cluster(gpu_node("w1", taints=[UNACCEPTED]))
    assert not gate(cluster, tmp_path, w1=state(UPGRADE)).verdicts[0].passed


def test_a_node_accepted_before_it_had_gpus_is_left_in_service_until_they_work(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", taints=[UNACCEPTED], labels=LABELS))
    gate(cluster, tmp_path, w1=GpuState())
    no_driver = finding("GPU driver", "no driver loaded", "580.126.09 loaded", probe="absent")
    assert not gate(cluster, tmp_path, w1=state(no_driver)).changes and taints(cluster.api, "w1") == []
    cluster.api.touch("/api/v1/nodes/w1", lambda body: body["status"].update(allocatable={"nvidia.com/gpu": "8"}))
    assert [c.what for c in gate(cluster, tmp_path, w1=state()).changes] == ["node w1 GPUs"]
    assert had(cluster.api.node("w1"), "gpu-resources") and result(cluster.api, "w1")["checks"]["service"]["passed"]
    assert not gate(cluster, tmp_path, w1=state()).changes


@pytest.mark.parametrize("exposure", ["dra", "none"])
def test_gpus_that_no_device_plugin_shows_are_watched_too(tmp_path: Path, exposure: str) -> None:
    desired = {**CLAIMED, "exposure_labels": {"pool.bedplate.dev/exposure": exposure}}
    cluster = Cluster(node("w1", taints=[UNACCEPTED], labels=desired["exposure_labels"]))
    gate(cluster, tmp_path, w1=GpuState.of(desired, HEALTHY, {}))
    assert result(cluster.api, "w1")["checks"]["gpu-health"]["passed"] and taints(cluster.api, "w1") == []
    gate(cluster, tmp_path, w1=GpuState.of(desired, LOST, {}))
    assert taints(cluster.api, "w1") == [UNACCEPTED["key"]]


def test_gpus_a_node_in_service_got_without_a_device_plugin_are_watched_from_then_on(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", taints=[UNACCEPTED], labels=CLAIMED["exposure_labels"]))
    gate(cluster, tmp_path, w1=GpuState())
    claimed = GpuState.of(CLAIMED, HEALTHY, {})
    assert [c.what for c in gate(cluster, tmp_path, w1=claimed).changes] == ["node w1 GPUs"]
    assert not gate(cluster, tmp_path, w1=claimed).changes
    shown = GpuState.of({**DESIRED, "exposure_labels": CLAIMED["exposure_labels"]}, HEALTHY, {})
    assert not gate(cluster, tmp_path, w1=shown).changes, "its first device plugin may take its time"
    gate(cluster, tmp_path, w1=GpuState.of(CLAIMED, LOST, {}))
    assert taints(cluster.api, "w1") == [UNACCEPTED["key"]]


def divided(**sharing: Any) -> GpuState:
    return GpuState.of({**CLAIMED, "roles": {"gpu_sharing": {"mig": SEVEN}}}, HEALTHY, sharing)


def test_a_node_that_comes_back_without_its_instances_loses_its_acceptance(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", taints=[UNACCEPTED], labels=CLAIMED["exposure_labels"]))
    gate(cluster, tmp_path, w1=GpuState.of(CLAIMED, HEALTHY, {}))
    assert not gate(cluster, tmp_path, w1=divided(deferred=[UNDIVIDED])).changes, "a first division that waits for a drain"
    cluster.api.touch("/api/v1/nodes/w1", lambda body: body["spec"].update(taints=[UNACCEPTED]))
    gate(cluster, tmp_path, w1=divided())
    assert taints(cluster.api, "w1") == []
    run = gate(cluster, tmp_path, w1=divided(deferred=[UNDIVIDED]))
    assert taints(cluster.api, "w1") == [UNACCEPTED["key"]]
    assert "GPUs divided by MIG: found {'0': 'no instances'}" in run.verdicts[0].message


def test_a_new_node_must_be_divided(tmp_path: Path) -> None:
    cluster = Cluster(node("w1", taints=[UNACCEPTED], labels=CLAIMED["exposure_labels"]))
    held = {**UNDIVIDED, "effects": ["drain", "reboot"]}
    assert not gate(cluster, tmp_path, w1=divided(changes=[held], reboot=True)).verdicts[0].passed
    assert taints(cluster.api, "w1") == [UNACCEPTED["key"]]


def test_check_mode_names_a_node_that_would_lose_its_acceptance(tmp_path: Path) -> None:
    cluster = accepted(tmp_path)
    run = gate(cluster, tmp_path, check=True, w1=state(LOST))
    assert [c.what for c in run.changes] == ["node w1 acceptance"] and taints(cluster.api, "w1") == []


def test_hosts_without_gpus_have_no_gpu_checks() -> None:
    assert GpuState.of({}, {}, {}).new(node("w1")) == [] == GpuState.of({}, {}, {}).accepted(node("w1"))
