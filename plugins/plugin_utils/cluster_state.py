# SPDX-License-Identifier: Apache-2.0
"""Find the cluster through its control-plane hosts, one after another, and classify the targeted hosts."""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.kubeadm import API_PORT
from ansible_collections.bedplate.metal.plugins.plugin_utils.classify import (
    FRESH,
    PARTIAL,
    Cluster,
    classify,
    cluster_exists,
    slim_node,
)
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, KubeError, certificate_authority, set_server
from ansible_collections.bedplate.metal.plugins.plugin_utils.runtime_directory import kubeconfig_path, write_private


@dataclass
class Search:
    """What the control-plane hosts asked so far have told. unknown: those that could not be asked.

    run: the ansible-playbook process, the parent of the worker this is made in.
    """

    unknown: list[str] = field(default_factory=list)
    answered: bool = False
    source: str | None = None
    path: Path | None = None
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    ca_sha256: str | None = None
    error: str | None = None
    run: int = field(default_factory=os.getppid)

    def take(self, host: str, kubeconfig: str | None, address: str, cluster_name: str) -> None:
        """Take a control-plane host's admin.conf (None: it has none), keep it in memory and ask its API for the nodes."""
        if kubeconfig is None or self.answered:
            return
        bracketed = f"[{address}]" if ":" in address else address
        ca_sha256 = fingerprint(certificate_authority(kubeconfig))
        path = kubeconfig_path(cluster_name, ca_sha256, self.run)
        write_private(path, set_server(kubeconfig, f"https://{bracketed}:{API_PORT}"))
        try:
            nodes = {node["metadata"]["name"]: slim_node(node) for node in Api(path).nodes()}
        except KubeError as error:
            if self.source is None:
                self.source, self.path, self.ca_sha256, self.error = host, path, ca_sha256, str(error)
            return
        self.source, self.path, self.ca_sha256, self.nodes = host, path, ca_sha256, nodes
        self.answered, self.error = True, None

    def cluster(self, observed: Mapping[str, Mapping[str, Any]], control_plane: Sequence[str]) -> Cluster:
        """Return what is known of the cluster."""
        return Cluster(
            exists=cluster_exists(self.source, observed, control_plane),
            reachable=self.answered,
            source=self.source,
            ca_sha256=self.ca_sha256,
            nodes=self.nodes,
            unknown=tuple(self.unknown),
        )


def facts(
    search: Search,
    hosts: Sequence[str],
    observed: Mapping[str, Mapping[str, Any]],
    control_plane: Sequence[str],
    *,
    classes: bool,
) -> dict[str, Any]:
    """Return the facts of the step: bedplate_kubeconfig, bedplate_cluster and, when asked, bedplate_classes.

    observed: the preflight's kubelet observation by targeted host.
    """
    cluster = search.cluster(observed, control_plane)
    init_host = control_plane[0] if control_plane and not cluster.exists else None
    result: dict[str, Any] = {
        "bedplate_kubeconfig": str(search.path) if search.path else None,
        "bedplate_cluster": {
            "exists": cluster.exists,
            "reachable": cluster.reachable,
            "source": cluster.source,
            "ca_sha256": cluster.ca_sha256,
            "error": search.error,
            "init_host": init_host,
            "nodes": dict(cluster.nodes),
        },
    }
    if not classes:
        return result
    by_host = {
        host: classify(
            host, observed.get(host, {}), cluster, control_plane=host in control_plane, init_host=host == init_host
        ).facts()
        for host in hosts
    }
    joining = [h for h, c in by_host.items() if c["class"] in (FRESH, PARTIAL) and not c["problem"] and h != init_host]
    result["bedplate_classes"] = by_host
    result["bedplate_joining"] = {
        "control_plane": [h for h in joining if h in control_plane],
        "worker": [h for h in joining if h not in control_plane],
    }
    return result


def fingerprint(pem: bytes) -> str:
    """Return the hex SHA-256 of a certificate's DER."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode())).hexdigest()


def decoded_slurp(result: Mapping[str, Any]) -> str:
    """Return the text a slurp module returned."""
    return base64.b64decode(result["content"]).decode()
