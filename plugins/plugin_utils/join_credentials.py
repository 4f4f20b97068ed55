# SPDX-License-Identifier: Apache-2.0
"""Short-lived credentials for joins, made through the API."""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.kubeadm import API_VERSION, CRI_SOCKET, documents, new_token
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, certificate_authority
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SECRETS = "/api/v1/namespaces/kube-system/secrets"
NODE_GROUP = "system:bootstrappers:kubeadm:default-node-token"
"""The group that kubeadm lets post and have approved the certificate requests of nodes."""
UPLOADED_CERTIFICATES = "kubeadm-certs"


def public_key_hash(pem: bytes) -> str:
    """Return ``sha256:<hex>`` of a CA certificate's SubjectPublicKeyInfo, what kubeadm pins."""
    key = x509.load_pem_x509_certificate(pem).public_key()
    return "sha256:" + hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def token_secret(token: str, expires: datetime) -> dict[str, Any]:
    """Return the Secret that makes a bootstrap token valid until it expires (the token cleaner then removes it)."""
    identity, secret = token.split(".")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "bootstrap.kubernetes.io/token",
        "metadata": {"name": f"bootstrap-token-{identity}", "labels": {"app.kubernetes.io/managed-by": "bedplate"}},
        "stringData": {
            "token-id": identity,
            "token-secret": secret,
            "expiration": expires.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": NODE_GROUP,
            "description": "a join by Bedplate",
        },
    }


def make(kubeconfig: str, ttl_seconds: int, now: datetime | None = None) -> dict[str, Any]:
    """Create a bootstrap token; return token and ca_cert_hashes, both secret."""
    token = new_token()
    expires = (now or datetime.now(UTC)) + timedelta(seconds=ttl_seconds)
    Api(kubeconfig).create(SECRETS, token_secret(token, expires))
    authority = certificate_authority(Path(kubeconfig).read_text(encoding="utf-8"))
    return {"token": token, "ca_cert_hashes": [public_key_hash(authority)]}


def withdraw(kubeconfig: str, token: str) -> None:
    """Remove a bootstrap token and the uploaded certificates with the token kubeadm made to own them; gone already is fine."""
    api = Api(kubeconfig)
    api.delete(f"{SECRETS}/bootstrap-token-{token.split('.')[0]}")
    uploaded = api.find(f"{SECRETS}/{UPLOADED_CERTIFICATES}")
    if uploaded is not None:
        api.delete(f"{SECRETS}/{UPLOADED_CERTIFICATES}")
        for owner in uploaded["metadata"].get("ownerReferences") or []:
            if owner.get("kind") == "Secret" and str(owner.get("name")).startswith("bootstrap-token-"):
                api.delete(f"{SECRETS}/{owner['name']}")


def upload_input(kubeconfig: str) -> tuple[str, str]:
    """Return a new certificate key (64 hex digits) and kubeadm's input for ``init phase upload-certs`` with it, both secret."""
    found = Api(kubeconfig).find("/api/v1/namespaces/kube-system/configmaps/kubeadm-config")
    if found is None:
        raise BedplateError(
            "ConfigMap kube-system/kubeadm-config: found none; wanted kubeadm's. "
            "Next: 'kubeadm init phase upload-config all' by hand"
        )
    key = secrets.token_hex(32)
    init = {
        "apiVersion": API_VERSION,
        "kind": "InitConfiguration",
        "certificateKey": key,
        "nodeRegistration": {"criSocket": CRI_SOCKET},
    }
    return key, documents([init, yaml.safe_load(found["data"]["ClusterConfiguration"])])
