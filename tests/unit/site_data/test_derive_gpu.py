# SPDX-License-Identifier: Apache-2.0
"""What hosts and cluster get for their GPUs: driver, sharing, exposure labels, chart values, what teams are told."""

from __future__ import annotations

from typing import Any

import pytest

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
TRAIN, INFER = "group_vars/train.yml", "group_vars/infer.yml"
DRIVER = "  driver: {branch: '580', version: 580.126.09}\n  os: ubuntu-24.04\n"
EXPOSURE = "pool.bedplate.dev/exposure"
OPERATOR_CONFIG = "nvidia.com/device-plugin.config"
CONFIG = "pool.bedplate.dev/exposure-config"


def derived(site: SiteDirectory, train: str = "", infer: str = "", more: str = "") -> dict[str, Any]:
    site.append(TRAIN, DRIVER + train)
    site.append(INFER, DRIVER + infer)
    site.append(SITE, more)
    return site.bedplate()


def test_a_pool_without_a_driver_gets_nothing(site: SiteDirectory) -> None:
    bedplate = site.bedplate()
    host = bedplate["hosts"]["w1"]
    assert host["exposure_labels"] == {} and host["gpus"] == {"declared": 0, "resources": {}}
    assert not {"nvidia_driver", "gpu_sharing", "nvidia_container_toolkit"} & set(host["roles"])
    assert host["roles"]["container_runtime"]["cdi"] is False
    assert not host["roles"]["gpu_operator"]["enabled"] and not host["roles"]["dra"]["enabled"]
    assert host["roles"]["device_plugin"]["configs"] == {} and host["roles"]["gpu_catalog"]["pools"] == {}


def test_the_driver_of_a_training_node(site: SiteDirectory) -> None:
    hosts = derived(site)["hosts"]
    assert hosts["w1"]["roles"]["nvidia_driver"] == {
        "version": "580.126.09",
        "modules": "open",
        "accelerators": ["h100-80gb"],
        "source": "nvidia",
        "build": "dkms",
        "fabric_manager": "required",
        "nvlsm": False,
        "gpudirect": "dma-buf",
        "expected": {"count": 8, "model": "H100", "memory_gb": 80, "mixed": False, "switches": True},
        "lock_timeout_seconds": 300,
    }
    inference = hosts["w2"]["roles"]["nvidia_driver"]
    assert (inference["fabric_manager"], inference["gpudirect"]) == ("auto", "none")
    assert inference["expected"] == {"count": 4, "model": "L40S", "memory_gb": 48, "mixed": False, "switches": False}
    assert hosts["w1"]["roles"]["container_runtime"]["cdi"] is True
    assert hosts["w1"]["roles"]["container_runtime"]["runtime_handlers"] == {"nvidia": "/usr/bin/nvidia-container-runtime"}
    assert "nvidia_driver" not in hosts["cp1"]["roles"]


def test_fifth_generation_nvlink_and_older_gpus(site: SiteDirectory) -> None:
    site.replace(TRAIN, "h100-80gb", "b200-180gb")
    site.replace(INFER, "l40s-48gb", "v100-32gb")
    site.replace(INFER, "ethernet", "roce")
    site.replace("hosts.yml", "w2: {ansible_host: 10.0.0.22}", "w2: {ansible_host: 10.0.0.22, rack: r2, topology_block: b1}")
    hosts = derived(site)["hosts"]
    new = hosts["w1"]["roles"]["nvidia_driver"]
    assert (new["nvlsm"], new["fabric_manager"], new["expected"]["switches"]) == (True, "required", False)
    old = hosts["w2"]["roles"]["nvidia_driver"]
    assert (old["modules"], old["gpudirect"]) == ("proprietary", "peermem")


def test_eight_v100_have_links_and_no_switches(site: SiteDirectory) -> None:
    site.replace(TRAIN, "h100-80gb", "v100-32gb")
    old = derived(site)["hosts"]["w1"]["roles"]["nvidia_driver"]
    assert (old["fabric_manager"], old["expected"]["switches"]) == ("auto", False)


def test_one_way_per_pool_by_labels(site: SiteDirectory) -> None:
    hosts = derived(site, infer="  exposure: device-plugin\n  sharing: time-slicing\n  time_slices: 4\n")["hosts"]
    assert hosts["w1"]["exposure_labels"] == {EXPOSURE: "operator", OPERATOR_CONFIG: "whole"}
    assert hosts["w2"]["exposure_labels"] == {
        EXPOSURE: "device-plugin",
        CONFIG: "time-slices-4",
        "nvidia.com/gpu.deploy.operands": "false",
    }
    assert hosts["cp1"]["exposure_labels"] == {}
    assert not set(hosts["w2"]["exposure_labels"]) & set(hosts["w2"]["labels"]), "kubelet must not register them"
    assert hosts["w2"]["gpus"] == {"declared": 4, "resources": {"nvidia.com/gpu": 16}}


@pytest.mark.parametrize(
    ("exposure", "accepted"), [("operator", False), ("device-plugin", False), ("dra", False), ("none", True)]
)
def test_a_pod_takes_no_gpus_past_kubernetes_by_a_variable(site: SiteDirectory, exposure: str, accepted: bool) -> None:
    hosts = derived(site, train=f"  exposure: {exposure}\n")["hosts"]
    assert hosts["w1"]["roles"]["nvidia_container_toolkit"]["visible_devices_envvar"] is accepted


def test_the_operator_stays_off_pools_that_show_no_gpus(site: SiteDirectory) -> None:
    site.append(TRAIN, DRIVER)
    labels = site.bedplate()["hosts"]["w2"]["exposure_labels"]
    assert labels == {EXPOSURE: "none", "nvidia.com/gpu.deploy.operands": "false"}, "it finds GPUs by their PCI numbers"


def test_labels_the_operator_needs_where_no_feature_discovery_sets_them(site: SiteDirectory) -> None:
    hosts = derived(site, more="gpu: {operator: {node_feature_discovery: false}}\n")["hosts"]
    assert hosts["w1"]["exposure_labels"] == {
        EXPOSURE: "operator",
        OPERATOR_CONFIG: "whole",
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "24.04",
    }


def test_and_the_operating_system_must_then_be_known(site: SiteDirectory) -> None:
    site.append(TRAIN, "  driver: {branch: '580', version: 580.126.09}\n")
    site.append(SITE, "gpu: {operator: {node_feature_discovery: false}}\n")
    (error,) = site.errors()
    assert "train.gpu_pool.os = (missing): must be given where gpu.operator.node_feature_discovery is false" in error


def test_the_operator_leaves_the_hosts_parts_alone(site: SiteDirectory) -> None:
    options = derived(site, more="gpu: {operator: {values: {dcgmExporter: {enabled: false}}}}\n")["hosts"]["w1"]["roles"][
        "gpu_operator"
    ]
    values = options["values"]
    assert (options["enabled"], options["version"], list(options["configs"])) == (True, "v26.7.0", ["whole"])
    assert [values[part]["enabled"] for part in ("driver", "toolkit", "migManager", "sandboxWorkloads")] == [False] * 4
    assert (
        values["cdi"]["enabled"] is True and {"name": "DEVICE_LIST_STRATEGY", "value": "cdi-cri"} in values["devicePlugin"]["env"]
    )
    assert values["dcgmExporter"] == {"enabled": False}, "the site's values win"
    keys = [toleration["key"] for toleration in values["daemonsets"]["tolerations"]]
    assert keys == ["nvidia.com/gpu", "pool.bedplate.dev/name", "pool.bedplate.dev/name", "bedplate.dev/unaccepted"]


def test_time_slicing_under_the_operator_is_chosen_by_a_label(site: SiteDirectory) -> None:
    bedplate = derived(site, infer="  sharing: time-slicing\n  time_slices: 4\n")
    options = bedplate["hosts"]["w1"]["roles"]["gpu_operator"]
    assert "sharing" not in options["configs"]["whole"], "what a node without the label takes"
    assert options["values"]["devicePlugin"]["config"] == {"create": False, "name": "bedplate-device-plugin", "default": "whole"}
    assert set(options["configs"]) == {"time-slices-4", "whole"}
    assert [bedplate["hosts"][host]["exposure_labels"][OPERATOR_CONFIG] for host in ("w1", "w2")] == ["whole", "time-slices-4"]


def test_a_first_time_slicing_pool_changes_no_other_node(site: SiteDirectory) -> None:
    before = derived(site)["hosts"]["w1"]
    site.append(INFER, "  sharing: time-slicing\n  time_slices: 4\n")
    after = site.bedplate()["hosts"]["w1"]
    assert after["exposure_labels"] == before["exposure_labels"]
    plugins = [host["roles"]["gpu_operator"]["values"]["devicePlugin"] for host in (before, after)]
    assert plugins[0] == plugins[1], "other containers in the device plugin's pods are a rollout of them all"


@pytest.mark.parametrize(
    ("spec", "config", "resources"),
    [
        ("  mig: {1g.10gb: 7}\n", "mig-mixed", {"nvidia.com/mig-1g.10gb": 56}),
        ("  mig: {1g.10gb: 7}\n  mig_strategy: single\n", "mig-single", {"nvidia.com/gpu": 56}),
    ],
)
def test_mig(site: SiteDirectory, spec: str, config: str, resources: dict[str, int]) -> None:
    site.replace(TRAIN, "distributed-training", "inference")
    bedplate = derived(site, train=f"  exposure: device-plugin\n  sharing: mig\n{spec}")
    host = bedplate["hosts"]["w1"]
    assert host["roles"]["gpu_sharing"] == {"mig": {"1g.10gb": 7}}
    assert host["exposure_labels"][CONFIG] == config
    assert host["gpus"]["resources"] == resources
    assert host["roles"]["device_plugin"]["configs"][config]["flags"] == {"migStrategy": config.removeprefix("mig-")}


def test_dra(site: SiteDirectory) -> None:
    bedplate = derived(site, train="  exposure: dra\n")
    options = bedplate["hosts"]["w1"]["roles"]["dra"]
    assert options["enabled"] and options["values"]["gpuResourcesEnabledOverride"] is True
    assert bedplate["hosts"]["w1"]["exposure_labels"] == {EXPOSURE: "dra", "nvidia.com/gpu.deploy.operands": "false"}
    assert bedplate["hosts"]["w1"]["gpus"] == {"declared": 8, "resources": {}}
    assert bedplate["hosts"]["w1"]["roles"]["gpu_catalog"]["pools"]["train"]["device_class"] == "gpu.nvidia.com"


def test_another_dra_driver_needs_no_driver_and_gets_its_own_values(site: SiteDirectory) -> None:
    site.append(TRAIN, "  exposure: dra\n")
    site.append(SITE, "gpu: {dra: {driver: gpu.example.com, repository: null, version: null, chart: /charts/example}}\n")
    options = site.bedplate()["hosts"]["w1"]["roles"]["dra"]
    assert list(options["values"]) == ["kubeletPlugin"] and options["version"] == ""


def test_what_a_container_may_ask_for_is_told_by_resource(site: SiteDirectory) -> None:
    site.replace(TRAIN, "distributed-training", "inference")
    roles = derived(site, train="  sharing: mig\n  mig: {3g.40gb: 1, 1g.10gb: 4}\n")["hosts"]["w1"]["roles"]
    pools = roles["gpu_catalog"]["pools"]
    assert pools["train"]["most_per_container"] == {"nvidia.com/mig-3g.40gb": 8, "nvidia.com/mig-1g.10gb": 32}
    assert pools["infer"]["most_per_container"] == {"nvidia.com/gpu": 4}


def test_what_teams_are_told(site: SiteDirectory) -> None:
    pools = derived(site, infer="  sharing: time-slicing\n  time_slices: 4\n")["hosts"]["w1"]["roles"]["gpu_catalog"]["pools"]
    assert pools["infer"] == {
        "accelerator": "l40s-48gb",
        "gpus_per_node": 4,
        "nodes": 1,
        "sharing": "time-slicing",
        "workload": "inference",
        "driver": "580.126.09",
        "node_selector": {"pool.bedplate.dev/name": "infer"},
        "tolerations": [{"key": "pool.bedplate.dev/name", "operator": "Equal", "value": "infer", "effect": "NoSchedule"}],
        "resources_per_node": {"nvidia.com/gpu": 16},
        "most_per_container": {"nvidia.com/gpu": 1},
    }
