# SPDX-License-Identifier: Apache-2.0
"""A checkout and a cache of their own for every test of the lab; nothing of the machine is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_podman import FakePodman

from bedplate_lab import inventory, paths, ssh


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.setattr(inventory, "INVENTORY", root / "inventories" / "lab")
    monkeypatch.setattr(inventory, "HOSTS", root / "inventories" / "lab" / "hosts.yml")
    monkeypatch.setattr(inventory, "GENERATED", root / "inventories" / "lab" / "group_vars" / "all" / "generated.yml")
    monkeypatch.setattr(ssh, "CONTROL_DIRECTORY", tmp_path / "control")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakePodman:
    """A podman without containers, on a machine where every host answers on SSH at once."""

    def answers(address: str, *_: object) -> None:
        assert address.startswith("10.87.0.")

    monkeypatch.setattr(ssh, "wait", answers)
    monkeypatch.setattr(ssh, "close", answers)
    return FakePodman()
