# SPDX-License-Identifier: Apache-2.0
"""Secrets are encrypted at rest, requests are audited without their secrets, unsafe pods are refused."""

from __future__ import annotations

import base64
import secrets

import pytest
from kubernetes.client.exceptions import ApiException

from .cluster import NAMESPACE, Cluster, etcdctl
from .hosts import sh
from .wait import wait_until


@pytest.fixture(scope="module")
def canary(cluster: Cluster, namespace: None) -> str:
    """The value of a Secret named canary."""
    value = secrets.token_hex(16)
    cluster.core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": "canary"}, "stringData": {"value": value}})
    return value


def test_a_secret_is_encrypted_in_etcd_and_read_back(cluster: Cluster, canary: str, control_plane: str) -> None:
    stored = etcdctl(control_plane, "get", f"/registry/secrets/{NAMESPACE}/canary")
    assert f"/registry/secrets/{NAMESPACE}/canary" in stored
    assert "k8s:enc:" in stored
    assert canary not in stored
    read = cluster.core.read_namespaced_secret("canary", NAMESPACE).data["value"]
    assert read in (canary, base64.b64encode(canary.encode()).decode(), base64.b64encode(canary.encode()))


def test_other_objects_are_readable_in_etcd(control_plane: str, canary: str) -> None:
    assert "k8s:enc:" not in etcdctl(control_plane, "get", f"/registry/namespaces/{NAMESPACE}")


def audit_log(cluster: Cluster, control_plane: str) -> str:
    pod = cluster.core.read_namespaced_pod(f"kube-apiserver-{control_plane}", "kube-system")
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in pod.spec.containers[0].command if "=" in flag)
    for limit in ("audit-log-maxage", "audit-log-maxbackup", "audit-log-maxsize"):
        assert int(flags[limit]) > 0, "the log must not fill the disk"
    return str(flags["audit-log-path"])


def test_the_audit_log_has_the_secrets_creation_and_not_the_secret(cluster: Cluster, control_plane: str, canary: str) -> None:
    path = audit_log(cluster, control_plane)
    wanted = f'\'"name":"canary"\' {path}'
    line = wait_until(lambda: sh(control_plane, f"grep -m 1 -h {wanted}", check=False), "the creation in the audit log", 30)
    assert '"verb":"create"' in line and '"resource":"secrets"' in line
    assert canary not in sh(control_plane, f"cat {path}")
    assert sh(control_plane, f"stat -c '%a %U' {path}").split()[0] in ("600", "640")


def test_a_privileged_pod_is_refused_by_default(cluster: Cluster, namespace: None) -> None:
    container = {"name": "p", "image": "registry.k8s.io/pause:3.10.2", "securityContext": {"privileged": True}}
    pod = {"metadata": {"name": "privileged"}, "spec": {"containers": [container]}}
    with pytest.raises(ApiException) as refused:
        cluster.core.create_namespaced_pod(NAMESPACE, pod)
    assert refused.value.status == 403
    assert "PodSecurity" in str(refused.value.body)


def test_a_kubelet_cannot_give_itself_a_tenants_label(cluster: Cluster, workers: list[str]) -> None:
    name = workers[0]
    kubectl = "kubectl --kubeconfig /etc/kubernetes/kubelet.conf"
    refused = sh(name, f"{kubectl} label node {name} --overwrite pool.node-restriction.kubernetes.io/name=mine 2>&1", check=False)
    assert "is not allowed to modify labels" in refused or "forbidden" in refused.lower()
