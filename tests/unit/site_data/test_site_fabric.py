# SPDX-License-Identifier: Apache-2.0
"""Cards of a pool: found by name, addresses by host, what becomes of them, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from site_directory import SiteDirectory

HOSTS, TRAIN, INFER = "hosts.yml", "group_vars/train.yml", "group_vars/infer.yml"
NICS = """\
  nics:
    - {name: rail0, fabric: infiniband, device: mlx5_0, speed_gbps: 400}
    - {name: storage, fabric: roce, device: enp193s0, mtu: 9000, roce: {priority: 3, dscp: 26}}
    - {name: eno1, speed_gbps: 25}
"""
W1 = "w1: {ansible_host: 10.0.0.21,"


def with_cards(site: SiteDirectory, host: str = "fabric_addresses: {storage: 10.89.0.11/24},", nics: str = NICS) -> SiteDirectory:
    site.append(TRAIN, nics)
    site.replace(HOSTS, W1, f"{W1} {host}")
    return site


def fabric(site: SiteDirectory, host: str = "w1") -> dict[str, Any]:
    found: dict[str, Any] = site.bedplate()["hosts"][host]["roles"]["fabric"]
    return found


def test_a_host_without_cards_has_no_fabric(site: SiteDirectory) -> None:
    assert "fabric" not in site.bedplate()["hosts"]["w1"]["roles"]
    site.append(TRAIN, "  nics: [{name: eno1}]\n")
    assert "fabric" not in site.bedplate()["hosts"]["w1"]["roles"], "an ordinary card without an address is left alone"


def test_cards_of_a_host(site: SiteDirectory) -> None:
    role = fabric(with_cards(site))
    assert role["nics"] == [
        {"name": "rail0", "fabric": "infiniband", "device": "mlx5_0", "speed_gbps": 400},
        {
            "name": "storage",
            "fabric": "roce",
            "device": "enp193s0",
            "mtu": 9000,
            "roce": {"priority": 3, "dscp": 26, "pfc": True, "ecn": True},
            "address": "10.89.0.11/24",
        },
    ]
    assert (role["stack"], role["management_address"], role["out_of_band"]) == ("inbox", "10.0.0.21", "")
    assert site.errors() == [] and site.warnings() == []


def test_a_host_says_which_card_it_has(site: SiteDirectory) -> None:
    addresses = "fabric_addresses: {storage: 10.89.0.11/24}, fabric_devices: {storage: '52:54:00:00:00:05'},"
    assert fabric(with_cards(site, addresses))["nics"][1]["device"] == "52:54:00:00:00:05"


def test_e42_locked_memory_also_where_only_a_card_is_rdma(site: SiteDirectory) -> None:
    site.append(INFER, "  nics: [{name: rail0, fabric: soft-roce, device: ens4}]\n")
    hosts = site.bedplate()["hosts"]
    assert [hosts[name]["roles"]["container_runtime"]["memlock"] for name in ("cp1", "w1", "w2")] == ["", "infinity", "infinity"]


def test_pods_get_the_cards_between_nodes(site: SiteDirectory) -> None:
    site.append(TRAIN, "  exposure: device-plugin\n  driver: {branch: '580', version: 580.126.09}\n  os: ubuntu-24.04\n")
    bedplate = with_cards(site).bedplate()
    pools = bedplate["hosts"]["cp1"]["roles"]["rdma_exposure"]["pools"]
    assert pools["train"]["resource"] == "infiniband" and pools["train"]["selectors"] == {"linkTypes": ["infiniband"]}
    wanted = {"key": "pool.bedplate.dev/name", "operator": "Equal", "value": "train", "effect": "NoSchedule"}
    assert wanted in pools["train"]["tolerations"]
    assert bedplate["hosts"]["cp1"]["roles"]["gpu_catalog"]["pools"]["train"]["rdma_resource"] == "rdma/infiniband"


def test_roce_cards_are_shown_by_interface_and_soft_roce_not_at_all(site: SiteDirectory) -> None:
    site.append(INFER, "  nics: [{name: rail0, fabric: roce, device: enp1s0}, {name: rail1, fabric: soft-roce, device: ens4}]\n")
    site.replace(HOSTS, "w2: {ansible_host: 10.0.0.22}", "w2: {ansible_host: 10.0.0.22, fabric_devices: {rail0: enp2s0}}")
    pools = site.bedplate()["hosts"]["cp1"]["roles"]["rdma_exposure"]["pools"]
    assert pools["infer"]["selectors"] == {"ifNames": ["enp1s0", "enp2s0"]} and "train" not in pools
    site.replace(INFER, "enp1s0", "'0000:c1:00.0'")
    assert "infer" not in site.bedplate()["hosts"]["cp1"]["roles"]["rdma_exposure"]["pools"]
    assert any("selects RoCE cards by interface" in warning for warning in site.warnings())


@pytest.mark.parametrize(
    ("addresses", "rule"),
    [
        ("{rail7: 10.89.0.11/24}", "there is no card of this name in nics"),
        ("{storage: 10.0.0.77/24}", "storage lies in 10.0.0.0/24, which overlaps the node range 10.0.0.0/24"),
        ("{storage: 10.244.3.1/24}", "overlaps the pod range 10.244.0.0/16"),
        ("{storage: 10.96.3.1/24}", "overlaps the Service range 10.96.0.0/16"),
        ("{storage: 10.0.0.11/32}", "storage has an address that is also cp1's"),
        ("{storage: 10.89.0.11}", "must be an address with its prefix length"),
        ("{storage: 10.89.0.0/24}", "is the address of the network itself"),
    ],
)
def test_addresses_that_cannot_be(site: SiteDirectory, addresses: str, rule: str) -> None:
    assert any(rule in error for error in with_cards(site, f"fabric_addresses: {addresses},").errors()), site.errors()


def two_hosts(site: SiteDirectory, first: str, second: str) -> SiteDirectory:
    site.append(TRAIN, NICS)
    place = "rack: r1, topology_block: b1}\n"
    old = f"            {W1} {place}"
    assert old in (site.root / HOSTS).read_text()
    new = f"            {W1} {first} {place}            w9: {{ansible_host: 10.0.0.29, {second} {place}"
    site.replace(HOSTS, old, new)
    return site


def test_two_hosts_of_one_address(site: SiteDirectory) -> None:
    same = "fabric_addresses: {storage: 10.89.0.11/24},"
    errors = two_hosts(site, same, same).errors()
    assert any("w9.fabric_addresses" in e and "storage has an address that is also w1 storage's" in e for e in errors), errors


def test_a_host_of_the_pool_without_an_address(site: SiteDirectory) -> None:
    errors = two_hosts(site, "fabric_addresses: {storage: 10.89.0.11/24},", "").errors()
    assert any("has no address on the card storage, which w1 has" in error for error in errors), errors


def test_cards_that_cannot_be(site: SiteDirectory) -> None:
    site.append(TRAIN, "  nics: [{name: a, fabric: roce, device: e1, mtu: 9000}, {name: a, fabric: infiniband, roce: {}}]\n")
    assert any("roce settings go with fabric roce" in error for error in site.errors())
    site.replace(TRAIN, ", roce: {}", "")
    assert any("stands twice" in error for error in site.errors())
    assert any("is set together with an address" in error for error in site.errors())


def test_e41_hosts_reached_by_the_card_go_one_at_a_time(site: SiteDirectory) -> None:
    site.append(TRAIN, "  rdma_stack: {source: doca, version: 3.1.0}\n  upgrade: {max_unavailable: 2}\n")
    with_cards(site, "out_of_band: bmc, fabric_addresses: {storage: 10.89.0.11/24},")
    assert any("max_unavailable" in e and "must be 1" in e for e in site.errors()), site.errors()
    site.replace(TRAIN, "max_unavailable: 2", "max_unavailable: 1")
    role = fabric(site)
    assert (role["stack"], role["version"], role["out_of_band"]) == ("doca", "3.1.0", "bmc")
