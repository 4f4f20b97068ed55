# SPDX-License-Identifier: Apache-2.0
"""An accepted node has lost its taint, keeps its proof, and the gate's pods are gone."""

from __future__ import annotations

import json

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"


def test_the_worker_was_accepted_with_its_checks_written_down(host: Host) -> None:
    node = json.loads(host.check_output(f"{KUBECTL} get node mw -o json"))
    assert "bedplate.dev/unaccepted" not in [taint["key"] for taint in node["spec"].get("taints", [])]
    proof = json.loads(node["metadata"]["annotations"]["bedplate.dev/gate"])
    assert proof["format"] == 1
    assert proof["checks"]


def test_no_pod_of_the_gate_is_left(host: Host) -> None:
    pods = json.loads(host.check_output(f"{KUBECTL} get pods -A -o json"))["items"]
    assert not [p["metadata"]["name"] for p in pods if "gate" in p["metadata"]["name"]]
