# SPDX-License-Identifier: Apache-2.0
"""The API server answers under its endpoint's name, keeps an audit log and encrypts secrets at rest."""

from __future__ import annotations

import json

import yaml
from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"


def test_api_is_ready_under_the_endpoints_name(host: Host) -> None:
    assert host.check_output(f"{KUBECTL} get --raw /readyz") == "ok"
    server = yaml.safe_load(host.file("/etc/kubernetes/admin.conf").content_string)["clusters"][0]["cluster"]["server"]
    assert server == "https://api.lab.bedplate.test:6443"


def test_kubelet_runs(host: Host) -> None:
    assert host.service("kubelet").is_running, host.run("journalctl -u kubelet -n 30 --no-pager").stdout


def test_api_server_is_told_of_audit_and_encryption(host: Host) -> None:
    manifest = yaml.safe_load(host.file("/etc/kubernetes/manifests/kube-apiserver.yaml").content_string)
    command = " ".join(manifest["spec"]["containers"][0]["command"])
    for flag in ("--audit-policy-file=", "--audit-log-path=", "--encryption-provider-config="):
        assert flag in command


def test_secret_files_are_roots_alone(host: Host) -> None:
    for path in host.check_output("ls /etc/kubernetes/pki/*.key /etc/kubernetes/admin.conf").splitlines():
        assert (host.file(path).user, host.file(path).mode) == ("root", 0o600), path


def test_nothing_secret_is_left_in_run(host: Host) -> None:
    left = host.run("ls -A /run/bedplate").stdout.split()
    assert [name for name in left if not name.endswith(".lock")] == []


def test_node_carries_the_control_plane_role(host: Host) -> None:
    nodes = json.loads(host.check_output(f"{KUBECTL} get nodes -o json"))["items"]
    assert (
        "node-role.kubernetes.io/control-plane" in next(n for n in nodes if n["metadata"]["name"] == "mcp")["metadata"]["labels"]
    )
