# SPDX-License-Identifier: Apache-2.0
"""The metal lab for its tests: the machines, in which state they are, and what nobody may touch."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from bedplate_lab.metal.plan import chosen

from ..hosts import lab
from .machines import Metal, checksum, machine, sh
from .whole import PLAIN, SECURE, applied, bring

UP_SECONDS = 1500
FULL = "only in the full form of these tests (scripts/test metal --full)"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also what takes long on emulated processors")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "full" in item.keywords and not config.getoption("--full", default=False):
            item.add_marker(pytest.mark.skip(reason=FULL))


@pytest.fixture(scope="session")
def metal(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Metal]:
    """The machines. Those that run are taken as they are, and left; otherwise they are new, and gone afterwards."""
    states = {row["machine"]: row["state"] for row in json.loads(lab("metal", "status", "--json").stdout)}
    there = all(states[one.name] == "running" for one in chosen([]))
    if not there:
        lab("metal", "down")
    answer = lab("metal", "up", "--json", seconds=UP_SECONDS)
    yield Metal(json.loads(answer.stdout), tmp_path_factory.mktemp("metal"), pytestconfig.getoption("--full", default=False))
    if not there:
        lab("metal", "down")


@pytest.fixture(scope="session")
def final(metal: Metal) -> Metal:
    """The machines with every role applied: by this run of the tests, or by one before it that left them running."""
    for name in (PLAIN, SECURE):
        if not applied(name):
            bring(metal, name)
    return metal


@pytest.fixture(scope="session")
def data(metal: Metal) -> Iterator[dict[str, tuple[str, str]]]:
    """Each machine's disk that carries somebody's data: serial number, and its checksum before any role ran."""
    serials = {name: next(disk.serial for disk in machine(name).disks if disk.content == "data") for name in metal.variables}
    before = {name: (serial, checksum(name, serial)) for name, serial in serials.items()}
    yield before
    for name in before:
        sh(name, "sync")
    _compare(before)


@pytest.fixture(autouse=True)
def nobodys_data_is_touched(data: dict[str, tuple[str, str]]) -> Iterator[None]:
    """After every single test the disks with data are what they were, bit by bit."""
    yield
    _compare(data)


def _compare(data: dict[str, tuple[str, str]]) -> None:
    for name, (serial, before) in data.items():
        assert checksum(name, serial) == before, f"{name}: disk {serial} was written"
