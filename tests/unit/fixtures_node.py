# SPDX-License-Identifier: Apache-2.0
"""Hosts and desired states of the components container_runtime and kubelet."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils import (
    container_runtime,
    containerd_config,
    kubeadm,
    kubelet,
    kubelet_config,
)
from ansible_collections.bedplate.metal.plugins.module_utils.container_runtime import ContainerRuntime
from ansible_collections.bedplate.metal.plugins.module_utils.kubelet import Kubelet
from ansible_collections.bedplate.metal.plugins.module_utils.registry_hosts import parse_registries
from fixtures_host import CA, debian
from interrupted import Case
from simulated_node import equip, install_containerd

from recorded_host import Package, RecordedHost

DISABLES_CRI = '# from the package\ndisabled_plugins = ["cri"]\n'
VERSION = "1.36.3-1.1"
PACKAGES: dict[str, str | None] = {
    "kubelet": VERSION,
    "kubeadm": VERSION,
    "kubectl": VERSION,
    "cri-tools": None,
    "kubernetes-cni": None,
}
CPU_STATE = "/var/lib/kubelet/cpu_manager_state"


def runtime_desired(**options: Any) -> container_runtime.Desired:
    mirror = {"url": "https://mirror:5000", "ca": CA, "username": "user", "password": "hunter2"}
    registries = [{"host": "registry.k8s.io", "mirrors": [mirror]}]
    settings = containerd_config.Settings("registry.k8s.io/pause:3.10.2", registries=True, **options.pop("settings", {}))
    proxy = {"http": "http://proxy:3128", "no_proxy": ["10.0.0.0/8"]}
    values: dict[str, Any] = {"proxy": proxy, "memlock": "infinity", **options}
    return container_runtime.Desired(
        package="containerd",
        packages={"containerd": "2.4.2-1", "runc": None},
        settings=settings,
        registries=parse_registries(registries),
        lock_timeout_seconds=0,
        **values,
    )


def runtime_host(main: str | None = DISABLES_CRI) -> RecordedHost:
    """A fresh host, and a repository whose package brings this configuration."""
    host = equip(debian())
    host.repository.update({"containerd": ["1.7.24", "2.4.2-1"], "runc": ["1.1.5"]})
    host.installs["containerd"] = install_containerd(main)
    return host


def installed_runtime(main: str | None = "version = 2\n") -> RecordedHost:
    """A host on which somebody else set containerd up."""
    host = runtime_host(main)
    host.packages.update({"containerd": Package("2.4.2-1"), "runc": Package("1.1.5")})
    host.installs["containerd"](host)
    return host


def kubelet_desired(**options: Any) -> kubelet.Desired:
    values: dict[str, Any] = {
        "packages": PACKAGES,
        "node_ip": "10.0.0.11",
        "endpoint_name": "api.example.test",
        "endpoint_address": "10.0.0.10",
        "dropins": {"20-site.conf": {"maxPods": 110}},
        **options,
    }
    return kubelet.Desired(lock_timeout_seconds=0, **values)


def kubelet_host() -> RecordedHost:
    """A fresh host."""
    host = equip(debian(**{"/etc/hosts": "127.0.0.1 localhost\n", "/etc/resolv.conf": "nameserver 10.0.0.2\n"}))
    host.repository.update({name: ["1.36.2-1.1", VERSION] for name in ("kubelet", "kubeadm", "kubectl")})
    host.repository.update({"cri-tools": ["1.37.0-1.1"], "kubernetes-cni": ["1.10.0-1.1"], "socat": ["1.8"]})
    return host


def joined_host(fragment: dict[str, Any] | None = None) -> RecordedHost:
    """A node that has joined with our settings, and runs."""
    host = kubelet_host()
    host.packages.update({name: Package(version or "1.37.0-1.1", held=True) for name, version in PACKAGES.items()})
    host.files.update(
        {
            kubeadm.KUBELET_CONFIG: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
            kubeadm.KUBELET_CONF: "kind: Config\n",
            kubeadm.CA_CERTIFICATE: CA,
            f"{kubelet_config.DIRECTORY}/10-host.conf": kubelet_config.render({}),
            f"{kubelet_config.DIRECTORY}/20-site.conf": kubelet_config.render({"maxPods": 110, **(fragment or {})}),
            kubelet.FLAGS: kubelet_desired().flags(),
            kubelet.UNIT_DROPIN: kubelet_desired().unit_dropin(),
            kubelet.CRICTL: kubelet_desired().crictl(),
            "/etc/hosts": "# BEGIN bedplate.metal.kubelet\n10.0.0.10 api.example.test\n# END bedplate.metal.kubelet\n",
            "/etc/systemd/system/multi-user.target.wants/kubelet.service": "",
            CPU_STATE: json.dumps({"policyName": (fragment or {}).get("cpuManagerPolicy", "none")}),
            "/var/lib/kubelet/memory_manager_state": json.dumps({"policyName": "None"}),
        }
    )
    host.services["kubelet"] = "active"
    return host


STATIC = {"20-site.conf": {"maxPods": 110}, "30-pool.conf": {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0-3"}}


def changed_kubelet() -> kubelet.Desired:
    """What changes on the joined node: pinned CPUs and a proxy."""
    return kubelet_desired(dropins=STATIC, proxy={"http": "http://proxy:3128"})


def moving_host() -> RecordedHost:
    """The joined node, and a cluster whose API answers at another address too."""
    host = joined_host()
    host.files["/run/api/10.0.0.99"] = ""
    return host


CASES = [
    Case("container_runtime on a fresh host", ContainerRuntime, runtime_desired, runtime_host),
    Case("container_runtime without a packaged file", ContainerRuntime, runtime_desired, lambda: runtime_host(None)),
    Case("container_runtime over another's", ContainerRuntime, runtime_desired, installed_runtime),
    Case("container_runtime that disables CRI", ContainerRuntime, runtime_desired, lambda: installed_runtime(DISABLES_CRI)),
    Case("kubelet on a fresh host", Kubelet, kubelet_desired, kubelet_host),
    Case(
        "kubelet of a node that changes",
        Kubelet,
        changed_kubelet,
        joined_host,
    ),
    Case("kubelet of a node whose endpoint moves", Kubelet, lambda: kubelet_desired(endpoint_address="10.0.0.99"), moving_host),
]
