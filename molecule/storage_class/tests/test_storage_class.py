# SPDX-License-Identifier: Apache-2.0
"""The API server takes classes and volumes, and a tenant's claim gets the tenant's volume."""

from __future__ import annotations

import json
from typing import Any

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "vision"},
    "spec": {"accessModes": ["ReadOnlyMany"], "storageClassName": "data", "resources": {"requests": {"storage": "1Ti"}}},
}


def read(host: Host, what: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.check_output(f"{KUBECTL} get {what} -o json"))
    return found


def test_a_class_of_each_share_and_nobody_who_provisions(host: Host) -> None:
    for name in ("home", "data"):
        assert read(host, f"storageclass {name}")["provisioner"] == "kubernetes.io/no-provisioner"


def test_a_volume_mounts_as_the_nodes_do(host: Host) -> None:
    spec = read(host, "pv home")["spec"]
    assert spec["nfs"] == {"server": "nfs.example.com", "path": "/home"}
    assert spec["mountOptions"] == ["vers=4.1", "hard"] and spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert spec["accessModes"] == ["ReadWriteMany"] and spec["capacity"] == {"storage": "10Ti"}


def test_a_tenants_claim_gets_the_tenants_volume(host: Host) -> None:
    host.check_output(f"{KUBECTL} create namespace vision --dry-run=client -o yaml | {KUBECTL} apply -f -")
    host.check_output(f"echo '{json.dumps(CLAIM)}' | {KUBECTL} apply -f -")
    host.check_output(f"{KUBECTL} -n vision wait --for=jsonpath='{{.status.phase}}'=Bound --timeout=60s pvc/data")
    assert read(host, "pvc data -n vision")["spec"]["volumeName"] == "data-vision"
    assert read(host, "pv data-vision")["spec"]["nfs"] == {"server": "10.87.0.250", "path": "/srv/data", "readOnly": True}
    assert read(host, "pv data-language")["status"]["phase"] != "Bound"
