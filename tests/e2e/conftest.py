# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the lab: brought up once, its hosts and its cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from . import hosts as lab_hosts
from .cluster import Cluster
from .site import Site


@pytest.fixture(scope="session")
def lab_up() -> None:
    """The lab, with site.yml applied; a lab that is up already is left as it is."""
    lab_hosts.lab("up", seconds=3600)


@pytest.fixture(scope="session")
def hosts(lab_up: None) -> dict[str, dict[str, Any]]:
    """The inventory's hosts: name to variables and ``pool``."""
    return lab_hosts.inventory_hosts()


@pytest.fixture(scope="session")
def control_plane(hosts: dict[str, dict[str, Any]]) -> str:
    """The first control-plane host."""
    return next(name for name, variables in hosts.items() if not variables["pool"])


@pytest.fixture(scope="session")
def workers(hosts: dict[str, dict[str, Any]]) -> list[str]:
    """The workers, in the inventory's order: the first in pool train, the second in pool infer."""
    found = [name for name, variables in hosts.items() if variables["pool"]]
    assert len(found) >= 2, "these tests need two workers"
    return found


@pytest.fixture(scope="session")
def cluster(hosts: dict[str, dict[str, Any]], control_plane: str) -> Cluster:
    """The cluster's API."""
    return Cluster.of(control_plane, hosts[control_plane]["ansible_host"])


@pytest.fixture(scope="session")
def site(lab_up: None) -> Site:
    """The lab's inventory."""
    return Site()


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Room for inventories of the tests' own."""
    return tmp_path_factory.mktemp("inventories")


@pytest.fixture(scope="session")
def namespace(cluster: Cluster) -> Iterator[None]:
    """The namespace of the tests' pods."""
    cluster.make_namespace()
    yield
    cluster.drop_namespace()
