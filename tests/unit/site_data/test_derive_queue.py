# SPDX-License-Identifier: Apache-2.0
"""The queue plan out of site data: flavors from pools, quotas from shares, and Kueue's own configuration."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
TRAIN, INFER = "group_vars/train.yml", "group_vars/infer.yml"
QUEUES = """\
queues:
  - name: a
    cohort: both
    pools: [{pool: train, gpus: 6, lend: 2}]
  - name: b
    cohort: both
    pools: [{pool: train, gpus: 2, borrow: 3}, {pool: infer, gpus: 4}]
tenants:
  - {name: one, owner: somebody, groups: [oidc:one], queues: [a, b]}
  - {name: two, queues: [b], priorities: [low]}
"""
DRIVER = "  driver: {branch: '580', version: 580.126.09}\n  os: ubuntu-24.04\n"
NUMBERS = "  cpus: 100\n  memory: 1Ti\n"


def derived(site: SiteDirectory, train: str = NUMBERS, infer: str = NUMBERS, more: str = "") -> dict[str, Any]:
    site.append(TRAIN, train)
    site.append(INFER, infer)
    site.append(SITE, QUEUES + more)
    return site.bedplate()


def shares(bedplate: dict[str, Any], queue: str) -> dict[str, dict[str, Any]]:
    (found,) = [one for one in bedplate["queue"]["queues"] if one["name"] == queue]
    return {share["pool"]: share["resources"] for share in found["shares"]}


def kueue_config(bedplate: dict[str, Any]) -> dict[str, Any]:
    values = bedplate["hosts"]["cp1"]["roles"]["kueue"]["values"]
    config: dict[str, Any] = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    return config


def test_a_site_without_queues_gets_no_queue_system(site: SiteDirectory) -> None:
    bedplate = site.bedplate()
    assert bedplate["queue"]["enabled"] is False and bedplate["hosts"]["cp1"]["roles"]["kueue"]["enabled"] is False


def test_a_flavor_is_its_pool(site: SiteDirectory) -> None:
    site.replace("hosts.yml", "train:", "train_1:")
    site.write("group_vars/train_1.yml", (site.root / TRAIN).read_text() + NUMBERS)
    (site.root / TRAIN).unlink()
    site.append(INFER, NUMBERS)
    site.append(SITE, QUEUES.replace("pool: train", "pool: train_1"))
    train, infer = site.bedplate()["queue"]["flavors"]
    assert train["name"] == "train-1" and train["gpus"] == 8
    assert train["node_labels"] == {
        "pool.bedplate.dev/name": "train_1",
        "pool.node-restriction.kubernetes.io/name": "train_1",
        "pool.bedplate.dev/accelerator": "h100-80gb",
        "pool.bedplate.dev/topology": "8gpu-sxm-nvlink",
        "pool.bedplate.dev/fabric": "infiniband",
    }
    assert train["tolerations"] == [
        {"key": "pool.bedplate.dev/name", "operator": "Equal", "value": "train_1", "effect": "NoSchedule"}
    ], "not that of nodes that are not accepted"
    assert train["levels"] == ["topology.bedplate.dev/block", "topology.bedplate.dev/rack", "kubernetes.io/hostname"]
    assert infer["levels"] == ["kubernetes.io/hostname"], "its host has no rack"


def test_cpus_and_memory_go_with_the_gpus_and_so_do_limits(site: SiteDirectory) -> None:
    bedplate = derived(site)
    assert shares(bedplate, "a")["train"] == {
        "nvidia.com/gpu": {"nominal": "6", "lend": "2"},
        "cpu": {"nominal": "75", "lend": "25"},
        "memory": {"nominal": "767Gi", "lend": "255Gi"},
        "pods": {"nominal": "82", "lend": "27"},
    }
    assert shares(bedplate, "b")["train"]["cpu"] == {"nominal": "25", "borrow": "37500m"}


def test_what_the_kubelet_keeps_is_nobodys(site: SiteDirectory) -> None:
    kubelet = "  kubelet: {reserved: {cpus: '0-3,50-53', memory: 24Gi}, config: {maxPods: 40}}\n"
    bedplate = derived(site, NUMBERS + kubelet)
    assert shares(bedplate, "a")["train"] == {
        "nvidia.com/gpu": {"nominal": "6", "lend": "2"},
        "cpu": {"nominal": "69", "lend": "23"},
        "memory": {"nominal": "749Gi", "lend": "249Gi"},
        "pods": {"nominal": "30", "lend": "10"},
    }


def test_a_share_may_say_its_own(site: SiteDirectory) -> None:
    site.append(TRAIN, NUMBERS)
    site.append(INFER, NUMBERS)
    text = QUEUES.replace(
        "{pool: train, gpus: 6, lend: 2}", "{pool: train, gpus: 6, lend: 2, cpus: 12, ephemeral_storage: 600Gi}"
    )
    site.append(SITE, text)
    found = shares(site.bedplate(), "a")["train"]
    assert (found["cpu"], found["ephemeral-storage"]) == ({"nominal": "12", "lend": "4"}, {"nominal": "600Gi", "lend": "200Gi"})


@pytest.mark.parametrize(
    ("spec", "resources"),
    [
        ("", {"nvidia.com/gpu": "4"}),
        ("  sharing: time-slicing\n  time_slices: 4\n", {"nvidia.com/gpu": "16"}),
        ("  sharing: mig\n  mig: {1g.10gb: 7}\n  mig_strategy: single\n", {"nvidia.com/gpu": "28"}),
        ("  sharing: mig\n  mig: {3g.40gb: 1, 1g.10gb: 4}\n", {"nvidia.com/mig-3g.40gb": "4", "nvidia.com/mig-1g.10gb": "16"}),
        (f"  exposure: dra\n{DRIVER}", {"dra.bedplate.dev/gpu": "4"}),
    ],
)
def test_gpus_are_covered_by_every_name_the_sharing_makes(site: SiteDirectory, spec: str, resources: dict[str, str]) -> None:
    site.replace(INFER, "l40s-48gb", "h100-80gb")
    site.replace(INFER, "topology: 4gpu-pcie", "topology: 4gpu-sxm-nvlink")
    bedplate = derived(site, infer=NUMBERS + spec)
    found = shares(bedplate, "b")["infer"]
    assert {name: quota["nominal"] for name, quota in found.items() if name not in ("cpu", "memory", "pods")} == resources
    (queue,) = [one for one in bedplate["queue"]["queues"] if one["name"] == "b"]
    assert set(queue["covered"]) == {"nvidia.com/gpu", *resources, "cpu", "memory", "pods"}
    mappings = kueue_config(bedplate)["resources"].get("deviceClassMappings")
    assert (mappings is not None) == ("dra" in spec), "a claim's device counts by its class"


def test_what_is_not_known_of_all_pools_of_a_queue_is_not_covered(site: SiteDirectory) -> None:
    bedplate = derived(site, infer="")
    covered = {queue["name"]: queue["covered"] for queue in bedplate["queue"]["queues"]}
    assert covered == {"a": ["nvidia.com/gpu", "cpu", "memory", "pods"], "b": ["nvidia.com/gpu", "pods"]}
    assert kueue_config(bedplate)["resources"]["quotaCheckStrategy"] == "IgnoreUndeclared", "and does not keep work waiting"


def test_only_teams_namespaces_are_watched_and_there_everything_names_a_queue(site: SiteDirectory) -> None:
    config = kueue_config(derived(site))
    assert config["manageJobsWithoutQueueName"] is True
    assert config["managedJobsNamespaceSelector"] == {"matchExpressions": [{"key": "bedplate.dev/tenant", "operator": "Exists"}]}
    assert {"batch/job", "pod", "deployment", "statefulset"} <= set(config["integrations"]["frameworks"])


def test_settings_of_the_gang_and_of_fair_sharing(site: SiteDirectory) -> None:
    bedplate = derived(site, more="queueing: {gang: {timeout_seconds: 90, retries: 3, one_at_a_time: true}}\n")
    config = kueue_config(bedplate)
    assert config["waitForPodsReady"] == {
        "timeout": "90s",
        "blockAdmission": True,
        "requeuingStrategy": {"timestamp": "Eviction", "backoffLimitCount": 3},
    }
    assert "fairSharing" in config and config["admissionFairSharing"]["resourceWeights"]["nvidia.com/gpu"] == 1
    site.site("one_at_a_time: true}", "one_at_a_time: true}, fair_sharing: false")
    assert not {"fairSharing", "admissionFairSharing"} & set(kueue_config(site.bedplate()))


def test_the_sites_values_and_fields_win(site: SiteDirectory) -> None:
    settings = "version: 0.19.1, values: {controllerManager: {replicas: 2}}, config: {clientConnection: {qps: 50}}"
    bedplate = derived(site, more=f"queueing: {{kueue: {{{settings}}}}}\n")
    options = bedplate["hosts"]["w1"]["roles"]["kueue"]
    assert options["enabled"] and options["version"] == "0.19.1" and options["values"]["controllerManager"]["replicas"] == 2
    assert kueue_config(bedplate)["clientConnection"] == {"qps": 50, "burst": 500}
    image = options["values"]["controllerManager"]["manager"]["image"]
    assert (image["repository"], image["tag"]) == ("registry.k8s.io/kueue/kueue", "v0.19.2")


def test_the_plan_is_told_once_and_not_per_host(site: SiteDirectory) -> None:
    bedplate = derived(site)
    assert [tenant["name"] for tenant in bedplate["queue"]["tenants"]] == ["one", "two"]
    assert bedplate["queue"]["tenants"][1]["owner"] == "two"
    assert "oidc:one" not in str(bedplate["hosts"])
