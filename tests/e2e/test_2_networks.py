# SPDX-License-Identifier: Apache-2.0
"""Pod networks beside the tested one: Cilium as its chart renders it, and NetworkPolicy as the API takes it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from kubernetes import client

from bedplate_lab.components import BY_COMPONENT, Recipe, directory, module_directory

from .cluster import NAMESPACE, Cluster
from .site import ROOT

CILIUM = Recipe("cilium", "github.com/cilium/cilium", {})
ROLE = ROOT / "roles" / "cni"


@pytest.fixture(scope="module")
def cilium(lab_up: None) -> list[dict[str, Any]]:
    """What the chart of the pinned version makes of the role's values for a cluster whose endpoint has a name."""
    variables = {"cni_endpoint": {"name": "api.example.test", "port": 6443}, "cni_pod_cidrs": ["10.244.0.0/16"]}
    template = trust_as_template((ROLE / "templates" / "cilium-values.yml.j2").read_text(encoding="utf-8"))
    values = Templar(loader=DataLoader(), variables=variables).template(template)
    rendered = subprocess.run(
        [
            *(directory(BY_COMPONENT["helm"]) / "bin" / "helm", "template", "cilium"),
            *(module_directory(CILIUM) / "install" / "kubernetes" / "cilium", "--namespace", "kube-system", "--values", "-"),
        ],
        input=values if isinstance(values, str) else json.dumps(values),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert rendered.returncode == 0, rendered.stderr
    return [found for found in yaml.safe_load_all(rendered.stdout) if found]


def test_cilium_is_the_version_the_role_installs(cilium: list[dict[str, Any]]) -> None:
    wanted = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))["cni_cilium_version"]
    agent = next(found for found in cilium if (found["kind"], found["metadata"]["name"]) == ("DaemonSet", "cilium"))
    assert f":v{wanted}" in agent["spec"]["template"]["spec"]["containers"][0]["image"]


def test_cilium_talks_to_the_endpoints_name_and_runs_on_nodes_not_accepted_yet(cilium: list[dict[str, Any]]) -> None:
    agent = next(found for found in cilium if (found["kind"], found["metadata"]["name"]) == ("DaemonSet", "cilium"))
    pod = agent["spec"]["template"]["spec"]
    environment = {variable["name"]: variable.get("value") for variable in pod["containers"][0]["env"]}
    assert environment["KUBERNETES_SERVICE_HOST"] == "api.example.test"
    assert environment["KUBERNETES_SERVICE_PORT"] == "6443"
    assert {"operator": "Exists"} in pod["tolerations"]
    operator = next(found for found in cilium if found["metadata"]["name"] == "cilium-operator" and found["kind"] == "Deployment")
    assert {"operator": "Exists"} in operator["spec"]["template"]["spec"]["tolerations"]


def test_cilium_takes_node_ranges_from_kubernetes(cilium: list[dict[str, Any]]) -> None:
    settings = next(found for found in cilium if (found["kind"], found["metadata"]["name"]) == ("ConfigMap", "cilium-config"))
    assert (settings["data"]["ipam"], settings["data"]["enable-ipv4"]) == ("kubernetes", "true")


def test_network_policies_are_accepted_and_their_provider_runs(cluster: Cluster, namespace: None) -> None:
    """Enforcement needs nftables' queue, which a container host's kernel lacks: it is shown on machines of their own."""
    networking = client.NetworkingV1Api(cluster.core.api_client)
    policy = {
        "metadata": {"name": "closed"},
        "spec": {"podSelector": {"matchLabels": {"role": "closed"}}, "policyTypes": ["Ingress"]},
    }
    networking.create_namespaced_network_policy(NAMESPACE, policy)
    provider = cluster.apps.read_namespaced_daemon_set("kube-network-policies", "kube-system")
    assert provider.status.number_ready == len(cluster.nodes())
