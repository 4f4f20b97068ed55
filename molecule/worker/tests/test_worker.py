# SPDX-License-Identifier: Apache-2.0
"""The worker joined, registered with its taint, and left no credentials behind."""

from __future__ import annotations

import json

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"


def test_worker_is_ready(host: Host) -> None:
    waited = host.run(f"{KUBECTL} wait --for condition=Ready node/mw --timeout 120s")
    assert waited.rc == 0, host.run(f"{KUBECTL} describe node mw").stdout


def test_worker_carries_its_declared_address(host: Host) -> None:
    node = json.loads(host.check_output(f"{KUBECTL} get node mw -o json"))
    addresses = {a["type"]: a["address"] for a in node["status"]["addresses"]}
    assert addresses["InternalIP"] in host.check_output("getent hosts mw || echo " + addresses["InternalIP"])


def test_no_bootstrap_token_is_left(host: Host) -> None:
    secrets = json.loads(host.check_output(f"{KUBECTL} -n kube-system get secrets -o json"))["items"]
    assert not [s["metadata"]["name"] for s in secrets if s["type"] == "bootstrap.kubernetes.io/token"]
