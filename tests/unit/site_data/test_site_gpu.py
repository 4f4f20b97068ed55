# SPDX-License-Identifier: Apache-2.0
"""GPU site data: the compatibility table (cases C21, C24), MIG geometries, one owner for every part."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility import mig, show
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.facts import pool_facts, resolved_modules
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.table import VERDICTS, load_table
from ansible_collections.bedplate.metal.plugins.plugin_utils.site import command

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
TRAIN = "group_vars/train.yml"
DRIVER = "  driver: {branch: '580', version: 580.126.09%s}\n"
UBUNTU = "  os: ubuntu-24.04\n"


def driven(site: SiteDirectory, accelerator: str = "h100-80gb", driver: str = "", more: str = "") -> list[str]:
    """Give the pool train a driver on another accelerator; return the errors."""
    site.replace(TRAIN, "h100-80gb", accelerator)
    site.append(TRAIN, (DRIVER % driver) + UBUNTU + more)
    return site.errors()


def row_of(facts: dict[str, Any]) -> list[str]:
    return [rule.row for rule in load_table().applying(facts)]


def facts(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "accelerator": "h100-80gb",
        "branch": "580",
        "modules": "auto",
        "exposure": "operator",
        "sharing": "full-gpu",
        "workload": "inference",
        "kubernetes": "1.36.3",
        "operator": "v26.7.0",
        "distribution": "ubuntu-24.04",
        **changes,
    }
    return pool_facts(load_table(), **values)


def test_proprietary_modules_on_blackwell_are_refused(site: SiteDirectory) -> None:
    (error,) = driven(site, "b200-180gb", ", modules: proprietary")
    assert error.startswith(
        f"{TRAIN}:7: train.gpu_pool.driver.modules = proprietary: blackwell GPUs (b200-180gb) are driven by open"
    )
    assert "https://docs.nvidia.com/" in error


def test_auto_chooses_the_modules_that_can_drive_the_gpu(site: SiteDirectory) -> None:
    assert driven(site, "b200-180gb") == []
    models = load_table().accelerators
    assert [resolved_modules("auto", models[name]) for name in ("v100-32gb", "h100-80gb", "b200-180gb")] == [
        "proprietary",
        "open",
        "open",
    ]
    assert resolved_modules("proprietary", models["h100-80gb"]) == "proprietary"


def test_open_modules_on_volta_are_refused(site: SiteDirectory) -> None:
    (error,) = driven(site, "v100-32gb", ", modules: open")
    assert "train.gpu_pool.driver.modules = open: open kernel modules need the GPU System Processor, which volta GPUs" in error


def test_two_accelerators_in_one_pool_are_refused_with_the_reason(site: SiteDirectory) -> None:
    (error,) = driven(site, "[v100-32gb, b200-180gb]")
    assert error.endswith(
        "the hosts of a pool are alike: one accelerator per pool, so make a pool for each of v100-32gb, b200-180gb (no kind "
        "of kernel modules drives them all: v100-32gb: proprietary; b200-180gb: open)"
    )


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"accelerator": "v100-32gb", "branch": "595"}, "driver-too-new"),
        ({"accelerator": "b200-180gb", "branch": "550"}, "driver-too-old"),
        ({"branch": "620", "modules": "proprietary"}, "proprietary-modules-ended"),
        ({"branch": "999"}, "driver-branch-unknown"),
        ({"branch": "570"}, "driver-branch-ended"),
        ({"accelerator": "x9-1tb"}, "accelerator-unknown"),
        ({"accelerator": "l40s-48gb", "sharing": "mig"}, "mig-not-capable"),
        ({"sharing": "mig", "workload": "distributed-training"}, "mig-training"),
        ({"cuda": "13.0", "branch": "570"}, "cuda-13-driver"),
        ({"containerd": "1.6.20~ds1"}, "cdi-containerd"),
        ({"distribution": "debian-12"}, "gpu-operator-distribution"),
        ({"kubernetes": "1.37.2"}, "gpu-operator-kubernetes"),
        ({"operator": "v24.9.0"}, "gpu-operator-release"),
        ({"exposure": "dra", "operator": None, "kubernetes": "1.33.9"}, "dra-kubernetes"),
        ({"exposure": "dra", "operator": None, "sharing": "time-slicing"}, "dra-sharing"),
        ({"exposure": "dra", "operator": None, "branch": "550"}, "dra-driver-branch"),
        ({"cgroup": "v1"}, "kubernetes-cgroup-v1"),
    ],
)
def test_a_row_applies_and_is_rendered(changes: dict[str, Any], row: str) -> None:
    found = facts(**changes)
    assert row in row_of(found)
    rule = next(rule for rule in load_table().rules if rule.row == row)
    assert "{" not in rule.message(found)


def test_nothing_applies_to_what_vendors_support() -> None:
    assert row_of(facts(cuda="13.0", containerd="2.4.2-1")) == []
    assert row_of(facts(accelerator="v100-32gb")) == []
    assert row_of({}) == []


def test_every_row_has_a_verdict_a_source_and_a_name_of_its_own() -> None:
    rules = load_table().rules
    assert len({rule.row for rule in rules}) == len(rules)
    assert [rule.row for rule in rules] == sorted(rule.row for rule in rules)
    assert {rule.verdict for rule in rules} == set(VERDICTS)
    assert all(rule.source for rule in rules)


def test_unsupported_is_refused_until_it_is_accepted_by_name(site: SiteDirectory) -> None:
    site.append(TRAIN, DRIVER % "" + "  os: debian-12\n")
    (error,) = site.errors()
    assert "train.gpu_pool.os = debian-12: NVIDIA's GPU Operator is validated on Ubuntu" in error
    assert error.endswith("to run it all the same: accept_unsupported: [{row: gpu-operator-distribution, reason: …}]")
    site.append(SITE, "accept_unsupported: [{row: gpu-operator-distribution, reason: tested here}]\n")
    assert site.validate().problems == []


@pytest.mark.parametrize(
    ("row", "end"),
    [
        ("gpu-operator-distributon", "the compatibility table has no such row; did you mean gpu-operator-distribution?"),
        ("proprietary-modules-too-new", "are driven by open kernel modules alone; use open or auto"),
    ],
)
def test_rows_that_cannot_be_accepted(site: SiteDirectory, row: str, end: str) -> None:
    site.append(SITE, f"accept_unsupported: [{{row: {row}, reason: because}}]\n")
    (error,) = site.errors()
    assert error.endswith(end)


def test_an_accepted_row_that_applies_to_nothing_is_named(site: SiteDirectory) -> None:
    site.append(SITE, "accept_unsupported: [{row: kubernetes-cgroup-v1, reason: because}]\n")
    assert site.warnings() == [
        f"{SITE}:10: accept_unsupported[0].row = kubernetes-cgroup-v1: applies to no pool (any more): take the entry out"
    ]


@pytest.mark.parametrize("part", ["driver", "toolkit", "migManager"])
@pytest.mark.parametrize(
    ("written", "shown"), [("{enabled: true}", "true"), ("{enabled: 'true'}", "true"), ("{enabled: null}", "(nothing)")]
)
def test_c24_each_part_has_one_owner(site: SiteDirectory, part: str, written: str, shown: str) -> None:
    site.append(SITE, f"gpu: {{operator: {{values: {{{part}: {written}}}}}}}\n")
    (error,) = driven(site)
    assert f"gpu.operator.values.{part}.enabled = {shown}: the hosts of pool train have the {part} installed" in error


def test_the_operator_does_not_bring_a_driver(site: SiteDirectory) -> None:
    site.append(TRAIN, "  exposure: operator\n" + UBUNTU)
    (error,) = site.errors()
    assert error.endswith("shows GPUs of a driver, and the pool has none: give driver: {branch, version}")


def test_values_that_contradict_the_pools_are_refused_together(site: SiteDirectory) -> None:
    values = "cdi: {enabled: false}, devicePlugin: {enabled: false}, nfd: {enabled: false}"
    site.append(SITE, f"gpu: {{operator: {{values: {{{values}}}}}}}\n")
    errors = driven(site)
    assert [
        part for part in ("cdi", "devicePlugin", "nfd") if not any(f"values.{part}.enabled = false" in e for e in errors)
    ] == []
    assert len(errors) == 3


def test_packages_that_do_not_exist_are_refused(site: SiteDirectory) -> None:
    (error,) = driven(site, driver=", build: precompiled")
    assert "only Ubuntu's own archive has them" in error


def test_one_mig_strategy_under_the_operator(site: SiteDirectory) -> None:
    infer = "  os: ubuntu-24.04\n  sharing: mig\n  mig: {1g.10gb: 7}\n  mig_strategy: single\n"
    site.replace("group_vars/infer.yml", "l40s-48gb", "h100-80gb")
    site.append("group_vars/infer.yml", DRIVER % "" + infer)
    (error,) = driven(site, more="  sharing: mig\n  mig: {1g.10gb: 7}\n")
    assert (
        "infer.gpu_pool.mig_strategy = single: the operator has one MIG strategy" in error and "pool train has another" in error
    )
    site.append(TRAIN, "  exposure: device-plugin\n")
    assert site.errors() == []


@pytest.mark.parametrize(
    ("accelerator", "geometry", "problem"),
    [
        ("h100-80gb", {"1g.10gb": 7}, ""),
        ("h100-80gb", {"3g.40gb": 2}, ""),
        ("h100-80gb", {"4g.40gb": 1, "3g.40gb": 1}, ""),
        ("h100-80gb", {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}, ""),
        ("b200-180gb", {"1g.23gb": 2, "2g.45gb": 1, "3g.90gb": 1}, ""),
        ("a30-24gb", {"2g.12gb": 1, "1g.6gb": 2}, ""),
        ("h100-80gb", {"1g.5gb": 1}, "has no MIG profile 1g.5gb"),
        ("h100-80gb", {"1g.10gb": 8}, "holds 7 of it at most"),
        ("h100-80gb", {"1g.10gb+me": 2}, "holds 1 of it at most"),
        ("a30-24gb", {"1g.6gb+me": 1, "2g.12gb+me": 1}, "1g.6gb+me, 2g.12gb+me: one instance of a GPU has the media engines"),
        ("h100-80gb", {"4g.40gb": 1, "2g.20gb": 2}, "takes 8 compute slices; a h100-80gb has 7"),
        ("h100-80gb", {"3g.40gb": 2, "1g.10gb": 1}, "takes 9 memory slices; a h100-80gb has 8"),
        ("h100-80gb", {"2g.20gb": 3, "1g.20gb": 1}, ""),
        ("h100-80gb", {"4g.40gb": 1, "1g.20gb": 2}, ""),
        ("h100-80gb", {"1g.10gb": 4, "3g.40gb": 1}, ""),
        ("l40s-48gb", {"1g.6gb": 1}, "has no MIG profiles"),
    ],
)
def test_geometries(accelerator: str, geometry: dict[str, int], problem: str) -> None:
    found = mig.geometry_problem(load_table().accelerators[accelerator], geometry)
    assert (problem in found) if problem else found == ""


def test_a_geometry_that_does_not_fit_is_refused(site: SiteDirectory) -> None:
    (error,) = driven(site, more="  sharing: mig\n  mig: {3g.40gb: 2, 1g.10gb: 1}\n")
    assert error == f"{TRAIN}:10: train.gpu_pool.mig = 3g.40gb: 2, 1g.10gb: 1: takes 9 memory slices; a h100-80gb has 8"


def test_what_a_node_advertises() -> None:
    assert mig.advertised(8, sharing="full-gpu") == {"nvidia.com/gpu": 8}
    assert mig.advertised(4, sharing="time-slicing", slices=4) == {"nvidia.com/gpu": 16}
    geometry = {"3g.40gb": 1, "1g.10gb+me": 1}
    assert mig.advertised(8, sharing="mig", geometry=geometry) == {"nvidia.com/mig-3g.40gb": 8, "nvidia.com/mig-1g.10gb.me": 8}
    assert mig.advertised(8, sharing="mig", geometry={"1g.10gb": 7}, strategy="single") == {"nvidia.com/gpu": 56}


def test_the_table_is_printed(site: SiteDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    site.append(TRAIN, DRIVER % "" + "  os: debian-12\n")
    assert command.main(["compat"]) == 0
    whole = capsys.readouterr().out
    assert all(rule.row in whole and rule.source in whole for rule in load_table().rules)
    assert command.main(["compat", "-i", "."]) == 1
    found = capsys.readouterr()
    assert "train.gpu_pool.os = debian-12" in found.err
    assert found.out.splitlines()[:2] == [
        "train:",
        "  gpu-operator-distribution: unsupported when exposure operator, operator_distribution outside",
    ]
    site.append(SITE, "accept_unsupported: [{row: gpu-operator-distribution, reason: tested here}]\n")
    assert command.main(["compat", "-i", "."]) == 0
    assert command.main(["compat", "-i", "nowhere"]) == 1
    assert show.as_json(load_table())["accelerators"]["h100-80gb"]["architecture"] == "hopper"
