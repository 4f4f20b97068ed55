# SPDX-License-Identifier: Apache-2.0
"""Each configuration has its DaemonSets, and none runs on a node whose labels do not ask for it."""

from __future__ import annotations

import json
from typing import Any

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf -n nvidia-device-plugin"


def daemonsets(host: Host) -> dict[str, dict[str, Any]]:
    items = json.loads(host.check_output(f"{KUBECTL} get daemonsets -o json"))["items"]
    return {item["metadata"]["name"]: item for item in items}


def test_a_daemonset_for_each_configuration(host: Host) -> None:
    names = {
        f"{kind}-{config}" for kind in ("nvidia-device-plugin", "gpu-feature-discovery") for config in ("whole", "time-slices-4")
    }
    assert set(daemonsets(host)) == names


def test_only_nodes_that_ask_for_it_get_it(host: Host) -> None:
    for name, daemonset in daemonsets(host).items():
        selector = daemonset["spec"]["template"]["spec"]["nodeSelector"]
        assert selector["pool.bedplate.dev/exposure"] == "device-plugin"
        assert name.endswith(selector["pool.bedplate.dev/exposure-config"])
        assert daemonset["status"]["desiredNumberScheduled"] == name.endswith("-whole")


def test_the_configuration_is_what_the_plugin_reads(host: Host) -> None:
    data = json.loads(host.check_output(f"{KUBECTL} get configmap device-plugin-time-slices-4 -o json"))["data"]
    assert json.loads(data["config.yaml"])["sharing"]["timeSlicing"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 4}]


def test_the_namespace_admits_the_plugin(host: Host) -> None:
    namespace = json.loads(host.check_output(f"{KUBECTL} get namespace nvidia-device-plugin -o json"))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert host.check_output(f"{KUBECTL} get runtimeclass nvidia-device-plugin -o jsonpath='{{.handler}}'") == "nvidia"
