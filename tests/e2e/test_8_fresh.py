# SPDX-License-Identifier: Apache-2.0
"""A one-host cluster from nothing: predicted by check mode, killed during init, finished by the same command."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from . import hosts as lab_hosts
from .cluster import Cluster
from .site import INVENTORY, Run, Site

NAME = "c1"


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    """The inventory variables of a fresh host."""
    yield lab_hosts.add(NAME)[NAME]
    lab_hosts.remove(NAME)


@pytest.fixture(scope="module")
def alone(lab_up: None, scratch: Path, variables: dict[str, str]) -> Site:
    """A site of its own with the lab's data, another name, and one control-plane host."""
    directory = scratch / "alone"
    shutil.copytree(INVENTORY, directory)
    for path in (directory / "group_vars" / "all").glob("*.yml"):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        if "cluster" in data:
            data["cluster"] |= {"name": "alone", "control_plane_schedulable": True}
            path.write_text(yaml.safe_dump(data), encoding="utf-8")
    (directory / "hosts.yml").write_text(json.dumps({"all": {"children": {"control_plane": {"hosts": {NAME: variables}}}}}))
    return Site((directory,))


@pytest.fixture(scope="module")
def predicted(alone: Site) -> Run:
    """Check mode before there is anything."""
    return alone.run("--check").ok()


@pytest.fixture(scope="module")
def built(alone: Site, predicted: Run) -> Run:
    """The run that builds it, after one that was killed during init."""
    alone.run_killed_at(r"TASK \[bedplate\.metal\.control_plane : (?!Validating)")
    return alone.run().ok()


def test_check_mode_on_a_fresh_cluster_completes_and_predicts(predicted: Run) -> None:
    what = predicted.changes()[NAME]
    assert "package kubelet" in what and "package containerd" in what
    assert predicted.of(NAME)["failed"] == 0


def test_an_init_that_was_killed_is_gone_on_with(built: Run, variables: dict[str, str]) -> None:
    cluster = Cluster.of(NAME, variables["ansible_host"])
    cluster.wait_ready(NAME)
    assert set(cluster.nodes()) == {NAME}


def test_both_runs_together_did_what_was_predicted(predicted: Run, built: Run) -> None:
    assert set(built.changes()[NAME]) <= set(predicted.changes()[NAME])


def test_a_second_run_changes_nothing(alone: Site, built: Run) -> None:
    run = alone.run().ok()
    assert run.changes() == {} and run.of(NAME)["changed"] == 0, run.output[-4000:]
