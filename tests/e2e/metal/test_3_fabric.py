# SPDX-License-Identifier: Apache-2.0
"""Soft-RoCE between two machines with kernels of their own: set up, measured, and there again after a reboot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bedplate_tools.lab_site import write_site

from ..hosts import sh
from ..site import Run, Site
from .machines import Metal, machine

ROLES = ("repositories", "fabric")
RAIL = {"name": "rail0", "fabric": "soft-roce", "device": "enp0s8"}
FLOOR_GBPS = 0.01
"""An emulated processor copies every packet; the measurement is what is shown, not its size."""
CONTROL_PLANE = {"cp1": {"ansible_host": "10.87.0.11", "node_ip": "10.87.0.11", "rack": "r1", "topology_block": "b1"}}
CHECK_SECONDS = 420


def address(name: str) -> str:
    return f"10.88.0.{machine(name).octet}/24"


def apply(metal: Metal, name: str) -> Run:
    card = {**RAIL, "address": address(name), "mtu": 4200}
    return metal.play(name, ROLES, fabric_nics=[card], fabric_management_address=machine(name).address).ok()


@pytest.fixture(scope="module")
def names(metal: Metal) -> list[str]:
    """Both machines, with the role applied."""
    found = sorted(metal.variables)
    for name in found:
        apply(metal, name)
    return found


@pytest.fixture(scope="module")
def pool(metal: Metal, names: list[str], tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site whose pool is the two machines; its cluster is not needed."""
    directory = tmp_path_factory.mktemp("fabric")
    hosts: dict[str, dict[str, Any]] = {
        name: {**metal.variables[name], "rack": "r1", "topology_block": "b1", "fabric_addresses": {"rail0": address(name)}}
        for name in names
    }
    write_site(directory, "metal", CONTROL_PLANE, {"train": hosts})
    spec = {
        "accelerator": "l4-24gb",
        "gpus_per_node": 1,
        "topology": "1gpu-pcie",
        "fabric": "ethernet",
        "workload": "dev",
        "exposure": "none",
        "nics": [{**RAIL, "mtu": 4200, "min_gbps": FLOOR_GBPS}],
    }
    (directory / "group_vars" / "train.yml").write_text(yaml.safe_dump({"gpu_pool": spec}), encoding="utf-8")
    return Site((directory,))


def test_a_second_run_changes_nothing(metal: Metal, names: list[str]) -> None:
    assert apply(metal, names[0]).changes() == {}


def test_device_and_address_are_there_after_a_reboot(metal: Metal, names: list[str]) -> None:
    name = names[0]
    before = sh(name, "cat /proc/sys/kernel/random/boot_id")
    metal.reboot(name)
    assert sh(name, "cat /proc/sys/kernel/random/boot_id") != before
    assert sh(name, "systemctl is-active bedplate-fabric").strip() == "active"
    assert "PORT_ACTIVE" in sh(name, "ibv_devinfo -i 1")
    assert f"inet {address(name)} " in sh(name, "ip -4 address show")


def test_rping_and_bandwidth_between_the_machines(pool: Site, names: list[str], tmp_path: Path) -> None:
    report = tmp_path / "fabric.json"
    arguments = ("--extra-vars", json.dumps({"bedplate_fabric_report": str(report), "bedplate_fabric_seconds": 2}))
    pool.run(*arguments, playbook="playbooks/check_fabric.yml", seconds=CHECK_SECONDS).ok()
    results = json.loads(report.read_text(encoding="utf-8"))["results"]
    assert {(one["host"], one["peer"]) for one in results} == {tuple(names), tuple(reversed(names))}
    for one in results:
        assert one["passed"] and one["pings"] == 3 and one["gbps"] >= one["floor_gbps"] > 0, one


def test_no_server_is_left_behind(pool: Site, names: list[str]) -> None:
    for name in names:
        assert not sh(name, "systemctl list-units --no-legend 'bedplate-fabric-check-*'").strip()
        assert not sh(name, "pgrep -x ib_write_bw; pgrep -x rping", check=False).strip()


def test_a_pair_whose_card_is_down_fails_in_bounded_time_and_is_named(pool: Site, names: list[str]) -> None:
    sh(names[1], "ip link set enp0s8 down")
    try:
        run = pool.run("--extra-vars", "bedplate_fabric_seconds=2", playbook="playbooks/check_fabric.yml", seconds=CHECK_SECONDS)
    finally:
        sh(names[1], "ip link set enp0s8 up")
    assert run.code != 0 and "port is PORT_DOWN" in run.message()
