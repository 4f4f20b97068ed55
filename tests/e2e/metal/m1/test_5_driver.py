# SPDX-License-Identifier: Apache-2.0
"""Fabric manager on a machine whose NVSwitches are missing, none and there (C20), below the simulated driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bedplate_lab import gpustate
from bedplate_lab.gpusim import driver_versions

from ...site import Run
from ..machines import Metal, sh
from ..whole import PLAIN, desired

pytestmark = pytest.mark.full

SWITCHES = "/proc/driver/nvidia-nvswitch"
STATE = gpustate.PATH
INSTALLED = "dpkg-query -W -f '${Package}\\n' 'nvidia*' 'libnvidia*' nvlsm dkms 'firmware-nvidia*' libcuda1 2>/dev/null"


def plug(profile: str) -> None:
    """Give the machine the GPUs of a profile of the simulator's."""
    text = gpustate.new(PLAIN, (profile, None)).text()
    sh(PLAIN, f"mkdir -p {STATE.rpartition('/')[0]} && cat >{STATE} <<'E'\n{text}E")


@pytest.fixture(scope="module")
def pcie(final: Metal) -> Iterator[Metal]:
    """The machine with GPUs on PCIe alone, and what the simulated DKMS takes for headers; all of it gone afterwards."""
    plug("l40s-48gb")
    sh(PLAIN, "mkdir -p /lib/modules/$(uname -r)/build")
    yield final
    sh(PLAIN, f"systemctl stop nvidia-fabricmanager nvidia-persistenced; apt-get purge --yes $({INSTALLED}) 2>&1", seconds=300)
    sh(PLAIN, f"rm -rf {STATE} && rmdir /lib/modules/$(uname -r)/build && rm -f /etc/modprobe.d/*nvidia*")


def driver(metal: Metal, accelerator: str) -> Run:
    version = {"nvidia_driver_version": driver_versions()[0], "nvidia_driver_accelerators": [accelerator]}
    return metal.together({PLAIN: {**desired(metal, PLAIN), "metal_roles": ["nvidia_driver"], **version}})


def manager() -> str:
    return sh(PLAIN, "systemctl is-active nvidia-fabricmanager; dpkg-query -W nvidia-fabricmanager", check=False)


def test_c20_without_switches_there_is_no_fabric_manager(pcie: Metal) -> None:
    run = driver(pcie, "l40s-48gb").ok()
    assert "kernel module nvidia" in run.changes()[PLAIN]
    assert sh(PLAIN, f"ls {SWITCHES}", check=False) == "" and manager().split() == ["inactive"]


def test_c20_an_empty_list_of_switches_is_none(pcie: Metal) -> None:
    sh(PLAIN, f"mkdir -p {SWITCHES}/devices")
    assert driver(pcie, "l40s-48gb").ok().changes() == {}
    assert manager().split() == ["inactive"]


def test_c20_with_switches_it_is_started_at_the_drivers_version(pcie: Metal) -> None:
    version = driver_versions()[0]
    sh(PLAIN, f"rmdir -p --ignore-fail-on-non-empty {SWITCHES}/devices")
    plug("h100-80gb")
    sh(PLAIN, "systemctl restart gpu-sim-load")
    driver(pcie, "h100-80gb").ok()
    active, _package, installed = manager().split()
    assert active == "active" and installed.startswith(f"{version}-")
