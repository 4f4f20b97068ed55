# SPDX-License-Identifier: Apache-2.0
"""Teams find out what a pool offers, and get no other right by it."""

from __future__ import annotations

import json

import yaml
from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
SOMEBODY = "--as somebody --as-group system:authenticated"


def test_any_user_reads_it(host: Host) -> None:
    found = json.loads(host.check_output(f"{KUBECTL} -n kube-public get configmap bedplate-gpus {SOMEBODY} -o json"))
    assert yaml.safe_load(found["data"]["train.yaml"])["resources_per_node"] == {"nvidia.com/gpu": 8}


def test_and_may_do_nothing_else(host: Host) -> None:
    for question in ("update configmap/bedplate-gpus", "get configmap/other", "list configmaps"):
        assert host.run(f"{KUBECTL} -n kube-public auth can-i {question} {SOMEBODY}").stdout.strip() == "no", question
