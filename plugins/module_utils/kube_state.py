# SPDX-License-Identifier: Apache-2.0
"""What a host already is to Kubernetes: the facts its classification (fresh, partial, member, foreign) is made from."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import asdict, dataclass
from typing import Any

from .host import Host
from .kubeadm import (
    ADMIN_CONF,
    BOOTSTRAP_KUBELET_CONF,
    CA_CERTIFICATE,
    KUBELET_CONF,
    KUBELET_CONFIG,
    MANIFESTS,
    UNFINISHED,
)
from .record import Record

ETCD_MEMBER = "/var/lib/etcd/member"
CONTROL_PLANE_MANIFESTS = tuple(
    f"{MANIFESTS}/{name}.yaml" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
)
OUR_RECORDS = ("control_plane", "worker")


@dataclass(frozen=True)
class KubeState:
    """State of kubelet and kubeadm on a host.

    state: ``none`` (no state at all), ``partial`` (an init or join that did not end), ``complete`` (the kubelet has credentials
    and a configuration, and on a control-plane host the control plane is there too).
    ca_sha256: lower-case hex SHA-256 of the DER form of the cluster's CA certificate, or None. server: the API's URL, or None.
    ours: a record of this project's control_plane or worker component is on the host. control_plane: it has static pod
    manifests of a control plane. phases: the records' ``phase`` by component.
    """

    state: str
    ca_sha256: str | None
    server: str | None
    ours: bool
    control_plane: bool
    phases: dict[str, str]

    def public(self) -> dict[str, Any]:
        """Return the state as a dict of JSON types."""
        return asdict(self)


def observe_kube_state(host: Host, kind: str) -> KubeState:
    """Look at kubelet's and kubeadm's files; kind is ``control-plane`` or ``worker`` (what the host is to become)."""
    kubelet_conf = host.read(KUBELET_CONF)
    configuration = kubelet_conf or host.read(BOOTSTRAP_KUBELET_CONF) or host.read(ADMIN_CONF)
    manifests = host.glob(f"{MANIFESTS}/*.yaml")
    traces = [
        configuration is not None,
        host.exists(CA_CERTIFICATE),
        host.exists(KUBELET_CONFIG),
        host.exists(ETCD_MEMBER),
        bool(manifests),
    ]
    complete = kubelet_conf is not None and host.exists(KUBELET_CONFIG) and not host.exists(BOOTSTRAP_KUBELET_CONF)
    control_plane = all(path in manifests for path in CONTROL_PLANE_MANIFESTS)
    if kind == "control-plane" or manifests:
        complete = complete and control_plane and host.exists(ADMIN_CONF)
    records = {name: Record.load(host, name).data for name in OUR_RECORDS}
    phases = {name: str(data["phase"]) for name, data in records.items() if "phase" in data}
    if any(phase in UNFINISHED for phase in phases.values()):
        complete = False
    state = "complete" if complete else "partial" if any(traces) else "none"
    ca = ca_pem(host, configuration or "") or host.read(CA_CERTIFICATE)
    return KubeState(state, ca_sha256(ca or ""), server_url(configuration or ""), any(records.values()), control_plane, phases)


def server_url(kubeconfig: str) -> str | None:
    """Return the first cluster's server of a kubeconfig."""
    match = re.search(r"^\s*server:\s*[\"']?([^\s\"']+)", kubeconfig, re.MULTILINE)
    return match.group(1) if match else None


def ca_pem(host: Host, kubeconfig: str) -> str | None:
    """Return the PEM of the first cluster's CA: embedded, or in the file the kubeconfig names."""
    embedded = re.search(r"^\s*certificate-authority-data:\s*[\"']?([A-Za-z0-9+/=]+)", kubeconfig, re.MULTILINE)
    if embedded:
        try:
            return base64.b64decode(embedded.group(1), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError):
            return None
    named = re.search(r"^\s*certificate-authority:\s*[\"']?([^\s\"']+)", kubeconfig, re.MULTILINE)
    return host.read(named.group(1)) if named else None


def ca_sha256(pem: str) -> str | None:
    """Return the SHA-256 (lower-case hex) of the first certificate's DER form, or None when there is none."""
    match = re.search(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", pem, re.DOTALL)
    if not match:
        return None
    try:
        return hashlib.sha256(base64.b64decode("".join(match.group(1).split()), validate=True)).hexdigest()
    except binascii.Error:
        return None
