# SPDX-License-Identifier: Apache-2.0
"""Site data of the cluster itself: name, endpoint, network, Kubernetes' own components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from .types import DnsName, EndpointName, FullVersion, IpAddress, IpRange, Label, Port, Shape, Url, Word
from .types_host import CertificateName, Direct, ImageRegistry

PodSecurityLevel = Literal["privileged", "baseline", "restricted"]


class Endpoint(Shape):
    """How the Kubernetes API is reached, by nodes and by people."""

    name: EndpointName
    """DNS name of the API; it never changes, so that a virtual IP or a load balancer can come later."""
    port: Port = 6443
    """Port of the API at that name."""
    address: IpAddress | None = None
    """Address behind the name, written to the nodes' hosts file: a load balancer or a virtual IP that you run (Bedplate makes
    none yet), or the one control-plane host. Left out, the first control-plane host's address is used. On a node in service it
    changes only if the cluster's API answers there."""


class Audit(Shape):
    """The API server's audit log, /var/log/kubernetes/audit on control-plane hosts."""

    max_age_days: Annotated[int, Field(ge=1)] = 30
    """Days a rotated log is kept."""
    max_backups: Annotated[int, Field(ge=1)] = 10
    """Number of rotated logs kept."""
    max_size_megabytes: Annotated[int, Field(ge=1)] = 100
    """Size at which the log is rotated."""
    rules: list[dict[str, Any]] | None = None
    """Rules of the audit policy (audit.k8s.io/v1); left out, Bedplate's own: metadata of secrets, bodies of other changes."""


class PodSecurity(Shape):
    """Defaults of Pod Security admission for namespaces without labels of their own."""

    enforce: PodSecurityLevel = "baseline"
    """Level that is refused when not met."""
    audit: PodSecurityLevel = "restricted"
    """Level that is noted in the audit log when not met."""
    warn: PodSecurityLevel = "restricted"
    """Level that users are warned about when not met."""
    exempt_namespaces: list[Label] = Field(default=["kube-system"])
    """Namespaces the defaults do not apply to."""


class Cluster(Shape):
    """The Kubernetes cluster."""

    name: Label
    """Name of the cluster, in kubeconfigs, metrics and reports."""
    domain: DnsName = "cluster.local"
    """DNS domain of Services."""
    kubernetes_version: FullVersion
    """Kubernetes version to deploy, in quotes."""
    endpoint: Endpoint
    """The API's name, port and address."""
    image_registry: ImageRegistry = "registry.k8s.io"
    """Registry (and path) that Kubernetes' own images are named by."""
    control_plane_schedulable: bool = False
    """Whether ordinary pods may run on control-plane hosts."""
    extra_sans: list[CertificateName] = Field(default=[])
    """More names and addresses for the API server's certificate."""
    ignore_preflight_errors: list[Word] = Field(default=[])
    """kubeadm's preflight checks, by its names, that may fail on this site's hosts."""
    audit: Audit = Audit()
    """The API server's audit log."""
    pod_security: PodSecurity = PodSecurity()
    """Defaults of Pod Security admission."""


class Proxy(Shape):
    """The proxy that hosts use to reach package and image sources."""

    http: Url | None = None
    """Proxy for http:// addresses."""
    https: Url | None = None
    """Proxy for https:// addresses."""
    no_proxy: list[Direct] = Field(default=[])
    """More names and ranges reached directly; those of pods, Services, nodes, the endpoint and the cluster's domain are added."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse a section that says nothing."""
        if not self.http and not self.https:
            yield "", "names no proxy: give http, https or both, or leave the section out"


class Network(Shape):
    """Address ranges and the network of pods."""

    node_cidrs: Annotated[list[IpRange], Field(min_length=1)]
    """Ranges the hosts' own addresses come from."""
    pod_cidrs: Annotated[list[IpRange], Field(min_length=1, max_length=2)]
    """Range of pods; two (one IPv4, one IPv6) make the cluster dual-stack, the first is the preferred family."""
    service_cidrs: Annotated[list[IpRange], Field(min_length=1, max_length=2)]
    """Range of Services, of the same families in the same order as pod_cidrs."""
    node_prefix_ipv4: Annotated[int, Field(ge=8, le=30)] = 24
    """Prefix length of the IPv4 range of pods each node gets (24: up to 254 pods)."""
    node_prefix_ipv6: Annotated[int, Field(ge=16, le=126)] = 64
    """Prefix length of the IPv6 range of pods each node gets."""
    cni: Literal["flannel", "cilium", "none"] = "flannel"
    """Network plugin; none leaves it to you."""
    network_policy: Literal["kube-network-policies", "none"] = "kube-network-policies"
    """What enforces NetworkPolicy where the network plugin does not."""
    dns_address: IpAddress | None = None
    """Address of the cluster's DNS Service; left out, the tenth address of the first Service range."""
    proxy: Proxy | None = None
    """Proxy of the hosts."""


class KubeletSettings(Shape):
    """Settings of every kubelet."""

    config: dict[str, Any] = Field(default={})
    """Fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) for all nodes."""


class KubeProxySettings(Shape):
    """Settings of kube-proxy."""

    config: dict[str, Any] = Field(default={})
    """Fields of KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1)."""
