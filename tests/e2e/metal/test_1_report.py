# SPDX-License-Identifier: Apache-2.0
"""The preflight report of real machines: what was declared against what is there, and a host that is not there (M04)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .machines import Metal, machine
from .metal_site import metal_site
from .whole import PLAIN, SECURE, VOLUMES


@pytest.fixture(scope="module")
def hosts(final: Metal, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The report's hosts; as both machines lack the GPU that is declared, the run names them and fails."""
    directory: Path = tmp_path_factory.mktemp("report")
    site = metal_site(final, directory / "site", [[PLAIN], [SECURE]])
    run = site.run("--extra-vars", f"bedplate_report_directory={directory}", playbook="playbooks/preflight.yml")
    assert run.code != 0
    found: dict[str, dict[str, Any]] = json.loads((directory / "preflight.json").read_text(encoding="utf-8"))["hosts"]
    assert "Secure Boot" in (directory / "preflight.html").read_text(encoding="utf-8")
    return found


@pytest.mark.parametrize("name", [PLAIN, SECURE])
def test_facts_are_the_machines_own(hosts: dict[str, dict[str, Any]], name: str) -> None:
    facts = hosts[name]["facts"]
    assert facts["distribution"] == {"bookworm": "debian-12", "trixie": "debian-13"}[machine(name).suite]
    hardware = facts["hardware"]
    assert hardware["machine"]["firmware"]["secure_boot"] == ("on" if machine(name).secure_boot else "off")
    there = {disk["serial"]: disk for disk in hardware["disks"]}
    assert {disk.serial: disk.size_bytes for disk in machine(name).disks if disk.serial in there} == {
        serial: disk["size_bytes"] for serial, disk in there.items() if serial in {d.serial for d in machine(name).disks}
    }
    assert len(there) == len(machine(name).disks)
    data = next(disk.serial for disk in machine(name).disks if disk.content == "data")
    assert there[data]["blank"] is False and any("ext4" in what for what in there[data]["carries"])


@pytest.mark.parametrize("name", [PLAIN, SECURE])
def test_what_is_declared_and_not_there_differs(hosts: dict[str, dict[str, Any]], name: str) -> None:
    rows = {row["what"]: row for row in hosts[name]["rows"]}
    gpus = next(row for what, row in rows.items() if "GPU" in what and row["verdict"] == "differs")
    assert gpus["next_step"] and hosts[name]["verdict"] == "differs"


def test_declared_volumes_are_judged_by_the_disks_that_are_there(hosts: dict[str, dict[str, Any]]) -> None:
    rows = {row["what"]: row for row in hosts[SECURE]["rows"]}
    assert {f"NVMe disks of {volume['name']}" for volume in VOLUMES[SECURE]} <= set(rows)
    mirror = rows["NVMe disks of mirror"]
    assert mirror["declared"] == "raid1 of BPM2S1, BPM2S2"


def test_a_host_that_is_not_there_is_in_the_report(hosts: dict[str, dict[str, Any]]) -> None:
    assert hosts["cp1"]["state"] == "unreachable" and hosts["cp1"]["rows"][0]["next_step"]
