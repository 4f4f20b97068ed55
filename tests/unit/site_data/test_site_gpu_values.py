# SPDX-License-Identifier: Apache-2.0
"""GPU site data: values of their own form, everything wrong at once, and no follow-up errors."""

from __future__ import annotations

import pytest

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
TRAIN, INFER = "group_vars/train.yml", "group_vars/infer.yml"
DRIVER = "  driver: {branch: '580', version: 580.126.09}\n"
UBUNTU = "  os: ubuntu-24.04\n"
ARABIC = str.maketrans("0123456789", "".join(chr(0x660 + digit) for digit in range(10)))
"""Digits that int() and Python's \\d take too."""


@pytest.mark.parametrize(
    ("spec", "key", "value", "rule"),
    [
        ("os: %s", "os", "windows-11", "must be one of debian-12, debian-13, ubuntu-22.04, ubuntu-24.04"),
        ("os: %s", "os", "ubuntu-2404", "must be one of debian-12, debian-13, ubuntu-22.04, ubuntu-24.04"),
        ("cuda: '%s'", "cuda", "latest", "must be a version of the CUDA toolkit in quotes"),
        ("cuda: '%s'", "cuda", "13", "must be a version of the CUDA toolkit in quotes"),
        ("cuda: '%s'", "cuda", "13.0".translate(ARABIC), "must be a version of the CUDA toolkit in quotes"),
        (
            "driver: {branch: '580', version: '%s'}",
            "driver.version",
            "580." + "126".translate(ARABIC) + ".09",
            "must be a driver version in NVIDIA's form",
        ),
        ("upgrade: {waves: ['%s', '100%%']}", "upgrade.waves[0]", "25%".translate(ARABIC), "must be a share in quotes"),
        ("kubelet: {reserved: {cpus: '%s'}}", "kubelet.reserved.cpus", "0-3".translate(ARABIC), "must be a list of CPU numbers"),
        ("sharing: mig\n  mig: {%s: 7}", "mig.1g.10GB", "1g.10GB", "must be a MIG profile as nvidia-smi mig -lgip names it"),
        ("sharing: mig\n  mig: {%s: 7}", "mig.MIG-1", "MIG-1", "must be a MIG profile as nvidia-smi mig -lgip names it"),
    ],
)
def test_values_of_their_own_form(site: SiteDirectory, spec: str, key: str, value: str, rule: str) -> None:
    site.append(TRAIN, f"  {spec % value}\n")
    (error,) = site.errors()
    assert f": train.gpu_pool.{key} = {value}: {rule}" in error


def test_the_operating_system_must_be_permitted(site: SiteDirectory) -> None:
    site.append(SITE, "preflight: {distributions: [debian-12, debian-13]}\n")
    site.append(TRAIN, UBUNTU)
    (error,) = site.errors()
    assert "train.gpu_pool.os = ubuntu-24.04: preflight.distributions permits debian-12, debian-13 alone" in error


def test_every_possible_operating_system_must_have_the_packages(site: SiteDirectory) -> None:
    site.append(INFER, "  driver: {branch: '580', version: 580.126.09, source: distribution, build: precompiled}\n")
    errors = site.errors()
    assert [f"precompiled modules on debian-{number} from distribution" in errors[number - 12] for number in (12, 13)] == [
        True
    ] * 2
    assert errors[0].endswith("; or give os, where no host of the pool has debian-12")
    site.append(INFER, UBUNTU)
    assert site.errors() == []


@pytest.mark.parametrize(("topology", "refused"), [("8gpu-sxm-nvlink", True), ("8gpu-pcie", False)])
def test_fabric_manager_is_among_the_packages(site: SiteDirectory, topology: str, refused: bool) -> None:
    site.replace(TRAIN, "8gpu-sxm-nvlink", topology)
    site.append(
        TRAIN, "  driver: {branch: '580', version: 580.126.09, source: distribution}\n  exposure: none\n  os: debian-13\n"
    )
    assert ["Debian's own archive has no fabric manager" in error for error in site.errors()] == [True] * refused


def test_rules_between_keys_are_told_all_at_once(site: SiteDirectory) -> None:
    site.append(TRAIN, "  sharing: time-slicing\n  mig: {1g.10gb: 1, 2g.20gb: 1}\n  mig_strategy: single\n" + UBUNTU)
    site.append(TRAIN, "  driver: {branch: '580', version: 570.172.08}\n  upgrade: {waves: ['50%']}\n")
    site.append(TRAIN, "  kubelet: {cpu_manager: static, memory_manager: Static}\n")
    site.replace(TRAIN, "8gpu", "4gpu")
    keys = [error.partition("train.gpu_pool.")[2].partition(" = ")[0] for error in site.errors()]
    assert sorted(keys) == [
        "driver.version",
        "kubelet.cpu_manager",
        "kubelet.memory_manager",
        "mig_strategy",
        "numa_nodes",
        "sharing",
        "sharing",
        "topology",
        "upgrade.waves",
    ]


@pytest.mark.parametrize("version", ["26.7", "latest", "v26.7.0-rc1", "v26.7.0".translate(ARABIC)])
def test_the_operators_version_is_told_once(site: SiteDirectory, version: str) -> None:
    site.append(SITE, f"gpu: {{operator: {{version: '{version}'}}}}\n")
    for pool in (TRAIN, INFER):
        site.append(pool, DRIVER + UBUNTU)
    (error,) = site.errors()
    assert f"gpu.operator.version = {version}: must be a full version of NVIDIA's GPU Operator, for example v26.7.0" in error


def test_an_unknown_release_of_the_operator_is_told_once(site: SiteDirectory) -> None:
    site.append(SITE, "gpu: {operator: {version: v24.9.0}}\n")
    for pool in (TRAIN, INFER):
        site.append(pool, DRIVER + UBUNTU)
    (error,) = site.errors()
    assert f"{SITE}:10: gpu.operator.version = v24.9.0: this release of Bedplate does not know GPU Operator v24.9.0" in error


@pytest.mark.parametrize(
    ("chart", "kind"),
    [("oci://depot.example.com/gpu-operator", "an OCI reference"), ("/srv/chart", "a directory"), ("./chart", "a directory")],
)
def test_a_chart_has_one_place(site: SiteDirectory, chart: str, kind: str) -> None:
    site.append(SITE, f"gpu: {{operator: {{chart: '{chart}'}}, dra: {{chart: '{chart}', repository: null}}}}\n")
    (error,) = site.errors()
    assert f"gpu.operator.chart = {chart}: is {kind}, and repository names another place" in error


def test_a_wrong_section_gpu_brings_no_other_errors(site: SiteDirectory) -> None:
    site.append(SITE, "gpu: {dra: {driver: gpu.example.com}, operator: {node_feature_discovery: maybe}}\n")
    site.append(SITE, "accept_unsupported: [{row: gpu-operator-release, reason: tested here}]\n")
    site.append(TRAIN, "  exposure: dra\n")
    (problem,) = site.validate().problems
    assert problem.key == "gpu.operator.node_feature_discovery"


@pytest.mark.parametrize(
    ("file", "owner", "variable", "place"),
    [
        ("host_vars/w1.yml", "w1", "nvidia_driver_version: 570.1", "say it in gpu_pool.driver"),
        (TRAIN, "train", "gpu_sharing_mig: {1g.10gb: 7}", "say it in gpu_pool.mig"),
        (SITE, "all", "gpu_operator_values: {}", "say it in gpu.operator"),
        ("host_vars/w1.yml", "w1", "bedplate_roles: {}", "say it in the site data"),
        ("host_vars/w1.yml", "w1", "time_slices: 4", "a key of gpu_pool: it belongs into the spec in the pool's group_vars"),
        (TRAIN, "train", "driver: {branch: '570'}", "a key of gpu_pool: it belongs into the spec in the pool's group_vars"),
    ],
)
def test_what_would_win_over_checked_data_is_refused(
    site: SiteDirectory, file: str, owner: str, variable: str, place: str
) -> None:
    (site.append if file in (TRAIN, SITE) else site.write)(file, f"{variable}\n")
    (error,) = site.errors()
    assert error.startswith(f"{file}:")
    assert f": {owner}.{variable.partition(':')[0]} = (misplaced): " in error and place in error


def test_hosts_outside_of_pools_may_use_a_pools_words(site: SiteDirectory) -> None:
    site.write("host_vars/cp1.yml", "os: anything\n")
    assert site.errors() == []
