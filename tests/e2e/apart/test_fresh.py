# SPDX-License-Identifier: Apache-2.0
"""A one-host cluster from nothing: predicted by check mode, killed during init, finished by the same command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bedplate_tools.lab_site import add_hosts, remove_hosts, write_site

from ..cluster import Cluster
from ..site import Run, Site

NAME = "c1"


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    """The inventory variables of a fresh host."""
    yield add_hosts(NAME)[NAME]
    remove_hosts(NAME)


@pytest.fixture(scope="module")
def alone(lab_up: None, scratch: Path, variables: dict[str, str]) -> Site:
    """A site of its own with the lab's data, another name, and one control-plane host."""
    return Site((write_site(scratch / "alone", "alone", {NAME: variables}, {}, control_plane_schedulable=True),))


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
    assert set(built.changes().get(NAME, ())) <= set(predicted.changes()[NAME])


def test_a_second_run_changes_nothing(alone: Site, built: Run) -> None:
    run = alone.run().ok()
    assert run.changes() == {} and run.of(NAME)["changed"] == 0, run.output[-4000:]
