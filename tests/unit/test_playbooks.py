# SPDX-License-Identifier: Apache-2.0
"""The order of what playbooks do to a host: reboots, what follows them, and the gate before a rolled node takes work again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"


def load(name: str) -> Any:
    return yaml.safe_load((PLAYBOOKS / name).read_text(encoding="utf-8"))


def includes(task: dict[str, Any], name: str) -> bool:
    return any(str(task.get(f"ansible.builtin.{verb}", "")).endswith(name) for verb in ("include_tasks", "import_tasks"))


@pytest.mark.parametrize("result", ["_kernel_result", "_nvidia_driver_result", "_gpu_sharing_result"])
def test_any_component_may_ask_for_the_reboot(result: str) -> None:
    wanted = trust_as_template(load("group_vars/all.yml")["bedplate_reboot"])

    def asked(*, check: Any = False, **results: Any) -> object:
        return Templar(loader=DataLoader(), variables={"ansible_check_mode": check, **results}).template(wanted)

    assert asked(**{result: {"reboot": True}}) is True
    assert asked(**{result: {"reboot": False}}) is False and asked(**{result: {"skipped": True}}) is False and asked() is False
    assert asked(check=True, **{result: {"reboot": True}}) is False, "check mode reboots nothing"


def test_site_reboots_after_the_host_components_and_before_the_host_joins() -> None:
    plays = {play["name"]: play["tasks"] for play in load("site.yml")}
    reboot = [task for task in plays["Host components"] if includes(task, "tasks/reboot.yml")]
    assert reboot == plays["Host components"][-1:] and reboot[0]["when"] == "bedplate_reboot"
    assert list(plays).index("Host components") < list(plays).index("Workers")


def test_a_reboot_is_followed_by_the_host_components_once() -> None:
    reboot, again, enough = load("tasks/reboot.yml")
    assert "ansible.builtin.reboot" in reboot["block"][0] and includes(again, "host_components.yml")
    assert "console" in reboot["rescue"][0]["ansible.builtin.fail"]["msg"], "says where to look at a host that stays away"
    assert "a second time" in " ".join(enough["ansible.builtin.fail"]["msg"].split()) and "reboot_reasons" in enough["when"]
    assert not [task for task in load("tasks/host_components.yml") if "ansible.builtin.import_role" not in task], "no loop"


def test_a_rolled_node_passes_the_gate_after_its_reboot_or_stays_cordoned() -> None:
    (block,) = [task for task in load("tasks/roll_node.yml") if task["name"] == "Change and check the drained node"]
    steps = block["block"]
    (gate,) = [index for index, task in enumerate(steps) if "bedplate.metal.gate" in task]
    (reboot,) = [index for index, task in enumerate(steps) if includes(task, "reboot.yml")]
    (finish,) = [i for i, task in enumerate(steps) if (task.get("bedplate.metal.rolling_node") or {}).get("step") == "finish"]
    assert reboot < gate < finish and steps[gate]["bedplate.metal.gate"]["recheck"] is True
    assert "rejected" in steps[gate + 1]["ansible.builtin.fail"]["msg"]
    assert block["rescue"][0]["bedplate.metal.rolling_node"]["step"] == "fail"


def test_a_pool_that_shows_its_gpus_no_more_is_rolled_too() -> None:
    (shown,) = [task for task in load("tasks/node_components.yml") if "bedplate.metal.pool_nodes" in task]
    assert "when" not in shown


def test_a_share_is_served_before_it_is_mounted() -> None:
    plays = [play["name"] for play in load("site.yml")]
    assert plays[0] == "Storage servers that are no nodes"
    roles = [task["ansible.builtin.import_role"]["name"].rpartition(".")[2] for task in load("tasks/host_components.yml")]
    assert roles.index("nvme") < roles.index("nfs_server") < roles.index("nfs_client") < roles.index("kubelet")
    assert roles.index("fabric") < roles.index("nfs_client"), "it may be reached over the fabric"


def test_the_last_share_taken_out_is_taken_away() -> None:
    """The roles run where a share is declared, and where preflight saw one of before."""
    tasks = {task["name"]: task for task in load("tasks/host_components.yml")}
    for name, role in (("NFS server", "nfs_server"), ("NFS client", "nfs_client")):
        when = trust_as_template("{{ " + tasks[name]["when"] + " }}")

        def runs(shares: list[str], observed: Any, when: Any = when, role: str = role) -> object:
            variables = {f"{role}_shares": shares, **observed}
            return Templar(loader=DataLoader(), variables=variables).template(when)

        assert runs(["data"], {}) is True and runs([], {"bedplate_observed": {"nfs": [role]}}) is True
        assert runs([], {}) is False and runs([], {"bedplate_observed": {"nfs": []}}) is False
