# SPDX-License-Identifier: Apache-2.0
"""Number of etcd members (case A3) and the endpoint."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"


@pytest.mark.parametrize("count", [1, 3, 5])
def test_good_counts(site: SiteDirectory, control_planes: Callable[[int], None], count: int) -> None:
    control_planes(count)
    assert site.validate().problems == []


@pytest.mark.parametrize(
    ("count", "rule"),
    [
        (2, "2 etcd members survive no more losses than 1, and their majority is larger; use 1, 3 or 5"),
        (4, "4 etcd members survive no more losses than 3, and their majority is larger; use 1, 3 or 5"),
        (6, "each is an etcd member, and every write waits for a majority of them: at most 5; use 1, 3 or 5"),
        (7, "each is an etcd member, and every write waits for a majority of them: at most 5; use 1, 3 or 5"),
    ],
)
def test_bad_counts_are_refused_at_creation_and_only_warned_of_otherwise(
    site: SiteDirectory, control_planes: Callable[[int], None], count: int, rule: str
) -> None:
    control_planes(count)
    names = ", ".join(f"cp{n}" for n in range(1, count + 1))
    finding = f"hosts.yml:3: control_plane = {count} hosts ({names}): {rule}"
    assert site.errors() == [finding]
    for purpose in ("remove", "recover", "reset"):
        assert site.errors(purpose) == []
        assert site.warnings(purpose) == [finding]
        assert site.validate(purpose).bedplate is not None


def test_no_control_plane(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "control_plane:", "control_plan:")
    assert site.errors() == ["inventory:1: control_plane = (no hosts): the group control_plane must hold 1, 3 or 5 hosts"]


def test_endpoint_is_required_and_a_name(site: SiteDirectory) -> None:
    site.site("  endpoint:\n    name: api.test.example.com\n", "")
    assert site.errors() == [f"{SITE}:1: cluster.endpoint = (missing): must be given: the API's name, port and address"]
    site.site("network:", "  endpoint: {name: 10.0.0.10}\nnetwork:")
    assert site.errors() == [f"{SITE}:4: cluster.endpoint.name = 10.0.0.10: must be a DNS name, not an address"]


def test_endpoint_address_of_one_of_several_hosts_is_warned_of(
    site: SiteDirectory, control_planes: Callable[[int], None]
) -> None:
    control_planes(3)
    site.site("    name: api.test.example.com\n", "    name: api.test.example.com\n    address: 10.0.0.11\n")
    assert site.errors() == []
    assert site.warnings() == [
        f"{SITE}:6: cluster.endpoint.address = 10.0.0.11: is cp1's own address: with 3 control-plane hosts the API is lost "
        "with that "
        "host; a virtual IP or a load balancer is not"
    ]


def test_bracketed_endpoint_address_is_refused(site: SiteDirectory) -> None:
    site.site("    name: api.test.example.com\n", '    name: api.test.example.com\n    address: "[fd00::1]"\n')
    assert site.errors() == [
        f"{SITE}:6: cluster.endpoint.address = [fd00::1]: must be a bare IP address; brackets belong to URLs only"
    ]
