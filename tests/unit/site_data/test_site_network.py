# SPDX-License-Identifier: Apache-2.0
"""Ranges and addresses (cases A4, A7, E39)."""

from __future__ import annotations

import pytest

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
APART = "ranges of nodes, pods and Services must be apart"


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        (
            "10.96.0.0/16",
            "10.244.0.0/16",
            f"8: network.pod_cidrs[0] = 10.244.0.0/16: pod range overlaps the Service range 10.244.0.0/16 "
            "(network.service_cidrs[0]); "
            f"{APART}",
        ),
        (
            "10.96.0.0/16",
            "10.244.128.0/20",
            f"8: network.pod_cidrs[0] = 10.244.0.0/16: pod range overlaps the Service range 10.244.128.0/20 "
            f"(network.service_cidrs[0]); {APART}",
        ),
        (
            "10.0.0.0/24]",
            "10.0.0.0/24, 10.240.0.0/12]",
            f"7: network.node_cidrs[1] = 10.240.0.0/12: node range overlaps the pod range 10.244.0.0/16 "
            f"(network.pod_cidrs[0]); {APART}",
        ),
    ],
)
def test_overlaps_name_both(site: SiteDirectory, old: str, new: str, finding: str) -> None:
    site.site(old, new)
    assert site.errors() == [f"{SITE}:{finding}"]


def test_node_address_inside_the_service_range(site: SiteDirectory) -> None:
    site.site("10.96.0.0/16", "10.96.0.0/12")
    site.site("10.0.0.0/24]", "10.0.0.0/24, 10.111.0.0/24]")
    site.replace("hosts.yml", "w2: {ansible_host: 10.0.0.22}", "w2: {ansible_host: 10.0.0.22, node_ip: 10.111.0.6}")
    assert site.errors() == [
        f"{SITE}:7: network.node_cidrs[1] = 10.111.0.0/24: node range overlaps the Service range 10.96.0.0/12 "
        f"(network.service_cidrs[0]); {APART}",
        "hosts.yml:13: w2.node_ip = 10.111.0.6: node address lies in the Service range 10.96.0.0/12 "
        "(network.service_cidrs[0]); "
        "the node would drop its own traffic",
    ]


def test_endpoint_address_inside_the_pod_range(site: SiteDirectory) -> None:
    site.site("    name: api.test.example.com\n", "    name: api.test.example.com\n    address: 10.244.7.1\n")
    assert site.errors() == [
        f"{SITE}:6: cluster.endpoint.address = 10.244.7.1: lies in the pod range 10.244.0.0/16 (network.pod_cidrs[0]); "
        "nodes could not "
        "reach it"
    ]


def test_a_wrong_range_hides_no_overlap(site: SiteDirectory) -> None:
    site.site("[10.244.0.0/16]", "[10.96.128.5/17]")
    key = f"{SITE}:8: network.pod_cidrs[0]"
    other = "Service range 10.96.0.0/16 (network.service_cidrs[0])"
    assert site.errors() == [
        f"{key} = 10.96.128.5/17: has bits set behind its prefix length; the range it lies in is 10.96.128.0/17",
        f"{key} = 10.96.128.0/17: pod range overlaps the {other}; {APART}",
    ]


def test_declared_address_outside_the_node_ranges(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w2: {ansible_host: 10.0.0.22}", "w2: {node_ip: 192.168.1.5}")
    assert site.errors() == ["hosts.yml:13: w2.node_ip = 192.168.1.5: must lie in network.node_cidrs (10.0.0.0/24)"]


def test_same_address_twice(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "10.0.0.22", "10.0.0.21")
    assert site.errors() == ["hosts.yml:13: w2.ansible_host = 10.0.0.21: is also the address of w1"]


@pytest.mark.parametrize(
    ("written", "have"),
    [
        ("{ansible_host: cp1.example.com}", "ansible_host is cp1.example.com, which is no address in the node ranges"),
        ("{ansible_host: 192.168.1.11}", "ansible_host is 192.168.1.11, which is no address in the node ranges"),
        ("{}", "there is no ansible_host either"),
    ],
)
def test_missing_address_of_a_control_plane_is_named(site: SiteDirectory, written: str, have: str) -> None:
    site.replace("hosts.yml", "cp1: {ansible_host: 10.0.0.11, rack: r1, topology_block: b1}", f"cp1: {written}")
    assert site.errors() == [
        f"hosts.yml:5: cp1.node_ip = (missing): the address of a control-plane host must be known to render the cluster's "
        f"configuration, and {have}; give node_ip"
    ]


def test_a_name_for_reaching_a_host_needs_its_address_beside_it(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "ansible_host: 10.0.0.11,", "ansible_host: cp1.example.com, node_ip: 10.0.0.11,")
    assert site.bedplate()["cluster"]["endpoint"]["address"] == "10.0.0.11"


def test_a_workers_address_may_be_left_to_preflight(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w2: {ansible_host: 10.0.0.22}", "w2: {ansible_host: w2.example.com}")
    host = site.bedplate()["hosts"]["w2"]
    assert host["node_ip"] is None
    assert host["roles"]["preflight"]["node_ip"] == ""


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        (
            "[10.244.0.0/16]",
            "[10.244.0.0/16, 10.245.0.0/16]",
            "8: network.pod_cidrs = 10.244.0.0/16, 10.245.0.0/16: two ranges make a dual-stack cluster: one IPv4 and one "
            "IPv6, not two "
            "of a family",
        ),
        (
            "[10.244.0.0/16]",
            "[10.244.0.0/16, fd00:244::/56]",
            "9: network.service_cidrs = 10.96.0.0/16: pods have IPv4 and IPv6, Services IPv4: both lists need the same "
            "families in the "
            "same order",
        ),
        (
            "[10.244.0.0/16]",
            "[10.244.0.0/24]",
            "8: network.pod_cidrs[0] = 10.244.0.0/24: holds 1 nodes with a /24 each (node_prefix_ipv4); the inventory has 3",
        ),
        (
            "[10.244.0.0/16]",
            "[10.244.0.0/26]",
            "8: network.pod_cidrs[0] = 10.244.0.0/26: smaller than the /24 every node gets out of it (node_prefix_ipv4)",
        ),
        (
            "[10.96.0.0/16]",
            "[11.0.0.0/8]",
            "9: network.service_cidrs[0] = 11.0.0.0/8: a Service range has at most 2^20 addresses (/12 or "
            "longer prefix): kubeadm refuses more",
        ),
        (
            "[10.0.0.0/24]",
            "[10.0.0.5/24]",
            "7: network.node_cidrs[0] = 10.0.0.5/24: has bits set behind its prefix length; the range it lies in is 10.0.0.0/24",
        ),
    ],
)
def test_families_and_sizes(site: SiteDirectory, old: str, new: str, finding: str) -> None:
    site.site(old, new)
    assert f"{SITE}:{finding}" in site.errors()


def test_dns_address_outside_the_service_range(site: SiteDirectory) -> None:
    site.append(SITE, "  dns_address: 10.97.0.10\n")
    assert site.errors() == [f"{SITE}:10: network.dns_address = 10.97.0.10: must lie in a Service range (10.96.0.0/16)"]


def ipv6(site: SiteDirectory) -> None:
    site.site("[10.0.0.0/24]", '["fd00:10::/64"]')
    site.site("[10.244.0.0/16]", '["fd00:244::/56"]')
    site.site("[10.96.0.0/16]", '["fd00:96::/112"]')
    for number in (11, 21, 22):
        site.replace("hosts.yml", f"ansible_host: 10.0.0.{number}", f'ansible_host: "fd00:10::{number}"')


def test_ipv6_site(site: SiteDirectory) -> None:
    ipv6(site)
    bedplate = site.bedplate()
    roles = bedplate["hosts"]["cp1"]["roles"]
    cluster = roles["control_plane"]["cluster"]
    assert bedplate["cluster"]["dns_address"] == "fd00:96::a"
    assert roles["control_plane"]["init"]["localAPIEndpoint"]["advertiseAddress"] == "fd00:10::11"
    assert cluster["apiServer"]["certSANs"] == ["api.test.example.com", "fd00:10::11"]
    assert cluster["controlPlaneEndpoint"] == "api.test.example.com:6443"
    assert {"name": "node-cidr-mask-size", "value": "64"} in cluster["controllerManager"]["extraArgs"]
    assert roles["kernel"]["sysctl"]["net.ipv6.conf.all.forwarding"] == "1"
    assert roles["kubelet"]["node_ip"] == "fd00:10::11"


def test_ipv6_pods_over_ipv4_nodes_are_refused(site: SiteDirectory) -> None:
    ipv6(site)
    site.site('["fd00:10::/64"]', "[10.0.0.0/24]")
    assert f"{SITE}:7: network.node_cidrs = 10.0.0.0/24: pods have IPv6, but there is no IPv6 range of nodes" in site.errors()


def test_dual_stack_wants_both_addresses(site: SiteDirectory) -> None:
    site.site("[10.0.0.0/24]", '[10.0.0.0/24, "fd00:10::/64"]')
    site.site("[10.244.0.0/16]", '[10.244.0.0/16, "fd00:244::/56"]')
    site.site("[10.96.0.0/16]", '[10.96.0.0/16, "fd00:96::/112"]')
    wanted = "the cluster is dual-stack: give the host's IPv6 address as well"
    assert site.errors() == [
        f"hosts.yml:{line}: {host}.node_ip_secondary = (missing): {wanted}" for line, host in ((5, "cp1"), (10, "w1"), (13, "w2"))
    ]
    for number in (11, 21, 22):
        address = f"ansible_host: 10.0.0.{number}"
        site.replace("hosts.yml", address, f'{address}, node_ip_secondary: "fd00:10::{number}"')
    bedplate = site.bedplate()
    cluster = bedplate["hosts"]["cp1"]["roles"]["control_plane"]["cluster"]
    assert cluster["networking"]["podSubnet"] == "10.244.0.0/16,fd00:244::/56"
    assert [a["name"] for a in cluster["controllerManager"]["extraArgs"]] == [
        "node-cidr-mask-size-ipv4",
        "node-cidr-mask-size-ipv6",
        "profiling",
    ]
    assert bedplate["hosts"]["w1"]["roles"]["kubelet"]["node_ip"] == "10.0.0.21,fd00:10::21"


def test_a_node_address_of_another_family_than_the_pods(site: SiteDirectory) -> None:
    site.site("[10.0.0.0/24]", '[10.0.0.0/24, "fd00:10::/64"]')
    site.replace("hosts.yml", "ansible_host: 10.0.0.22", 'ansible_host: 10.0.0.22, node_ip: "fd00:10::22"')
    rule = "must be an IPv4 address: the first pod range 10.244.0.0/16 is IPv4"
    assert site.errors() == [f"hosts.yml:13: w2.node_ip = fd00:10::22: {rule}"]
