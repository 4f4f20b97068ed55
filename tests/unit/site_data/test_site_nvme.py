# SPDX-License-Identifier: Apache-2.0
"""Volumes over NVMe disks in the site data: no device names, no disk twice, no mount inside another (F44)."""

from __future__ import annotations

import pytest
from ansible_collections.bedplate.metal.plugins.modules import nvme

from site_directory import SiteDirectory

TRAIN = "group_vars/train.yml"
HOST = "w1: {ansible_host: 10.0.0.21, rack: r1, topology_block: b1"


def declare(site: SiteDirectory, text: str, host: str = "") -> None:
    site.append(TRAIN, f"  nvme: {text}\n")
    site.replace("hosts.yml", HOST, HOST + host)


def test_volumes_become_the_roles_options(site: SiteDirectory) -> None:
    rule = "images: {disks: {min_size: 3.5T, model: MZQL, count: 4}, layout: raid0, mount: /var/lib/containerd}"
    declare(site, f"{{{rule}, scratch: {{disks: {{serials: [S1]}}, mount: /scratch}}}}", ", nvme_wipe: [S9]")
    hosts = site.bedplate()["hosts"]
    assert "nvme" not in hosts["w2"]["roles"] and "nvme" not in hosts["cp1"]["roles"]
    role = hosts["w1"]["roles"]["nvme"]
    assert [(v["name"], v["serials"], v["min_size_bytes"], v["model"], v["count"]) for v in role["volumes"]] == [
        ("scratch", ["S1"], 0, "", 0),
        ("images", [], 3_500_000_000_000, "MZQL", 4),
    ]
    assert role["wipe"] == ["S9"]
    assert nvme.build_desired({**role, "allow": []}).volumes[1].layout == "raid0"


def test_a_host_names_its_own_disks(site: SiteDirectory) -> None:
    declare(site, "{scratch: {disks: {min_size: 3T}, layout: raid1, mount: /s}}", ", nvme_serials: {scratch: [A, B]}")
    (volume,) = site.bedplate()["hosts"]["w1"]["roles"]["nvme"]["volumes"]
    assert volume["serials"] == ["A", "B"] and volume["min_size_bytes"] == 0


def test_nothing_says_that_nothing_acts_on_it(site: SiteDirectory) -> None:
    declare(site, "{scratch: {disks: {min_size: 3T}, mount: /s}}")
    assert site.errors() == site.warnings() == []


TWO = "{{a: {{disks: {{{}}}, mount: {}}}, b: {{disks: {{{}}}, mount: {}}}}}"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("{s: {disks: {device: /dev/nvme0n1}, mount: /s}}", "unknown key; known are serials, min_size, model, count"),
        ("{s: {disks: {serials: [S1], min_size: 3T}, mount: /s}}", "gives serials and a rule: one of the two"),
        ("{S_1: {disks: {serials: [S1]}, mount: /s}}", "lower-case letters, digits and hyphens, 20 at most"),
        ("{s: {disks: {serials: [S1]}, mount: /etc/x}}", "holds parts of the operating system; choose a directory of its own"),
        ("{s: {disks: {serials: [S1]}, mount: /var/lib}}", "holds parts of the operating system; choose a directory of its own"),
        ("{s: {disks: {serials: [S1]}, mount: '/a b'}}", "without a last slash"),
        ("{s: {disks: {serials: [S1]}, layout: raid1, mount: /s}}", "raid1 needs at least 2 disks"),
        ("{s: {disks: {serials: [S1, S2]}, mount: /s}}", "single takes one disk; join several by raid0, raid1, raid10 or lvm"),
        ("{s: {disks: {min_size: 3T, count: 1}, layout: raid10, mount: /s}}", "raid10 needs at least 2 disks"),
        (TWO.format("serials: [S1]", "/a", "serials: [S1]", "/b"), "S1 stands twice (first in a)"),
        (TWO.format("serials: [S1]", "/a", "serials: [S2]", "/a"), "lies in or over the mount point /a of a"),
        (TWO.format("serials: [S1]", "/a/b", "serials: [S2]", "/a"), "lies in or over the mount point /a/b of a"),
        (TWO.format("min_size: 3T", "/a", "model: X", "/b"), "may mean the same disks as the rule of a"),
    ],
)
def test_what_cannot_be_is_refused(site: SiteDirectory, text: str, rule: str) -> None:
    declare(site, text)
    (error,) = site.errors()
    assert error.startswith(f"{TRAIN}:7: train.gpu_pool.nvme") and rule in error


def test_rules_told_apart_are_fine(site: SiteDirectory) -> None:
    declare(site, TWO.format("model: MZQL", "/a", "model: KCD", "/b"))
    assert site.errors() == []
    site.replace(TRAIN, "model: MZQL", "serials: [S1]")
    assert site.errors() == []


def test_serials_of_a_pool_with_several_hosts(site: SiteDirectory) -> None:
    declare(site, "{s: {disks: {serials: [S1]}, mount: /s}}")
    site.replace("hosts.yml", f"            {HOST}", f"            w9: {{rack: r1, topology_block: b1}}\n            {HOST}")
    assert "a disk is in one host: give a rule here, or each host its own nvme_serials" in "\n".join(site.errors())
    site.replace("hosts.yml", "w9: {", "w9: {nvme_serials: {s: [S2]}, ")
    assert site.errors() == []


@pytest.mark.parametrize(
    ("host", "rule"),
    [
        (", nvme_serials: {scrach: [A]}", "w1.nvme_serials = scrach: the pool train has no such volume; did you mean scratch?"),
        (", nvme_serials: {scratch: [A, A]}", "A stands twice"),
        (", nvme_serials: {scratch: []}", "must have at least 1 entry"),
        (", nvme_serials: {scratch: [7]}", "YAML reads it as the number 7; write it in quotes"),
        (", nvme_wipe: S1", "must be a list"),
    ],
)
def test_what_a_host_says_is_checked(site: SiteDirectory, host: str, rule: str) -> None:
    declare(site, "{scratch: {disks: {min_size: 3T}, mount: /s}}", host)
    assert len(site.errors()) == 1 and site.errors()[0].startswith("hosts.yml:10: w1.nvme_") and rule in site.errors()[0]


def test_a_host_without_volumes_has_nothing_to_wipe(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w2: {", "w2: {nvme_wipe: [S1], ")
    assert site.errors() == [
        "hosts.yml:13: w2.nvme_wipe = ['S1']: the pool infer has no volumes, so nothing would use these disks"
    ]
