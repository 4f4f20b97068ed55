# SPDX-License-Identifier: Apache-2.0
"""Classify hosts: fresh, partial, member or foreign, and whether their nodes carry work. Pure; see docs/architecture.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

FRESH, PARTIAL, MEMBER, FOREIGN = "fresh", "partial", "member", "foreign"


@dataclass(frozen=True)
class Cluster:
    """What is known of the cluster.

    exists: a control plane was found that finished its init. reachable: its API answers. source: the host its kubeconfig came
    from. ca_sha256: of the CA's DER. nodes: slim Node objects by name. unknown: control-plane hosts that could not be asked.
    """

    exists: bool = False
    reachable: bool = False
    source: str | None = None
    ca_sha256: str | None = None
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unknown: Sequence[str] = ()

    @property
    def ready_names(self) -> set[str]:
        """Names of nodes that are Ready."""
        return {name for name, node in self.nodes.items() if node.get("ready")}


@dataclass(frozen=True)
class HostClass:
    """A host's class. in_service: its node carries work. problem: why the run must stop for this host."""

    kind: str
    in_service: bool = False
    node_exists: bool = False
    problem: str | None = None

    def facts(self) -> dict[str, Any]:
        """Return the class as role variables see it (``bedplate_class``)."""
        return {
            "class": self.kind,
            "in_service": self.in_service,
            "node_exists": self.node_exists,
            "problem": self.problem,
        }


def cluster_exists(source: str | None, observed: Mapping[str, Mapping[str, Any]], control_plane: Sequence[str]) -> bool:
    """Tell whether a control plane finished its init.

    A kubeconfig that comes from the first control-plane host counts unless that host's own init of ours is unfinished.
    """
    if source is None:
        return False
    state = observed.get(source, {})
    unfinished = state.get("state") == PARTIAL and bool(state.get("ours"))
    return not (unfinished and control_plane and source == control_plane[0])


def classify(name: str, kubelet: Mapping[str, Any], cluster: Cluster, *, control_plane: bool, init_host: bool) -> HostClass:
    """Classify one host.

    kubelet: the preflight's observation (state none, partial or complete; ca_sha256; server; ours). control_plane: whether the
    inventory makes it a control-plane host. init_host: whether it is the one that would initialise a new cluster.
    """
    state = kubelet.get("state") or "none"
    node_exists = name in cluster.nodes
    ca = kubelet.get("ca_sha256")
    if state == "none":
        return _fresh(name, cluster, control_plane=control_plane, init_host=init_host, node_exists=node_exists)
    if ca and cluster.ca_sha256 and ca != cluster.ca_sha256:
        problem = (
            f"found kubelet state of another cluster ({kubelet.get('server') or 'server unknown'}, CA {ca[:16]}…); wanted none, "
            f"or CA {cluster.ca_sha256[:16]}…. Next: take it out of that cluster by hand ('kubeadm reset'), or of this inventory"
        )
        return HostClass(FOREIGN, in_service=True, node_exists=node_exists, problem=problem)
    ours = bool(kubelet.get("ours"))
    if not cluster.exists and not cluster.unknown and not (ours and init_host):
        problem = (
            f"found kubelet state ({kubelet.get('server') or 'server unknown'}), but no control plane of this inventory has been "
            "initialised; wanted a host without Kubernetes state. Next: 'kubeadm reset' by hand if nothing on it is needed"
        )
        return HostClass(FOREIGN, in_service=True, node_exists=node_exists, problem=problem)
    in_service = node_exists or not cluster.reachable
    if state == "complete":
        return HostClass(MEMBER, in_service=in_service, node_exists=node_exists)
    if not ours:
        problem = (
            "found an unfinished kubeadm init or join that no record of Bedplate explains; wanted none, or a member. "
            "Next: finish it by hand, or 'kubeadm reset' if nothing on the host is needed"
        )
        return HostClass(PARTIAL, in_service=in_service, node_exists=node_exists, problem=problem)
    unfinished_init = init_host and not cluster.exists
    return HostClass(PARTIAL, in_service=in_service and not unfinished_init, node_exists=node_exists)


def _fresh(name: str, cluster: Cluster, *, control_plane: bool, init_host: bool, node_exists: bool) -> HostClass:
    problem = None
    if name in cluster.ready_names:
        problem = (
            f"found a Node {name} that is Ready while this host has no kubelet state; wanted the name for this host alone. "
            "Next: give one of the two machines another name, or delete the Node if its machine is gone"
        )
    elif init_host and cluster.unknown:
        problem = (
            f"found no cluster, but could not ask {', '.join(cluster.unknown)}; wanted to be sure before initialising a second "
            "one. Next: bring these hosts up, or take them out of the group control_plane"
        )
    elif cluster.exists and not cluster.reachable:
        problem = (
            f"found a cluster whose API does not answer (kubeconfig of {cluster.source}); wanted it to answer before joining. "
            "Next: look at kube-apiserver and etcd on the control-plane hosts"
        )
    elif not cluster.exists and cluster.unknown and not control_plane:
        problem = (
            f"could not ask {', '.join(cluster.unknown)} for the cluster; wanted one that answers before joining. "
            "Next: bring these control-plane hosts up"
        )
    return HostClass(FRESH, in_service=False, node_exists=node_exists, problem=problem)


def slim_node(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return what runs need of a Node object: labels, taints, annotations, ready, internal_ip, unschedulable."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    conditions = {c["type"]: c["status"] for c in status.get("conditions") or []}
    addresses = [a["address"] for a in status.get("addresses") or [] if a["type"] == "InternalIP"]
    return {
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
        "taints": spec.get("taints") or [],
        "unschedulable": bool(spec.get("unschedulable")),
        "ready": conditions.get("Ready") == "True",
        "internal_ip": addresses[0] if addresses else None,
    }
