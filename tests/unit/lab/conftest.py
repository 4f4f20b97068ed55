# SPDX-License-Identifier: Apache-2.0
"""A checkout and a cache of their own for every test of the lab; nothing of the machine is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_podman import FakePodman
from gpu_machine import GpuMachine

from bedplate_lab import gpusim, inventory, paths, ssh
from bedplate_lab.report import silent


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
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakePodman:
    """A podman without containers, on a machine where every host answers on SSH at once."""

    def answers(address: str, *_: object) -> None:
        assert address.startswith("10.87.0.")

    monkeypatch.setattr(ssh, "wait", answers)
    monkeypatch.setattr(ssh, "close", answers)
    (tmp_path / "volumes").mkdir()
    return FakePodman(storage=tmp_path / "volumes")


@pytest.fixture(scope="session")
def simulator() -> Path:
    """The directory of the compiled GPU simulator, of the driver version that is deployed; kept in the lab's own cache."""
    return gpusim.build(gpusim.driver_versions()[0], silent)


@pytest.fixture
def machine(simulator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GpuMachine:
    """An HGX H100 with the driver loaded."""
    return GpuMachine(simulator, tmp_path / "machine", monkeypatch)
