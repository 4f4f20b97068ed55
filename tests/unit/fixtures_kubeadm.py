# SPDX-License-Identifier: Apache-2.0
"""A simulated kubeadm, kubectl and crictl on recorded hosts, and the cases of control_plane and worker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils import kubeadm
from ansible_collections.bedplate.metal.plugins.module_utils.control_plane import ControlPlane, ControlPlaneDesired
from ansible_collections.bedplate.metal.plugins.module_utils.control_plane_files import (
    ENCRYPTION,
    Files,
    admission_text,
    audit_policy_text,
    encryption_text,
)
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.module_utils.worker import (
    CLIENT_CERTIFICATE,
    Worker,
    WorkerDesired,
)
from interrupted import Case

from recorded_host import RecordedHost

TOKEN = "abcdef.0123456789abcdef"
HASH = "sha256:" + "a1" * 32
CERTIFICATE_KEY = "0f" * 32
CLUSTER: dict[str, Any] = {
    "clusterName": "lab",
    "kubernetesVersion": "v1.36.3",
    "controlPlaneEndpoint": "api.lab.test:6443",
    "networking": {"podSubnet": "10.244.0.0/16", "serviceSubnet": "10.96.0.0/16", "dnsDomain": "cluster.local"},
    "apiServer": {"certSANs": ["api.lab.test"], "extraArgs": [{"name": "audit-log-maxage", "value": "7"}]},
    "etcd": {"local": {"dataDir": "/var/lib/etcd", "imageTag": "3.6.16-0"}},
    "dns": {"imageTag": "v1.15.0"},
}
PKI_FILES = ("ca.crt", "ca.key", "sa.key", "etcd/ca.key", "apiserver.crt")
MANIFESTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(part) for part in text.split("---\n")]


def flock(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    words = list(argv)
    if words[-1] == "true":
        return Result(0)
    return simulated_kubeadm(host, words[words.index("kubeadm") :], stdin)


def simulated_kubeadm(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    """Do what kubeadm does to files, in its order, with its preflight; keys that exist are kept."""
    configuration = documents(host.files[argv[list(argv).index("--config") + 1]])
    if argv[1:3] == ["init", "phase"]:
        host.changing()
        return Result(0)
    join = configuration[0]["kind"] == "JoinConfiguration"
    control_plane = not join or "controlPlane" in configuration[0]
    refused = [e for e in preflight(host, join, control_plane) if e not in ignored(configuration[0])]
    if refused:
        lines = "\n".join(f"\t[ERROR {name}]: found it" for name in refused)
        return Result(1, "", f"[preflight] Some fatal errors occurred:\n{lines}\n")
    if host.files.get("/test/failing"):
        return Result(1, "", f"couldn't validate the identity of the API Server: token {TOKEN}, key {CERTIFICATE_KEY}, {HASH}")
    if control_plane:
        _make(host, {f"{kubeadm.PKI}/{name}": f"key of {name}" for name in PKI_FILES})
        _make(host, {kubeadm.ADMIN_CONF: "admin"})
    if not join:
        _make(host, {kubeadm.KUBELET_CONF: "kubelet of init"})
    if control_plane:
        _make(host, {f"{kubeadm.MANIFESTS}/{name}.yaml": name for name in MANIFESTS})
    if join and "kubelet-start" not in configuration[0].get("skipPhases", []):
        _make(host, {kubeadm.BOOTSTRAP_KUBELET_CONF: "bootstrap", kubeadm.CA_CERTIFICATE: "key of ca.crt"})
    _make(host, {kubeadm.KUBELET_CONFIG: "config", "/var/lib/kubelet/kubeadm-flags.env": "flags"})
    host.changing()
    host.services["kubelet"] = "active"
    _make(host, {CLIENT_CERTIFICATE: "certificate"})
    if control_plane:
        _make(host, {"/var/lib/etcd/member/snap/db": "data"})
    if join:
        _make(host, {kubeadm.KUBELET_CONF: "kubelet of join"})
        host.remove(kubeadm.BOOTSTRAP_KUBELET_CONF)
    return Result(0, "Your Kubernetes control-plane has initialized successfully!")


def _make(host: RecordedHost, files: dict[str, str]) -> None:
    for path, text in files.items():
        if path not in host.files:
            host.write(path, text, 0o600)


def ignored(configuration: dict[str, Any]) -> list[str]:
    return list(configuration["nodeRegistration"].get("ignorePreflightErrors", []))


def preflight(host: RecordedHost, join: bool, control_plane: bool) -> list[str]:
    """Return the preflight errors of kubernetes 1.36, cmd/kubeadm/app/preflight/checks.go, that a host's state brings about."""
    errors = []
    if control_plane:
        for name in MANIFESTS:
            path = f"{kubeadm.MANIFESTS}/{name}.yaml"
            if host.exists(path):
                errors += [f"FileAvailable-{path.replace('/', '-')}", *(f"Port-{p}" for p in kubeadm.STATIC_POD_PORTS[name])]
        if host.exists("/var/lib/etcd/member"):
            errors.append("DirAvailable--var-lib-etcd")
    if host.services.get("kubelet") == "active":
        errors.append("Port-10250")
    if join:
        paths = [kubeadm.KUBELET_CONF, kubeadm.BOOTSTRAP_KUBELET_CONF, *([] if control_plane else [kubeadm.CA_CERTIFICATE])]
        errors += [f"FileAvailable-{p.replace('/', '-')}" for p in paths if host.exists(p)]
    return errors


def kubectl(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    up = f"{kubeadm.MANIFESTS}/kube-apiserver.yaml" in host.files and host.services.get("kubelet") == "active"
    return Result(0, "ok") if up else Result(1, "", "The connection to the server was refused")


def crictl(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    if argv[1] == "ps":
        return Result(0, "0a1b2c\n")
    host.changing()
    return Result(0)


def bare_host(**arguments: Any) -> RecordedHost:
    return RecordedHost(handlers={"flock": flock, "kubectl": kubectl, "crictl": crictl}, **arguments)


def control_plane_desired(mode: str = "init", **changes: Any) -> ControlPlaneDesired:
    values: dict[str, Any] = {
        "mode": mode,
        "node_name": "cp1",
        "cluster": CLUSTER,
        "init": {
            "localAPIEndpoint": {"advertiseAddress": "192.0.2.11", "bindPort": 6443},
            "nodeRegistration": {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]},
        },
        "kubelet_config": {"cgroupDriver": "systemd"},
        "kube_proxy_config": {"mode": "nftables"},
        "files": Files(audit_policy_text({"rules": [{"level": "Metadata"}]}), admission_text({"enforce": "baseline"}), True),
    }
    if mode == "join":
        values["join"] = {
            "token": TOKEN,
            "ca_cert_hashes": [HASH],
            "certificate_key": CERTIFICATE_KEY,
            "encryption_config": encryption_text(b"k" * 32),
        }
    return ControlPlaneDesired(**{**values, **changes})


def worker_desired(**changes: Any) -> WorkerDesired:
    values: dict[str, Any] = {
        "node_name": "w1",
        "endpoint": "api.lab.test:6443",
        "token": TOKEN,
        "ca_cert_hashes": (HASH,),
        "labels": {"pool.bedplate.dev/name": "train"},
        "taints": ({"key": "bedplate.dev/unaccepted", "effect": "NoSchedule"},),
    }
    return WorkerDesired(**{**values, **changes})


def without_random_key(snapshot: dict[str, Any]) -> dict[str, Any]:
    files = {path: ("a key" if path == ENCRYPTION else text) for path, text in snapshot["files"].items()}
    return {**snapshot, "files": files}


CASES = [
    Case("control_plane init", ControlPlane, control_plane_desired, bare_host, comparable=without_random_key),
    Case("control_plane join", ControlPlane, lambda: control_plane_desired("join"), bare_host),
    Case("worker join", Worker, worker_desired, bare_host),
]
