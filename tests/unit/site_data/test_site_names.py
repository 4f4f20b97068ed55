# SPDX-License-Identifier: Apache-2.0
"""Names of hosts, groups and keys, and what YAML makes of values (cases A1, A2)."""

from __future__ import annotations

import pytest

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"


def test_right_site_has_no_findings(site: SiteDirectory) -> None:
    assert site.validate().problems == []


@pytest.mark.parametrize("name", ["GPU_Node01", "w_1", "-w1", "w1-", "Ww", "a" * 64, "w..1"])
def test_host_name_that_is_no_rfc_1123_name_is_refused(site: SiteDirectory, name: str) -> None:
    site.replace("hosts.yml", "w1:", f"{name}:")
    assert site.errors() == [
        f"hosts.yml:10: host = {name}: a host's name becomes the node's name: a name of lower-case letters, digits and hyphens "
        "that begins and ends with a letter or digit, 63 characters at most between dots and 253 in all (RFC 1123)"
    ]


def test_address_as_host_name_is_refused(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w1: {ansible_host: 10.0.0.21,", "10.0.0.21: {")
    assert site.errors() == [
        "hosts.yml:10: host = 10.0.0.21: a host's name becomes the node's name: give it a name and put the address into "
        "ansible_host"
    ]


@pytest.mark.parametrize("name", ["w1", "gpu-01.rack2.example.com", "a" * 63])
def test_good_host_name(site: SiteDirectory, name: str) -> None:
    site.replace("hosts.yml", "w1:", f"{name}:")
    assert site.errors() == []


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("1.30", 'YAML reads it as the number 1.3; write it in quotes: "1.30"'),
        ("2", 'YAML reads it as the number 2; write it in quotes: "2"'),
        ("2024-01-01", 'YAML reads it as the date 2024-01-01; write it in quotes: "2024-01-01"'),
        ("on", 'YAML reads it as the truth value true; write it in quotes: "on"'),
    ],
)
def test_unquoted_version_is_refused(site: SiteDirectory, written: str, rule: str) -> None:
    site.site('"1.36.3"', written)
    assert site.errors() == [f"{SITE}:3: cluster.kubernetes_version = {written}: {rule}"]


def test_short_version_is_refused_also_in_quotes(site: SiteDirectory) -> None:
    site.site('"1.36.3"', '"1.30"')
    assert site.errors() == [
        f'{SITE}:3: cluster.kubernetes_version = 1.30: must be a full version of three numbers without a "v", for example '
        '"1.36.3"'
    ]


def test_version_nobody_deploys_is_refused(site: SiteDirectory) -> None:
    site.site('"1.36.3"', "1.35.9")
    assert site.errors() == [
        f"{SITE}:3: cluster.kubernetes_version = 1.35.9: this release of Bedplate deploys 1.36.3 (versions.yml)"
    ]


@pytest.mark.parametrize(
    ("text", "line", "key", "shown", "number"),
    [
        ("  driver: {branch: 580, version: 580.126.09}\n", 7, "driver.branch", "580", "number 580"),
        ("  cuda: 13.0\n", 7, "cuda", "13.0", "number 13.0"),
    ],
)
def test_unquoted_driver_versions_are_refused(
    site: SiteDirectory, text: str, line: int, key: str, shown: str, number: str
) -> None:
    site.append("group_vars/train.yml", text)
    rule = f'YAML reads it as the {number}; write it in quotes: "{shown}"'
    assert site.errors() == [f"group_vars/train.yml:{line}: train.gpu_pool.{key} = {shown}: {rule}"]


def test_unquoted_off_is_refused(site: SiteDirectory) -> None:
    site.append(SITE, "kernel:\n  swap: off\n")
    assert site.errors() == [f'{SITE}:11: kernel.swap = off: YAML reads it as the truth value false; write it in quotes: "off"']


def test_unknown_keys_come_with_a_suggestion(site: SiteDirectory) -> None:
    site.site("  service_cidrs:", "  service_cidr:")
    assert site.errors() == [
        f"{SITE}:6: network.service_cidrs = (missing): must be given: range of Services, of the same families in the same "
        "order as "
        "pod_cidrs",
        f"{SITE}:9: network.service_cidr = ['10.96.0.0/16']: unknown key; did you mean service_cidrs?",
    ]


def test_unknown_key_without_a_close_one_lists_the_known(site: SiteDirectory) -> None:
    site.append("group_vars/all/site.yml", "gate:\n  zzz: 1\n")
    assert site.errors() == [f"{SITE}:11: gate.zzz = 1: unknown key; known are timeout_seconds"]


def test_misspelt_section_is_refused_and_own_variables_are_not(site: SiteDirectory) -> None:
    site.append(SITE, "kernl: {swap: 'off'}\nour_variable: 1\nansible_user: admin\n")
    assert site.errors() == [f"{SITE}:10: kernl = {{'swap': 'off'}}: unknown section; did you mean kernel?"]


def test_site_data_on_the_wrong_level_is_refused(site: SiteDirectory) -> None:
    site.append(SITE, 'kubernetes_version: "1.36.3"\n')
    assert site.errors() == [f"{SITE}:10: kubernetes_version = 1.36.3: site data belongs to its section: write it under cluster"]


def test_misspelt_group_variable_file_is_named(site: SiteDirectory) -> None:
    site.write("group_vars/tran.yml", "gpu_pool: {}\n")
    assert site.errors() == [
        "group_vars/tran.yml:1: group_vars = tran: the inventory has no group of this name, so the file is never used; "
        "did you mean train?"
    ]


def test_misspelt_kubelet_field_is_refused(site: SiteDirectory) -> None:
    site.append(SITE, "kubelet:\n  config:\n    failCgroupv1: false\nkube_proxy:\n  config: {moed: nftables}\n")
    site.append("group_vars/train.yml", "  kubelet: {config: {maxpods: 10}}\n")
    assert site.errors() == [
        f"{SITE}:12: kubelet.config.failCgroupv1 = false: unknown field; did you mean failCgroupV1?",
        f"{SITE}:14: kube_proxy.config.moed = nftables: unknown field; did you mean mode?",
        "group_vars/train.yml:7: train.gpu_pool.kubelet.config.maxpods = 10: unknown field; did you mean maxPods?",
    ]


def test_every_error_of_every_file_at_once(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "w1:", "GPU_Node01:")
    site.site('"1.36.3"', "1.30")
    site.site("10.96.0.0/16", "10.0.0.128/25")
    site.append(SITE, "time:\n  max_offset_seconds: soon\nregistry_mirrors: []\n")
    site.replace("group_vars/infer.yml", "inference", "serving")
    errors = site.errors()
    assert [error.split(" = ")[0] for error in errors] == [
        f"{SITE}:3: cluster.kubernetes_version",
        f"{SITE}:7: network.node_cidrs[0]",
        f"{SITE}:11: time.max_offset_seconds",
        f"{SITE}:12: registry_mirrors",
        "group_vars/infer.yml:6: infer.gpu_pool.workload",
        "hosts.yml:10: host",
    ]
