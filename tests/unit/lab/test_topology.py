# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ipaddress

import pytest

from bedplate_lab import topology
from bedplate_lab.errors import LabError
from bedplate_lab.topology import address, check_extra_name, free_extra_address, planned

SERVICES = ipaddress.IPv4Network("10.96.0.0/16")
PODS = ipaddress.IPv4Network("10.244.0.0/16")


def test_the_default_lab() -> None:
    hosts = planned(1, 2)
    assert [(host.name, host.address, host.rack, host.pool) for host in hosts] == [
        ("cp1", "10.87.0.11", "r1", ""),
        ("w1", "10.87.0.21", "r1", "train"),
        ("w2", "10.87.0.22", "r2", "infer"),
    ]


def test_a_full_network_has_no_address_twice() -> None:
    taken = [host.address for host in planned(topology.MOST["control_plane"], topology.MOST["worker"])]
    for _ in range(topology.MOST["extra"]):
        taken.append(free_extra_address(taken))
    taken += [topology.GATEWAY, topology.DEPOT_ADDRESS]
    assert len(set(taken)) == len(taken)
    usable = set(map(str, topology.SUBNET.hosts()))
    assert set(taken) <= usable
    with pytest.raises(LabError, match="host rm"):
        free_extra_address(taken)


def test_the_network_is_apart_from_services_and_pods() -> None:
    assert not topology.SUBNET.overlaps(SERVICES)
    assert not topology.SUBNET.overlaps(PODS)


def test_too_many_hosts_are_refused_with_the_bound() -> None:
    with pytest.raises(LabError, match=r"control_plane host number 10.*1 to 9"):
        planned(10, 0)


def test_a_freed_address_is_given_again() -> None:
    assert free_extra_address(["10.87.0.51", "10.87.0.53"]) == "10.87.0.52"


def test_hardware_addresses_are_local_and_differ() -> None:
    macs = [host.mac for host in planned(3, 4)]
    assert len(set(macs)) == 7
    assert all(int(mac[:2], 16) & 3 == 2 for mac in macs)
    assert planned(1, 0)[0].mac == "02:be:0a:57:00:0b"


@pytest.mark.parametrize("name", ["m1", "preflight", "a", "node-with-hyphen-7"])
def test_names_for_extra_hosts(name: str) -> None:
    check_extra_name(name)


@pytest.mark.parametrize("name", ["w1", "cp12", "depot", "depot-registry", "M1", "1a", "a_b", "a-", "", "x" * 60, "a b", "../x"])
def test_names_no_extra_host_may_have(name: str) -> None:
    with pytest.raises(LabError, match="host name"):
        check_extra_name(name)


def test_an_index_below_zero_is_no_address() -> None:
    with pytest.raises(LabError):
        address("worker", -1)
