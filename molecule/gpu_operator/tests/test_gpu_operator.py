# SPDX-License-Identifier: Apache-2.0
"""The chart's definitions come before its objects, the host's parts stay with the host, and no hook runs."""

from __future__ import annotations

import json

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf -n molecule-gpu-operator"


def test_driver_toolkit_and_division_belong_to_the_host(host: Host) -> None:
    policy = json.loads(host.check_output(f"{KUBECTL} get clusterpolicies.molecule.bedplate.dev cluster-policy -o json"))
    assert policy["spec"] == {part: {"enabled": False} for part in ("driver", "toolkit", "migManager")}


def test_objects_without_a_namespace_come_into_the_operators(host: Host) -> None:
    assert host.run(f"{KUBECTL} get serviceaccount gpu-operator").rc == 0
    namespace = json.loads(host.check_output(f"{KUBECTL} get namespace molecule-gpu-operator -o json"))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_no_hook_ran(host: Host) -> None:
    assert host.run(f"{KUBECTL} get configmap made-by-a-hook").rc != 0


def test_configurations_are_there_for_nodes_to_choose(host: Host) -> None:
    data = json.loads(host.check_output(f"{KUBECTL} get configmap bedplate-device-plugin -o json"))["data"]
    assert json.loads(data["time-slices-4"])["version"] == "v1"
