# SPDX-License-Identifier: Apache-2.0
"""Soft-RoCE between two machines with kernels of their own, measured; and the card that leads to them is kept (E41)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..site import Run, Site
from .machines import Metal, machine, sh
from .metal_site import metal_site
from .whole import FABRIC, PLAIN, SECURE, desired

NAMES = (PLAIN, SECURE)
FLOOR_GBPS = 0.01
"""An emulated processor copies every packet; the measurement is what is shown, not its size."""
CHECK_SECONDS = 420
MANAGEMENT = "enp0s7"


@pytest.fixture(scope="module")
def pool(final: Metal, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site whose pool is the two machines; its cluster is not needed."""
    nics = [{**FABRIC, "mtu": 4200, "min_gbps": FLOOR_GBPS}]
    return metal_site(final, tmp_path_factory.mktemp("fabric"), [NAMES], nics=nics)


def test_rping_and_bandwidth_between_the_machines(pool: Site, tmp_path: Path) -> None:
    report = tmp_path / "fabric.json"
    arguments = ("--extra-vars", json.dumps({"bedplate_fabric_report": str(report), "bedplate_fabric_seconds": 2}))
    pool.run(*arguments, playbook="playbooks/check_fabric.yml", seconds=CHECK_SECONDS).ok()
    results = json.loads(report.read_text(encoding="utf-8"))["results"]
    assert {(one["host"], one["peer"]) for one in results} == {NAMES, tuple(reversed(NAMES))}
    for one in results:
        assert one["passed"] and one["pings"] == 3 and one["gbps"] >= one["floor_gbps"] > 0, one


def test_no_server_is_left_behind(pool: Site) -> None:
    for name in NAMES:
        assert not sh(name, "systemctl list-units --no-legend 'bedplate-fabric-check-*'").strip()
        assert not sh(name, "pgrep -x ib_write_bw; pgrep -x rping", check=False).strip()


def test_a_pair_whose_card_is_down_fails_in_bounded_time_and_is_named(pool: Site) -> None:
    sh(SECURE, "ip link set enp0s8 down")
    try:
        run = pool.run("--extra-vars", "bedplate_fabric_seconds=2", playbook="playbooks/check_fabric.yml", seconds=CHECK_SECONDS)
    finally:
        sh(SECURE, "ip link set enp0s8 up")
    assert run.code != 0 and "port is PORT_DOWN" in run.message()


@pytest.fixture
def mellanox(final: Metal) -> Iterator[None]:
    """The management card says it is one of those whose driver DOCA-OFED replaces; QEMU has none that is."""
    vendor = f"/sys/class/net/{MANAGEMENT}/device/../vendor"
    sh(PLAIN, f"echo 0x15b3 >/run/vendor && mount --bind /run/vendor $(readlink -e {vendor})")
    yield
    sh(PLAIN, f"umount $(readlink -e {vendor})")


def fabric(metal: Metal, **changed: Any) -> Run:
    """Apply the role with the machine's variables, some of them changed."""
    return metal.together({PLAIN: {**desired(metal, PLAIN), "metal_roles": ["fabric"], **changed}})


def test_e41_the_stack_below_the_management_card_is_replaced_only_with_another_way_to_the_host(
    final: Metal, mellanox: None
) -> None:
    doca = {"fabric_stack": "doca", "bedplate_allow": ["reboot", "drain"]}
    refused = fabric(final, **doca)
    said = "RDMA stack: found management runs over"
    assert refused.code != 0 and refused.changes() == {}
    assert said in refused.message() and MANAGEMENT in refused.message() and "out_of_band" in refused.message()
    # With another way to it only the repository that the lab does not have is missing.
    reachable = fabric(final, **doca, fabric_out_of_band="serial")
    assert said not in reachable.message() and "package doca-ofed" in reachable.message()
    assert machine(PLAIN).address in sh(PLAIN, f"ip -4 address show {MANAGEMENT}")


def test_e41_an_address_of_the_fabric_never_goes_to_the_management_card(final: Metal) -> None:
    card = {**FABRIC, "device": MANAGEMENT, "fabric": "ethernet", "address": "10.88.0.99/24"}
    run = fabric(final, fabric_nics=[card])
    assert run.code != 0 and run.changes() == {} and MANAGEMENT in run.message()
    assert "10.88.0.99" not in sh(PLAIN, "ip -4 address show")
