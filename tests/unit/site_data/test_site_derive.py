# SPDX-License-Identifier: Apache-2.0
"""What hosts should be: labels, taints, kubelet drop-ins, kubeadm's documents (case A6, A7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.modules import control_plane
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.kubelet_config import quantity_bytes
from real_kubeadm import needs_kubeadm, validate

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
UNACCEPTED = {"key": "bedplate.dev/unaccepted", "effect": "NoSchedule"}


def test_pool_becomes_labels_and_a_taint(site: SiteDirectory) -> None:
    host = site.bedplate()["hosts"]["w1"]
    assert host["labels"] == {
        "pool.bedplate.dev/name": "train",
        "pool.bedplate.dev/accelerator": "h100-80gb",
        "pool.bedplate.dev/topology": "8gpu-sxm-nvlink",
        "pool.bedplate.dev/fabric": "infiniband",
        "pool.bedplate.dev/workload": "distributed-training",
        "pool.bedplate.dev/sharing": "full-gpu",
        "topology.bedplate.dev/rack": "r1",
        "topology.bedplate.dev/block": "b1",
    }
    assert host["node_restriction_labels"] == {"pool.node-restriction.kubernetes.io/name": "train"}
    taint = {"key": "pool.bedplate.dev/name", "value": "train", "effect": "NoSchedule"}
    assert host["taints"] == [taint]
    assert host["roles"]["worker"]["taints"] == [taint, UNACCEPTED]
    assert host["roles"]["worker"]["endpoint"] == "api.test.example.com:6443"
    assert "control_plane" not in host["roles"]


def test_labels_that_a_kubelet_may_not_set_are_not_registered(site: SiteDirectory) -> None:
    registered = site.bedplate()["hosts"]["w1"]["roles"]["worker"]["labels"]
    assert not [key for key in registered if "kubernetes.io" in key]


def test_taints_of_ones_own(site: SiteDirectory) -> None:
    site.append("group_vars/train.yml", "  taints: []\n")
    site.append("group_vars/infer.yml", "  taints: [{key: example.com/serving, effect: NoExecute}]\n")
    hosts = site.bedplate()["hosts"]
    assert hosts["w1"]["taints"] == []
    assert hosts["w2"]["taints"] == [{"key": "example.com/serving", "effect": "NoExecute"}]


def test_system_pool_is_the_control_plane_unless_there_are_system_nodes(site: SiteDirectory) -> None:
    bedplate = site.bedplate()
    assert bedplate["hosts"]["cp1"]["pool"] == "system"
    assert bedplate["pools"]["system"]["hosts"] == ["cp1"]
    site.append("hosts.yml", "    system_nodes:\n      hosts:\n        s1: {ansible_host: 10.0.0.31}\n")
    bedplate = site.bedplate()
    assert bedplate["hosts"]["cp1"]["pool"] == "control-plane"
    assert bedplate["hosts"]["s1"]["pool"] == "system"
    assert bedplate["hosts"]["s1"]["kind"] == "worker"
    assert bedplate["pools"]["system"]["hosts"] == ["s1"]


def test_control_plane_taints(site: SiteDirectory) -> None:
    control_plane = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}

    def registered() -> Any:
        return site.bedplate()["hosts"]["cp1"]["roles"]["control_plane"]["init"]["nodeRegistration"]["taints"]

    assert registered() == [control_plane, UNACCEPTED]
    site.site("  endpoint:", "  control_plane_schedulable: true\n  endpoint:")
    assert registered() == [UNACCEPTED]


def test_first_control_plane_initialises_and_the_others_join(site: SiteDirectory, control_planes: Callable[[int], None]) -> None:
    control_planes(3)
    hosts = site.bedplate()["hosts"]
    assert [hosts[name]["roles"]["control_plane"]["mode"] for name in ("cp1", "cp2", "cp3")] == ["init", "join", "join"]
    documents = [hosts[name]["roles"]["control_plane"]["cluster"] for name in ("cp1", "cp2", "cp3")]
    assert documents[0] == documents[1] == documents[2]


def test_adding_a_host_changes_nothing_for_the_others(site: SiteDirectory) -> None:
    before = site.bedplate()["hosts"]
    site.replace(
        "hosts.yml",
        "        infer:\n",
        "            w9: {ansible_host: 10.0.0.29, rack: r9, topology_block: b9}\n        infer:\n",
    )
    after = site.bedplate()["hosts"]
    assert {name: after[name] for name in before} == before
    assert after["w9"]["node_ip"] == "10.0.0.29"


def test_resource_managers_become_a_drop_in_of_the_pool(site: SiteDirectory) -> None:
    site.append(SITE, "kubelet: {config: {maxPods: 200, evictionHard: {memory.available: 1Gi}}}\n")
    site.append(
        "group_vars/train.yml",
        "  numa_nodes: 2\n  kubelet:\n    cpu_manager: static\n    memory_manager: Static\n    topology_manager: restricted\n"
        "    reserved: {cpus: '0-1', memory: 3Gi}\n    config: {podPidsLimit: 4096}\n",
    )
    hosts = site.bedplate()["hosts"]
    dropins = hosts["w1"]["roles"]["kubelet"]["dropins"]
    assert dropins["20-site.conf"] == {"maxPods": 200, "evictionHard": {"memory.available": "1Gi"}}
    assert dropins["30-pool.conf"] == {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0-1",
        "systemReserved": {"memory": "3Gi"},
        "memoryManagerPolicy": "Static",
        "reservedMemory": [
            {"numaNode": 0, "limits": {"memory": str(2 * 1024**3)}},
            {"numaNode": 1, "limits": {"memory": str(2 * 1024**3)}},
        ],
        "topologyManagerPolicy": "restricted",
        "podPidsLimit": 4096,
    }
    assert list(hosts["w2"]["roles"]["kubelet"]["dropins"]) == ["20-site.conf"]


@pytest.mark.parametrize(("text", "size"), [("100Mi", 100 * 1024**2), ("1.5Gi", 3 * 512 * 1024**2), ("2G", 2 * 10**9), ("7", 7)])
def test_quantities(text: str, size: int) -> None:
    assert quantity_bytes(text) == size


def test_memlock_only_where_the_fabric_is_rdma(site: SiteDirectory) -> None:
    hosts = site.bedplate()["hosts"]
    assert hosts["w1"]["roles"]["container_runtime"]["memlock"] == "infinity"
    assert hosts["w2"]["roles"]["container_runtime"]["memlock"] == ""


def test_images_of_a_registry_of_ones_own(site: SiteDirectory) -> None:
    site.site("  endpoint:", "  image_registry: depot.example.com/k8s\n  endpoint:")
    roles = site.bedplate()["hosts"]["cp1"]["roles"]
    assert roles["container_runtime"]["sandbox_image"].startswith("depot.example.com/k8s/pause:")
    assert roles["control_plane"]["cluster"]["dns"]["imageRepository"] == "depot.example.com/k8s/coredns"
    assert roles["gate"]["image"].startswith("depot.example.com/k8s/e2e-test-images/agnhost:")


def test_certificate_names_are_unique_and_clean(site: SiteDirectory) -> None:
    site.site(
        "    name: api.test.example.com\n",
        "    name: api.test.example.com\n    address: 10.0.0.10\n"
        '  extra_sans: [API.test.example.com, "10.0.0.10", "[fd00::0:1]", "fd00::1", other.example.com., other.example.com]\n',
    )
    cluster = site.bedplate()["hosts"]["cp1"]["roles"]["control_plane"]["cluster"]
    assert cluster["apiServer"]["certSANs"] == ["api.test.example.com", "10.0.0.10", "fd00::1", "other.example.com"]


def test_a_site_and_the_role_alone_have_the_same_audit_policy_and_pod_security(site: SiteDirectory) -> None:
    derived = site.bedplate()["hosts"]["cp1"]["roles"]["control_plane"]
    alone = {name: option.get("default") for name, option in control_plane.ARGUMENT_SPEC.items()}
    of_site = {key: derived[key] for key in ("audit_policy", "pod_security")}
    assert control_plane.build_desired({**alone, **of_site}).files == control_plane.build_desired(alone).files
    none = control_plane.build_desired({**alone, "audit_policy": {}, "pod_security": {}}).files
    assert (none.audit_policy, none.admission) == (None, None)


def kubeadm_answer(bedplate: dict[str, Any], host: str) -> tuple[int, str]:
    options = bedplate["hosts"][host]["roles"]["control_plane"]
    documents = [options["init"], options["cluster"], options["kubelet_config"], options["kube_proxy_config"]]
    return validate("---\n".join(json.dumps(document) + "\n" for document in documents))


@needs_kubeadm
@pytest.mark.parametrize("hosts", [1, 3])
def test_kubeadm_accepts_the_documents(site: SiteDirectory, control_planes: Callable[[int], None], hosts: int) -> None:
    control_planes(hosts)
    bedplate = site.bedplate()
    for number in range(1, hosts + 1):
        assert kubeadm_answer(bedplate, f"cp{number}") == (0, "ok\n")


@needs_kubeadm
def test_kubeadm_accepts_the_documents_of_one_host_alone(site: SiteDirectory) -> None:
    site.write("hosts.yml", "all:\n  children:\n    control_plane:\n      hosts:\n        cp1: {ansible_host: 10.0.0.11}\n")
    for name in ("train", "infer"):
        (site.root / f"group_vars/{name}.yml").unlink()
    assert kubeadm_answer(site.bedplate(), "cp1") == (0, "ok\n")


@needs_kubeadm
def test_kubeadm_accepts_ipv6(site: SiteDirectory) -> None:
    site.site("10.0.0.0/24", "'fd00:10::/64'")
    site.site("10.244.0.0/16", "'fd00:244::/56'")
    site.site("10.96.0.0/16", "'fd00:96::/112'")
    for number in (11, 21, 22):
        site.replace("hosts.yml", f"ansible_host: 10.0.0.{number}", f'ansible_host: "fd00:10::{number}"')
    assert kubeadm_answer(site.bedplate(), "cp1") == (0, "ok\n")


@needs_kubeadm
def test_kubeadm_check_can_fail(site: SiteDirectory) -> None:
    bedplate = site.bedplate()
    bedplate["hosts"]["cp1"]["roles"]["control_plane"]["cluster"]["networking"]["serviceSubnet"] = "10.96.0.0/99"
    assert kubeadm_answer(bedplate, "cp1")[0] != 0
