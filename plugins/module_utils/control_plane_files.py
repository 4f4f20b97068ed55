# SPDX-License-Identifier: Apache-2.0
"""Files the API server reads: audit policy, admission configuration (PodSecurity), encryption of secrets at rest."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from . import kubeadm
from .host import Host

DIRECTORY = f"{kubeadm.KUBERNETES_DIRECTORY}/bedplate"
AUDIT_POLICY = f"{DIRECTORY}/audit-policy.yaml"
ADMISSION = f"{DIRECTORY}/admission.yaml"
ENCRYPTION = f"{DIRECTORY}/encryption.yaml"
AUDIT_LOG_DIRECTORY = "/var/log/kubernetes/audit"
POD_SECURITY: Mapping[str, Any] = {
    "enforce": "baseline",
    "audit": "restricted",
    "warn": "restricted",
    "exempt_namespaces": ["kube-system"],
}
"""The cluster's PodSecurity defaults where none are given."""
_LEVELS = ("enforce", "audit", "warn")


@dataclass(frozen=True)
class Files:
    """Texts of the files, None where one is not wanted. encryption: whether secrets are encrypted at rest."""

    audit_policy: Optional[str] = None
    admission: Optional[str] = None
    encryption: bool = False


class EncryptionFile:
    """Make the encryption configuration with a new random key; an existing file is kept."""

    def perform(self, host: Host) -> None:
        """Write it, mode 0600."""
        if not host.exists(ENCRYPTION):
            host.write(ENCRYPTION, encryption_text(secrets.token_bytes(32)), 0o600)


def encryption_text(key: bytes) -> str:
    """Return an EncryptionConfiguration that seals Secrets with XSalsa20-Poly1305 and still reads what was stored in the clear.

    key: 32 bytes, what the provider ``secretbox`` takes.
    """
    box = {"secretbox": {"keys": [{"name": "bedplate-1", "secret": base64.b64encode(key).decode()}]}}
    return _text(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": [box, {"identity": {}}]}],
        }
    )


def audit_policy_text(policy: Mapping[str, Any]) -> str:
    """Return an audit Policy; apiVersion and kind are added."""
    return _text({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **policy})


def admission_text(pod_security: Mapping[str, Any]) -> str:
    """Return an AdmissionConfiguration with the cluster's PodSecurity defaults.

    pod_security: enforce, audit, warn (privileged, baseline or restricted) and exempt_namespaces.
    """
    wanted = {key: pod_security.get(key) or default for key, default in POD_SECURITY.items()}
    levels = {mode: wanted[mode] for mode in _LEVELS}
    configuration = {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {**levels, **{f"{mode}-version": "latest" for mode in levels}},
        "exemptions": {
            "usernames": [],
            "runtimeClasses": [],
            "namespaces": list(wanted["exempt_namespaces"]),
        },
    }
    return _text(
        {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": [{"name": "PodSecurity", "configuration": configuration}],
        }
    )


def complete_cluster(cluster: Mapping[str, Any], files: Files) -> dict[str, Any]:
    """Return a ClusterConfiguration whose API server reads the files; what the cluster's data sets itself wins."""
    server: dict[str, Any] = dict(cluster.get("apiServer") or {})
    arguments: dict[str, str] = {}
    volumes: list[dict[str, Any]] = []
    if files.audit_policy is not None:
        arguments.update(
            {
                "audit-policy-file": AUDIT_POLICY,
                "audit-log-path": f"{AUDIT_LOG_DIRECTORY}/audit.log",
                "audit-log-maxage": "30",
                "audit-log-maxbackup": "10",
                "audit-log-maxsize": "100",
            }
        )
        volumes.append(_volume("audit-log", AUDIT_LOG_DIRECTORY, read_only=False))
    if files.admission is not None:
        arguments["admission-control-config-file"] = ADMISSION
    if files.encryption:
        arguments["encryption-provider-config"] = ENCRYPTION
    if arguments:
        volumes.append(_volume("bedplate", DIRECTORY, read_only=True))
        server = kubeadm.with_volumes(kubeadm.with_arguments(server, arguments), volumes)
    return {**cluster, "apiServer": server} if server else dict(cluster)


def _volume(name: str, path: str, *, read_only: bool) -> dict[str, Any]:
    return {"name": name, "hostPath": path, "mountPath": path, "pathType": "DirectoryOrCreate", "readOnly": read_only}


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, sort_keys=True) + "\n"
