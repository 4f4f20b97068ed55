# SPDX-License-Identifier: Apache-2.0
"""kubeadm's documents from site data: ClusterConfiguration and InitConfiguration v1beta4, kubelet's and kube-proxy's.

The control_plane component adds the arguments and volumes of the files it writes (audit policy, admission, encryption).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.kubeadm import API_PORT, API_VERSION, CRI_SOCKET

from .model import Site
from .types_host import certificate_name
from .versions import UPSTREAM_REGISTRY, Versions

DNS_INDEX = 10
"""kubeadm gives the cluster's DNS the tenth address of the Service range (its function GetDNSIP)."""


def endpoint(site: Site) -> str:
    """Return the API's ``name:port``."""
    return f"{site.cluster.endpoint.name}:{site.cluster.endpoint.port}"


def dns_address(site: Site) -> str:
    """Return the address of the cluster's DNS Service."""
    if site.network.dns_address is not None:
        return site.network.dns_address
    return str(ipaddress.ip_network(site.network.service_cidrs[0])[DNS_INDEX])


def certificate_names(site: Site, endpoint_address: str | None) -> list[str]:
    """Return the API certificate's names beside those kubeadm adds itself: each once, addresses bare and in shortest form."""
    names: list[str] = []
    for text in (site.cluster.endpoint.name, endpoint_address, *site.cluster.extra_sans):
        if not text:
            continue
        name = certificate_name(text)
        if name not in names:
            names.append(name)
    return names


def cluster_configuration(site: Site, versions: Versions, endpoint_address: str | None) -> dict[str, Any]:
    """Return the ClusterConfiguration. It depends on no single host, so that adding one changes nothing for the others."""
    cluster, network = site.cluster, site.network
    dns: dict[str, Any] = {"imageTag": versions.image_tag("coredns")}
    if cluster.image_registry != UPSTREAM_REGISTRY:
        dns["imageRepository"] = f"{cluster.image_registry}/coredns"  # kubeadm drops the path for a registry of one's own
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterConfiguration",
        "clusterName": cluster.name,
        "kubernetesVersion": f"v{cluster.kubernetes_version}",
        "controlPlaneEndpoint": endpoint(site),
        "imageRepository": cluster.image_registry,
        "networking": {
            "dnsDomain": cluster.domain,
            "podSubnet": ",".join(network.pod_cidrs),
            "serviceSubnet": ",".join(network.service_cidrs),
        },
        "apiServer": {
            "certSANs": certificate_names(site, endpoint_address),
            "extraArgs": _arguments(
                {
                    "audit-log-maxage": cluster.audit.max_age_days,
                    "audit-log-maxbackup": cluster.audit.max_backups,
                    "audit-log-maxsize": cluster.audit.max_size_megabytes,
                    "profiling": "false",
                    "tls-min-version": "VersionTLS12",
                }
            ),
        },
        "controllerManager": {"extraArgs": _arguments({**_node_prefixes(site), "profiling": "false"})},
        "scheduler": {"extraArgs": _arguments({"profiling": "false"})},
        "etcd": {"local": {"dataDir": "/var/lib/etcd", "imageTag": versions.image_tag("etcd")}},
        "dns": dns,
    }


def _arguments(values: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in sorted(values.items())]


def _node_prefixes(site: Site) -> dict[str, int]:
    """Return kube-controller-manager's prefix lengths: one flag for one family, one per family for two."""
    lengths = {4: site.network.node_prefix_ipv4, 6: site.network.node_prefix_ipv6}
    families = [ipaddress.ip_network(cidr).version for cidr in site.network.pod_cidrs]
    if len(families) == 1:
        return {"node-cidr-mask-size": lengths[families[0]]}
    return {f"node-cidr-mask-size-ipv{family}": lengths[family] for family in families}


def init_configuration(
    name: str, address: str, taints: Iterable[Mapping[str, str]], labels: Mapping[str, str], ignore: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the parts of the InitConfiguration that belong to one control-plane host; address is bare, also for IPv6."""
    registration: dict[str, Any] = {
        "name": name,
        "criSocket": CRI_SOCKET,
        "imagePullPolicy": "IfNotPresent",
        "imagePullSerial": False,
        "taints": [dict(taint) for taint in taints],
        "ignorePreflightErrors": list(ignore),
    }
    if labels:
        value = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        registration["kubeletExtraArgs"] = [{"name": "node-labels", "value": value}]
    return {
        "apiVersion": API_VERSION,
        "kind": "InitConfiguration",
        "localAPIEndpoint": {"advertiseAddress": address, "bindPort": API_PORT},
        "nodeRegistration": registration,
    }


def kubelet_configuration(site: Site) -> dict[str, Any]:
    """Return the KubeletConfiguration that kubeadm keeps for the whole cluster; the site's fields win."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "systemd",
        "clusterDNS": [dns_address(site)],
        "clusterDomain": site.cluster.domain,
        "rotateCertificates": True,
        "serverTLSBootstrap": False,
        "streamingConnectionIdleTimeout": "1h",
        "tlsMinVersion": "VersionTLS12",
        **site.kubelet.config,
    }


def kube_proxy_configuration(site: Site) -> dict[str, Any]:
    """Return the KubeProxyConfiguration; the site's fields win."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": ",".join(site.network.pod_cidrs),
        **site.kube_proxy.config,
    }
