# SPDX-License-Identifier: Apache-2.0
"""The metal lab, brought up once for all its tests."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from bedplate_lab.metal.plan import MACHINES

from ..hosts import lab
from .machines import Metal, checksum

UP_SECONDS = 1500


@pytest.fixture(scope="session")
def metal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metal]:
    """The machines as their installer left them, and gone afterwards."""
    lab("metal", "down")
    answer = lab("metal", "up", "--json", seconds=UP_SECONDS)
    yield Metal(json.loads(answer.stdout), tmp_path_factory.mktemp("metal"))
    lab("metal", "down")


@pytest.fixture(scope="session")
def data(metal: Metal) -> dict[str, tuple[str, str]]:
    """Each machine's disk that carries somebody's data: serial number, and its checksum before any role ran."""
    serials = {m.name: next(disk.serial for disk in m.disks if disk.content == "data") for m in MACHINES}
    return {name: (serial, checksum(name, serial)) for name, serial in serials.items()}


@pytest.fixture(autouse=True)
def nobodys_data_is_touched(data: dict[str, tuple[str, str]]) -> Iterator[None]:
    """After every single test the disks with data are what they were, bit by bit."""
    yield
    for name, (serial, before) in data.items():
        assert checksum(name, serial) == before, f"{name}: disk {serial} was written"
