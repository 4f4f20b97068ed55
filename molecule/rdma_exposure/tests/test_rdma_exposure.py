# SPDX-License-Identifier: Apache-2.0
"""The API server takes the objects, and the plugin runs on nodes of the pool alone."""

from __future__ import annotations

import json
from typing import Any

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
NAMESPACE = "rdma-device-plugin"


def read(host: Host, what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.check_output(f"{KUBECTL} -n {NAMESPACE} get {what} -o json"))
    return found


def test_the_plugin_stays_off_other_pools(host: Host) -> None:
    daemonset = read(host, "daemonset rdma-elsewhere")
    assert daemonset["spec"]["template"]["spec"]["nodeSelector"] == {"pool.bedplate.dev/name": "elsewhere"}
    assert daemonset["status"]["desiredNumberScheduled"] == 0


def test_the_configuration_is_what_the_plugin_reads(host: Host) -> None:
    config = json.loads(read(host, "configmap rdma-elsewhere")["data"]["config.json"])
    assert config["configList"] == [{"resourceName": "infiniband", "rdmaHcaMax": 63, "selectors": {"linkTypes": ["infiniband"]}}]


def test_the_namespace_admits_it(host: Host) -> None:
    labels = read(host, f"namespace {NAMESPACE}")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
