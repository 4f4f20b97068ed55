# SPDX-License-Identifier: Apache-2.0
"""A worker is added to a running cluster: predicted, cheap, and nothing but facts elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bedplate_tools.lab_site import add_hosts, remove_hosts

from .cluster import Cluster, gate_proof, taints
from .hosts import sh
from .site import Run, Site

NAME = "e1"
MOST_EXECUTED = 40
"""Executed tasks that adding a worker may have on it."""


@pytest.fixture(scope="module")
def bigger(site: Site, scratch: Path, cluster: Cluster) -> Iterator[Site]:
    """The site with one more, bare host."""
    yield site.adding(scratch, add_hosts(NAME, gpus="h100-80gb"))
    cluster.core.delete_node(NAME)
    remove_hosts(NAME)


@pytest.fixture(scope="module")
def predicted(bigger: Site) -> Run:
    """Check mode on the fresh host."""
    return bigger.run("--limit", NAME, "--check").ok()


@pytest.fixture(scope="module")
def added(bigger: Site, predicted: Run) -> Run:
    """The run that adds it, not limited to it."""
    return bigger.run().ok()


def test_check_mode_on_a_fresh_host_touches_nothing(bigger: Site, predicted: Run) -> None:
    assert predicted.of(NAME)["failed"] == 0
    if not sh(NAME, "ls /etc/kubernetes /var/lib/bedplate 2>/dev/null", check=False).strip():
        return
    pytest.fail("check mode left something on the host")


def test_check_mode_on_a_fresh_host_predicts_the_run(predicted: Run, added: Run) -> None:
    assert predicted.changes("controller")[NAME] == added.changes("controller")[NAME]


def test_adding_a_worker_is_cheap_and_touches_no_other_host(added: Run, hosts: dict[str, Any]) -> None:
    assert 0 < added.of(NAME)["executed"] <= MOST_EXECUTED
    for name in hosts:
        assert added.of(name)["changed"] == 0, added.output[-4000:]


def test_the_worker_is_ready_and_accepted(added: Run, cluster: Cluster) -> None:
    cluster.wait_ready(NAME)
    node = cluster.nodes()[NAME]
    assert ("pool.bedplate.dev/name", "train", "NoSchedule") in taints(node)
    assert "bedplate.dev/unaccepted" not in {key for key, _value, _effect in taints(node)}
    assert gate_proof(node)["format"] == 1


def test_pods_run_on_the_new_worker(added: Run, cluster: Cluster, namespace: None) -> None:
    cluster.start("on-the-new-worker", ["connect", "--timeout=10s", "kubernetes.default.svc.cluster.local:443"], NAME)
    succeeded, log = cluster.outcome("on-the-new-worker")
    assert succeeded, log


def test_adding_it_again_limited_to_it_changes_nothing(added: Run, bigger: Site, hosts: dict[str, Any]) -> None:
    run = bigger.run("--limit", NAME).ok()
    assert run.of(NAME)["changed"] == 0, run.output[-4000:]
    assert sum(run.of(name)["executed"] for name in hosts) <= 2
