# SPDX-License-Identifier: Apache-2.0
"""GPUs in trouble on a node in service: seen, named, kept from new work within a minute, and taken back once healed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from .cluster import Cluster, gate_proof, taints
from .gpus import wait_allocatable
from .hosts import lab
from .site import Run, Site

SICK = 3
"""The number of the GPU that falls off the bus."""
NOTICE_SECONDS = 60
GIVEN_UP_SECONDS = 12
"""After which an nvidia-smi that hangs is killed: it may cost its host 15 s."""


@pytest.fixture(scope="module")
def node(workers: list[str]) -> Iterator[str]:
    """The node with eight GPUs, whole again afterwards."""
    yield workers[0]
    lab("gpu", workers[0], "heal")


@pytest.fixture(scope="module")
def address(node: str) -> str:
    """The PCI address of the GPU that falls off the bus, as the kernel writes it; asked before it does."""
    asked = ("nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader")
    return lab("ssh", node, *asked).stdout.split()[SICK].lower()[-12:]


@pytest.fixture(scope="module")
def lost(node: str, address: str, site: Site, cluster: Cluster, workers: list[str]) -> tuple[Run, float]:
    """A run after a GPU fell off the bus and Kubernetes took notice; and how long both took."""
    started = time.monotonic()
    lab("gpu", node, "lose", "--gpu", str(SICK))
    wait_allocatable(cluster, node, {"nvidia.com/gpu": 7}, NOTICE_SECONDS)
    return site.run("--limit", ",".join(workers)), time.monotonic() - started


def unaccepted(cluster: Cluster, name: str) -> bool:
    """Tell whether new work is kept from a node."""
    return "bedplate.dev/unaccepted" in {key for key, _value, _effect in taints(cluster.nodes()[name])}


def refused(run: Run, cluster: Cluster, name: str, *words: str) -> None:
    """Assert that the run failed for the node, changed nothing of its packages, and said why in the report and on the node."""
    assert run.code != 0, run.output[-4000:]
    assert [word for word in words if word not in run.message()] == [], run.output[-6000:]
    reason = str(gate_proof(cluster.nodes()[name]))
    assert [word for word in words if word not in reason] == [], reason
    assert unaccepted(cluster, name)
    assert not [change for change in run.changes("controller").get(name, []) if change.startswith("package")]


def test_a_lost_gpu_is_visible_within_a_minute(
    lost: tuple[Run, float], node: str, address: str, cluster: Cluster, workers: list[str]
) -> None:
    run, seconds = lost
    refused(run, cluster, node, address)
    assert run.of(workers[1])["failed"] == 0 and not unaccepted(cluster, workers[1])
    assert seconds <= NOTICE_SECONDS


def test_a_driver_that_hangs_costs_its_own_host_seconds(
    lost: tuple[Run, float], node: str, site: Site, cluster: Cluster, workers: list[str]
) -> None:
    """The other host is judged as ever; how much longer the run takes follows from when the probe gives up."""
    lab("gpu", node, "heal")
    lab("gpu", node, "hang")
    run = site.run("--limit", ",".join(workers))
    refused(run, cluster, node, f"nvidia-smi gave no answer within {GIVEN_UP_SECONDS} s and was killed")
    assert run.of(workers[1])["failed"] == 0 and not unaccepted(cluster, workers[1])


def test_packages_ahead_of_the_loaded_driver_ask_for_a_reboot(node: str, site: Site, cluster: Cluster) -> None:
    lab("gpu", node, "heal")
    lab("gpu", node, "mismatch")
    run = site.run("--limit", node)
    refused(run, cluster, node, "580.105.08", "580.126.09")
    assert "reboot" in run.message()


def test_a_healed_node_is_accepted_after_its_reboot(node: str, site: Site, cluster: Cluster) -> None:
    """The XID of the lost GPU counts until then."""
    lab("gpu", node, "heal")
    assert "XID 79" in site.run("--limit", node).message()
    lab("host", "reboot", node)
    wait_allocatable(cluster, node, {"nvidia.com/gpu": 8}, 120)
    run = site.run("--limit", node).ok()
    assert not [change for change in run.changes("controller").get(node, []) if change.startswith("package")]
    assert not unaccepted(cluster, node)
