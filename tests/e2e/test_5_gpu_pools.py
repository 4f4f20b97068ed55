# SPDX-License-Identifier: Apache-2.0
"""Two more pools join: one divided by MIG, one that shows its GPUs by dynamic resource allocation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bedplate_tools.lab_site import add_hosts, remove_hosts

from .cluster import NAMESPACE, Cluster
from .gpus import UUID, allocatable, ask, catalogue
from .hosts import lab
from .site import Run, Site

DIVIDED, CLAIMED = "g1", "g2"
DRIVER = {"branch": "580", "version": "580.126.09"}
COMMON = {"fabric": "ethernet", "workload": "dev", "os": "debian-12", "driver": DRIVER}
POOLS: dict[str, dict[str, Any]] = {
    "divided": {
        **COMMON,
        "accelerator": "a100-80gb",
        "gpus_per_node": 8,
        "topology": "8gpu-sxm-nvlink",
        "exposure": "device-plugin",
        "sharing": "mig",
        "mig": {"3g.40gb": 1, "1g.10gb": 3},
    },
    "claimed": {**COMMON, "accelerator": "l40s-48gb", "gpus_per_node": 4, "topology": "4gpu-pcie", "exposure": "dra"},
}


@pytest.fixture(scope="module")
def bigger(site: Site, scratch: Path, cluster: Cluster) -> Iterator[Site]:
    """The site with a host in each of two more pools."""
    hosts = {**add_hosts(DIVIDED, gpus="a100-80gb"), **add_hosts(CLAIMED, gpus="l40s-48gb")}
    pools = {
        pool: {"hosts": {name: hosts[name]}, "vars": {"gpu_pool": POOLS[pool]}}
        for pool, name in zip(POOLS, (DIVIDED, CLAIMED), strict=True)
    }
    path = scratch / "pools.yml"
    path.write_text(json.dumps({"all": {"children": {"gpu_nodes": {"children": pools}}}}), encoding="utf-8")
    yield Site((*site.inventories, path))
    for name in (DIVIDED, CLAIMED):
        cluster.core.delete_node(name)
    remove_hosts(DIVIDED, CLAIMED)


@pytest.fixture(scope="module")
def added(bigger: Site) -> Run:
    """The run that adds both."""
    return bigger.run().ok()


def test_instances_are_advertised_by_profile(added: Run, cluster: Cluster) -> None:
    wanted = {"nvidia.com/mig-3g.40gb": 8, "nvidia.com/mig-1g.10gb": 24}
    assert catalogue(cluster, "divided")["resources_per_node"] == wanted
    assert {name: count for name, count in allocatable(cluster, DIVIDED).items() if count} == wanted


def test_a_pod_gets_its_instance_and_nothing_else(added: Run, cluster: Cluster, namespace: None) -> None:
    ask(cluster, "divided", "instance", {"nvidia.com/mig-1g.10gb": 1}, "nvidia-smi -L")
    succeeded, log = cluster.outcome("instance")
    assert succeeded, log
    assert len([uuid for uuid in UUID.findall(log) if uuid.startswith("MIG-")]) == 1, log
    assert log.count("MIG 1g.10gb") == 1 and "3g.40gb" not in log, log


def test_a_claim_is_prepared_on_a_node_of_its_pool(added: Run, cluster: Cluster, namespace: None) -> None:
    device_class = catalogue(cluster, "claimed")["device_class"]
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    cluster.custom.create_namespaced_custom_object("resource.k8s.io", "v1", NAMESPACE, "resourceclaimtemplates", claim)
    entry = catalogue(cluster, "claimed")
    container = {
        "name": "main",
        "image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0",
        "command": ["sh", "-c", "env | grep ^GPU_DEVICE"],
        "resources": {"claims": [{"name": "gpu"}]},
    }
    spec = {
        "nodeSelector": entry["node_selector"],
        "tolerations": entry["tolerations"],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    }
    cluster.create_pod("claimant", container, spec)
    succeeded, log = cluster.outcome("claimant")
    assert succeeded and log.startswith("GPU_DEVICE"), log
    assert cluster.pod("claimant").spec.node_name == CLAIMED


def test_no_pool_is_shown_in_two_ways(added: Run, cluster: Cluster) -> None:
    assert allocatable(cluster, CLAIMED) == {}
    slices = json.loads(lab("kubectl", "get", "resourceslices", "-o", "json").stdout)["items"]
    assert {item["spec"]["nodeName"] for item in slices} == {CLAIMED}


def test_a_second_run_changes_nothing(added: Run, bigger: Site) -> None:
    run = bigger.run().ok()
    assert run.changes() == {}, run.output[-4000:]
