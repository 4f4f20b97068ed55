# SPDX-License-Identifier: Apache-2.0
"""What every host should be, as role variables, from validated site data. Pure; holds no secrets.

Credentials of registries stay in the inventory: the role variable joins them when it is used
(filter ``bedplate.metal.registry_credentials``).
"""

from __future__ import annotations

import ipaddress
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.audit_policy import DEFAULT_RULES
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.table import load_table
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate import TAINT

from . import kubeadm_config
from .check_network import node_ip
from .check_nvme import nvme_role
from .derive_fabric import fabric_roles, rdma_pools
from .derive_gpu import GpuDerivation
from .derive_kernel import kernel_role
from .derive_storage import StorageDerivation, storage_check
from .gather import Gathered, SiteHost
from .kubelet_config import pool_fragment
from .model import Site
from .model_pool import GpuPool
from .versions import Versions

POOL_PREFIX = "pool.bedplate.dev"
TOPOLOGY_PREFIX = "topology.bedplate.dev"
RESTRICTED_PREFIX = "pool.node-restriction.kubernetes.io"
"""Labels a kubelet cannot set on its own node (admission plugin NodeRestriction)."""
LABELLED_SPEC = ("accelerator", "topology", "fabric", "workload", "sharing")
UNACCEPTED = {"key": TAINT, "effect": "NoSchedule"}
CONTROL_PLANE_TAINT = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


class Derivation:
    """Derives the fact ``bedplate`` from a site without errors."""

    def __init__(self, found: Gathered, versions: Versions) -> None:
        """Settle once what all hosts share."""
        self.found = found
        self.site: Site = found.site()
        self.versions = versions
        self.node_ranges = [ipaddress.ip_network(cidr) for cidr in self.site.network.node_cidrs]
        self.control_planes = [host.name for host in found.control_planes()]
        first = found.hosts[self.control_planes[0]]
        self.endpoint: dict[str, Any] = {
            "name": self.site.cluster.endpoint.name,
            "port": self.site.cluster.endpoint.port,
            "address": self.site.cluster.endpoint.address or self._address(first),
        }
        self.configuration = kubeadm_config.cluster_configuration(self.site, versions, self.endpoint["address"])
        self.kubelet = kubeadm_config.kubelet_configuration(self.site)
        self.kube_proxy = kubeadm_config.kube_proxy_configuration(self.site)
        self.proxy = self._proxy()
        taints = {name: self._pool_taints(name, pool.spec) for name, pool in found.pools.items()}
        self.gpu = GpuDerivation(found, self.site, load_table(), taints)
        rdma = {name: {**pool, "tolerations": self.gpu.tolerations([name])} for name, pool in rdma_pools(found).items()}
        self.storage = StorageDerivation(found, self.site.preflight.apt_lock_timeout_seconds)
        self.shared: dict[str, dict[str, Any]] = {
            **self._shared_roles(),
            **self.gpu.shared_roles(),
            "rdma_exposure": {"pools": rdma},
            "storage_class": {"shares": self.storage.volumes()},
        }

    def fact(self) -> dict[str, Any]:
        """Return the fact: cluster, pools, hosts, and what check_storage does. Storage servers are hosts that are no nodes."""
        servers = {host.name: self.storage.server(host, self.shared) for host in self.found.servers.values()}
        return {
            "cluster": self._cluster(),
            "pools": {name: self._pool(name) for name in self.found.pools},
            "hosts": {**{host.name: self._host(host) for host in self.found.hosts.values()}, **servers},
            "storage_check": storage_check(self.site.storage_check),
        }

    def _cluster(self) -> dict[str, Any]:
        cluster, network = self.site.cluster, self.site.network
        return {
            "name": cluster.name,
            "domain": cluster.domain,
            "endpoint": self.endpoint,
            "kubernetes_version": cluster.kubernetes_version,
            "image_registry": cluster.image_registry,
            "dns_address": kubeadm_config.dns_address(self.site),
            "control_planes": self.control_planes,
            "node_cidrs": network.node_cidrs,
            "pod_cidrs": network.pod_cidrs,
            "service_cidrs": network.service_cidrs,
        }

    def _pool(self, name: str) -> dict[str, Any]:
        pool = self.found.pools[name]
        spec = pool.spec.model_dump(mode="json") if pool.spec else {}
        return {"hosts": pool.hosts, "spec": spec, "taints": self._pool_taints(name, pool.spec)}

    def _pool_taints(self, name: str, spec: GpuPool | None) -> list[dict[str, str]]:
        if spec is None:
            return []
        if spec.taints is None:
            return [{"key": f"{POOL_PREFIX}/name", "value": name, "effect": "NoSchedule"}]
        return [taint.model_dump(exclude_none=True) for taint in spec.taints]

    def _address(self, host: SiteHost) -> str | None:
        return node_ip(host, self.node_ranges)

    def _host(self, host: SiteHost) -> dict[str, Any]:
        spec = self.found.pools[host.pool].spec if host.pool in self.found.pools else None
        control_plane = host.kind == "control-plane"
        taints = self._pool_taints(host.pool, spec)
        if control_plane and not self.site.cluster.control_plane_schedulable:
            taints = [CONTROL_PLANE_TAINT, *taints]
        labels = self._labels(host, spec)
        return {
            "pool": host.pool,
            "kind": host.kind,
            "rack": host.data.rack,
            "block": host.data.topology_block,
            "node_ip": self._address(host),
            "labels": labels,
            "node_restriction_labels": {f"{RESTRICTED_PREFIX}/name": host.pool},
            "exposure_labels": self.gpu.exposure_labels(spec),
            "gpus": {"declared": spec.gpus_per_node if spec and spec.driver else 0, "resources": self.gpu.resources(spec)},
            "taints": taints,
            "places": self.storage.places(host, spec),
            "roles": self._roles(host, spec, labels, [*taints, UNACCEPTED]),
        }

    def _labels(self, host: SiteHost, spec: GpuPool | None) -> dict[str, str]:
        labels = {f"{POOL_PREFIX}/name": host.pool}
        if spec is not None:
            labels.update({f"{POOL_PREFIX}/{key}": str(getattr(spec, key)) for key in LABELLED_SPEC})
        places = {"rack": host.data.rack, "block": host.data.topology_block}
        return {**labels, **{f"{TOPOLOGY_PREFIX}/{key}": value for key, value in places.items() if value is not None}}

    def _roles(
        self, host: SiteHost, spec: GpuPool | None, labels: dict[str, str], taints: list[dict[str, str]]
    ) -> dict[str, dict[str, Any]]:
        address = self._address(host)
        ignore = self.site.cluster.ignore_preflight_errors
        roles = {name: dict(options) for name, options in self.shared.items()}
        roles["preflight"].update(kind=host.kind, node_ip=address or "")
        memlock = self.site.container_runtime.rdma_memlock if spec and spec.rdma else ""
        roles["container_runtime"].update(memlock=memlock, **self.gpu.runtime(spec))
        ipv6 = any(ipaddress.ip_network(cidr).version == 6 for cidr in self.site.network.pod_cidrs)
        roles["kernel"] = kernel_role(self.site, spec, ipv6)
        roles.update(self.gpu.host_roles(spec))
        if (volumes := nvme_role(host, self.found.pools.get(host.pool))) is not None:
            roles["nvme"] = {**volumes, "lock_timeout_seconds": self.site.preflight.apt_lock_timeout_seconds}
        roles.update(fabric_roles(host, spec, self.site))
        roles.update(self.storage.host_roles(host))
        addresses = [a for a in (address, host.data.node_ip_secondary) if a]
        roles["kubelet"].update(node_ip=",".join(addresses), dropins=self._dropins(spec))
        if host.kind == "control-plane":
            first = host.name == self.control_planes[0]
            roles["control_plane"].update(
                mode="init" if first else "join",
                node_name=host.name,
                init=kubeadm_config.init_configuration(host.name, address or "", taints, labels, ignore),
            )
            del roles["worker"]
        else:
            roles["worker"].update(node_name=host.name, labels=labels, taints=taints, ignore_preflight_errors=ignore)
            del roles["control_plane"]
        return roles

    def _dropins(self, spec: GpuPool | None) -> dict[str, dict[str, Any]]:
        """Return drop-ins by file name; kubelet reads them in the order of their names."""
        dropins = {"20-site.conf": self.site.kubelet.config}
        if spec is not None:
            dropins["30-pool.conf"] = pool_fragment(spec, self.site.kubelet.config)
        return {name: fragment for name, fragment in dropins.items() if fragment}

    def _proxy(self) -> dict[str, Any]:
        """Return the hosts' proxy, with everything of the cluster reached directly; empty without a proxy."""
        proxy, cluster, network = self.site.network.proxy, self.site.cluster, self.site.network
        if proxy is None:
            return {}
        direct = [
            *("localhost", "127.0.0.1", "::1"),
            *network.pod_cidrs,
            *network.service_cidrs,
            *network.node_cidrs,
            cluster.endpoint.name,
            *([self.endpoint["address"]] if self.endpoint["address"] else []),
            *(cluster.domain, f".{cluster.domain}", ".svc"),
            *proxy.no_proxy,
        ]
        return {"http": proxy.http, "https": proxy.https, "no_proxy": list(dict.fromkeys(map(str, direct)))}

    def _shared_roles(self) -> dict[str, dict[str, Any]]:
        """Return role options that are alike on all hosts."""
        site, cluster, network, versions = self.site, self.site.cluster, self.site.network, self.versions
        revision = site.packages.kubernetes_revision
        runtime, lock_timeout = site.container_runtime, site.preflight.apt_lock_timeout_seconds
        registries = [r.model_dump(exclude={"mirrors": {"__all__": {"username", "password"}}}) for r in site.registries]
        uris = [uri for repository in site.packages.repositories for uri in repository.uris]
        mirrors = [mirror.url for registry in site.registries for mirror in registry.mirrors]
        return {
            "preflight": {
                "requirements": site.preflight.model_dump(exclude={"apt_lock_timeout_seconds"}),
                "node_cidrs": network.node_cidrs,
                "endpoint": self.endpoint,
                "time": site.time.model_dump(),
                "apt_lock_timeout_seconds": lock_timeout,
                "depot_uris": [] if self.proxy else list(dict.fromkeys([*uris, *mirrors])),
            },
            "repositories": {
                "apt": [repository.model_dump() for repository in site.packages.repositories],
                "exclusive": site.packages.exclusive,
                "ca": [authority.model_dump() for authority in site.packages.authorities],
                "proxy": self.proxy,
                "lock_timeout_seconds": lock_timeout,
            },
            "container_runtime": {
                "package": runtime.package,
                "version": runtime.version or "",
                "runc_package": runtime.runc_package or "",
                "sandbox_image": versions.image("pause", registry=cluster.image_registry),
                "registries": registries,
                "proxy": self.proxy,
                "restrict_oom_score_adj": runtime.restrict_oom_score_adj,
                "extra_config": runtime.extra_config,
                "lock_timeout_seconds": lock_timeout,
            },
            "kubelet": {
                "version": f"{cluster.kubernetes_version}-{revision}",
                "endpoint": self.endpoint,
                "proxy": self.proxy,
                "lock_timeout_seconds": lock_timeout,
            },
            "control_plane": {
                "cluster": self.configuration,
                "kubelet_config": self.kubelet,
                "kube_proxy_config": self.kube_proxy,
                "audit_policy": {"rules": cluster.audit.rules if cluster.audit.rules is not None else DEFAULT_RULES},
                "pod_security": cluster.pod_security.model_dump(),
            },
            "worker": {"endpoint": kubeadm_config.endpoint(site)},
            "cni": {
                "provider": network.cni,
                "network_policy": network.network_policy,
                "pod_cidrs": network.pod_cidrs,
                "endpoint": {"name": self.endpoint["name"], "port": self.endpoint["port"]},
                "flannel_image": versions.image("flannel"),
                "flannel_plugin_image": versions.image("flannel-cni-plugin"),
                "kube_network_policies_image": versions.image("kube-network-policies", registry=cluster.image_registry),
            },
            "gate": {
                "dns_domain": cluster.domain,
                "timeout_seconds": site.gate.timeout_seconds,
                "image": versions.image("agnhost", registry=cluster.image_registry),
            },
        }


def derive(found: Gathered, versions: Versions) -> dict[str, Any]:
    """Return the fact ``bedplate`` of a site without errors."""
    return Derivation(found, versions).fact()
