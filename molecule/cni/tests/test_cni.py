# SPDX-License-Identifier: Apache-2.0
"""The pod network is there, and NetworkPolicy has its provider."""

from __future__ import annotations

import json

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"


def test_every_daemonset_of_the_network_is_rolled_out(host: Host) -> None:
    found = json.loads(host.check_output(f"{KUBECTL} get daemonsets -A -o json"))["items"]
    network = [d for d in found if d["metadata"]["name"] in ("flannel", "kube-network-policies")]
    assert len(network) == 2, [d["metadata"]["name"] for d in found]
    for daemonset in network:
        where = f"-n {daemonset['metadata']['namespace']} daemonset/{daemonset['metadata']['name']}"
        status = host.run(f"{KUBECTL} rollout status {where} --timeout 120s")
        assert status.rc == 0, host.run(f"{KUBECTL} describe {where}").stdout


def test_the_node_is_ready(host: Host) -> None:
    waited = host.run(f"{KUBECTL} wait --for condition=Ready node/mcp --timeout 120s")
    assert waited.rc == 0, waited.stderr
    assert host.run("ls /etc/cni/net.d/*.conflist").rc == 0


def test_dns_comes_up(host: Host) -> None:
    waited = host.run(f"{KUBECTL} -n kube-system rollout status deployment/coredns --timeout 120s")
    assert waited.rc == 0, waited.stderr
