# SPDX-License-Identifier: Apache-2.0
"""The driver's device class is there for claims, and its plugin on no node whose labels do not ask for it."""

from __future__ import annotations

import json

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf -n molecule-dra"


def test_the_device_class_is_there(host: Host) -> None:
    found = json.loads(host.check_output(f"{KUBECTL} get deviceclass gpu.molecule.bedplate.dev -o json"))
    assert found["spec"]["selectors"][0]["cel"]["expression"] == "device.driver == 'gpu.molecule.bedplate.dev'"


def test_only_nodes_that_ask_for_it_get_the_plugin(host: Host) -> None:
    daemonset = json.loads(host.check_output(f"{KUBECTL} get daemonset dra-kubeletplugin -o json"))
    assert daemonset["status"]["desiredNumberScheduled"] == 0
