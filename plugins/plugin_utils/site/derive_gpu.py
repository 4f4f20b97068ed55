# SPDX-License-Identifier: Apache-2.0
"""The GPU path out of validated site data: driver and sharing of each host, and the objects that show GPUs to Kubernetes. Pure.

A node's exposure labels decide what runs on it: DaemonSets select by them, so that a pool may change its way node by node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.facts import resolved_modules
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.mig import advertised
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.table import Table
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate import TAINT
from ansible_collections.bedplate.metal.plugins.plugin_utils.pool_nodes import EXPOSURE

from .derive_fabric import rdma_resource
from .gather import Gathered
from .gpu_machines import NVIDIA_DRA_DRIVER, distribution_of, has_switches, memory_gb, needs_subnet_manager
from .model import Site
from .model_pool import GpuPool
from .versions import load_versions

EXPOSURE_CONFIG = "pool.bedplate.dev/exposure-config"
"""Label: which configuration the device plugin by itself has on the node."""
OPERATOR_CONFIG = "nvidia.com/device-plugin.config"
OPERANDS = "nvidia.com/gpu.deploy.operands"
"""Labels of NVIDIA's operator: the device plugin's configuration on a node; "false" keeps its operands off a node."""
FEATURES = "feature.node.kubernetes.io"
CONFIG_MAP = "bedplate-device-plugin"
CDI_HOOK = "/usr/bin/nvidia-cdi-hook"
"""Where package nvidia-container-toolkit-base puts it."""
RUNTIME_HANDLER = {"nvidia": "/usr/bin/nvidia-container-runtime"}
WHOLE = "whole"
WHOLE_CONFIG: dict[str, Any] = {WHOLE: {"version": "v1", "flags": {"migStrategy": "none"}}}


class GpuDerivation:
    """Derives the GPU path's role variables and labels."""

    def __init__(self, found: Gathered, site: Site, table: Table, taints: Mapping[str, list[dict[str, str]]]) -> None:
        """Settle what all hosts share. taints: of the nodes, by pool."""
        self.found, self.site, self.table, self.taints = found, site, table, taints
        self.specs = {name: pool.spec for name, pool in found.pools.items() if pool.spec is not None}

    def pools(self, exposure: str) -> dict[str, GpuPool]:
        """Return the pools that show their GPUs in a way."""
        return {name: spec for name, spec in self.specs.items() if spec.shown_by == exposure}

    def shared_roles(self) -> dict[str, dict[str, Any]]:
        """Return options of the roles that work through the Kubernetes API."""
        return {
            "gpu_operator": self._operator(),
            "device_plugin": self._device_plugin(),
            "dra": self._dra(),
            "gpu_catalog": {"pools": self.catalog()},
        }

    def host_roles(self, spec: GpuPool | None) -> dict[str, dict[str, Any]]:
        """Return options of the GPU roles of a host; none where Bedplate installs no driver."""
        if spec is None or spec.driver is None:
            return {}
        lock_timeout = self.site.preflight.apt_lock_timeout_seconds
        model = self.table.accelerators.get(spec.accelerator)
        modules = resolved_modules(spec.driver.modules, model)
        switches = has_switches(spec.topology, spec.gpus_per_node, model)
        subnet_manager = switches and needs_subnet_manager(model)
        rdma = spec.rdma
        return {
            "nvidia_driver": {
                "version": spec.driver.version,
                "modules": modules,
                "accelerators": [spec.accelerator],
                "source": spec.driver.source,
                "build": spec.driver.build,
                "fabric_manager": "required" if switches else "auto",
                "nvlsm": subnet_manager,
                "gpudirect": ("dma-buf" if modules == "open" else "peermem") if rdma else "none",
                "expected": {
                    "count": spec.gpus_per_node,
                    "model": spec.accelerator.partition("-")[0].upper(),
                    "memory_gb": memory_gb(spec.accelerator),
                    "mixed": spec.mixed_gpus,
                    # Those of the fifth generation of NVLink are no PCI devices of the host's.
                    "switches": switches and not subnet_manager,
                },
                "lock_timeout_seconds": lock_timeout,
            },
            "gpu_sharing": {"mig": spec.mig or {}},
            "nvidia_container_toolkit": {
                "version": f"{load_versions().of('nvidia-container-toolkit')}-1",
                # Every way of ours passes devices by CDI names or claims, and what opens all GPUs (plugin, exporter, the
                # operator's operands: its assets/state-*) is privileged. A way of the site's own may need the variable.
                "visible_devices_envvar": spec.shown_by == "none",
                "lock_timeout_seconds": lock_timeout,
            },
        }

    def runtime(self, spec: GpuPool | None) -> dict[str, Any]:
        """Return what the container runtime of a host needs for GPUs."""
        driven = spec is not None and spec.driver is not None
        return {"cdi": driven, "runtime_handlers": RUNTIME_HANDLER if driven else {}}

    def exposure_labels(self, spec: GpuPool | None) -> dict[str, str]:
        """Return the labels that decide what shows the GPUs of a node; none where nothing of Bedplate's could come to them."""
        if spec is None or (spec.driver is None and spec.shown_by == "none" and not self.pools("operator")):
            return {}
        labels = {EXPOSURE: spec.shown_by}
        if spec.shown_by == "device-plugin":
            labels[EXPOSURE_CONFIG] = config_name(spec)
        if spec.shown_by == "operator":
            # On every node, also of a site without time-slicing: else its first pool would change the nodes of all others.
            labels[OPERATOR_CONFIG] = config_name(spec)
            if not self.site.gpu.operator.node_feature_discovery:
                labels.update(feature_labels(distribution_of(self.found, spec)))
        else:
            labels[OPERANDS] = "false"
        return labels

    def resources(self, spec: GpuPool | None) -> dict[str, int]:
        """Return what a healthy node of the pool advertises; empty where no device plugin does."""
        if spec is None or spec.shown_by not in ("operator", "device-plugin"):
            return {}
        return advertised(
            spec.gpus_per_node,
            sharing=spec.sharing,
            geometry=spec.mig,
            strategy=spec.mig_strategy,
            slices=spec.time_slices,
        )

    def catalog(self) -> dict[str, dict[str, Any]]:
        """Return by pool what a team asks for to run there."""
        return {name: self._entry(name, spec) for name, spec in self.specs.items() if spec.shown_by != "none"}

    def _entry(self, name: str, spec: GpuPool) -> dict[str, Any]:
        tolerations = tolerate(self.taints[name])
        entry: dict[str, Any] = {
            "accelerator": spec.accelerator,
            "gpus_per_node": spec.gpus_per_node,
            "nodes": len(self.found.pools[name].hosts),
            "sharing": spec.sharing,
            "workload": spec.workload,
            "node_selector": {"pool.bedplate.dev/name": name},
            "tolerations": tolerations,
        }
        optional = {"driver": spec.driver and spec.driver.version, "rdma_resource": rdma_resource(self.found, name, spec)}
        entry.update({key: value for key, value in optional.items() if value})
        if spec.shown_by == "dra":
            return {**entry, "device_class": self.site.gpu.dra.driver}
        resources = self.resources(spec)
        most = dict.fromkeys(resources, 1) if spec.sharing == "time-slicing" else resources
        return {**entry, "resources_per_node": resources, "most_per_container": most}

    def tolerations(self, pools: Iterable[str]) -> list[dict[str, str]]:
        """Return tolerations of all taints of pools, and of nodes that are not accepted yet."""
        taints = [taint for name in pools for taint in self.taints[name]]
        unaccepted = {"key": TAINT, "effect": "NoSchedule"}
        found = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, *tolerate([*taints, unaccepted])]
        return [toleration for index, toleration in enumerate(found) if toleration not in found[:index]]

    def _operator(self) -> dict[str, Any]:
        pools, settings = self.pools("operator"), self.site.gpu.operator
        default = self.table.default_operator(self.site.cluster.kubernetes_version).version
        return {
            "enabled": bool(pools),
            "namespace": settings.namespace,
            "chart": settings.chart,
            "repository": settings.repository or "",
            "version": settings.version or default,
            "values": merged(self._operator_values(pools), settings.values),
            "configs": {**WHOLE_CONFIG, **configs(pools.values())},
        }

    def _operator_values(self, pools: Mapping[str, GpuPool]) -> dict[str, Any]:
        nfd = self.site.gpu.operator.node_feature_discovery
        tolerations = self.tolerations(pools)
        strategies = [spec.mig_strategy for spec in pools.values() if spec.sharing == "mig"]
        environment = {"DEVICE_LIST_STRATEGY": "cdi-cri", "NVIDIA_CDI_HOOK_PATH": CDI_HOOK}
        plugin: dict[str, Any] = {
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "config": {"create": False, "name": CONFIG_MAP, "default": WHOLE},
        }
        values: dict[str, Any] = {
            "driver": {"enabled": False},
            "toolkit": {"enabled": False},
            "cdi": {"enabled": True},
            "nfd": {"enabled": nfd},
            "operator": {"runtimeClass": "nvidia", "upgradeCRD": False, "cleanupCRD": False},
            "daemonsets": {"tolerations": tolerations},
            "mig": {"strategy": strategies[0] if strategies else "none"},
            "migManager": {"enabled": False},
            "devicePlugin": plugin,
            # No workload of the operator's own on a GPU: the gate judges nodes. (An empty list becomes null in the chart, and the
            # definition of its resource refuses.)
            "validator": {"plugin": {"env": [{"name": "WITH_WORKLOAD", "value": "false"}]}},
            "dcgmExporter": {"enabled": True},
            "sandboxWorkloads": {"enabled": False},
        }
        if nfd:
            values["node-feature-discovery"] = {"worker": {"tolerations": tolerations}}
        return values

    def _device_plugin(self) -> dict[str, Any]:
        pools, settings = self.pools("device-plugin"), self.site.gpu.device_plugin
        return {
            "namespace": settings.namespace,
            "configs": configs(pools.values()),
            "tolerations": self.tolerations(pools),
            "feature_discovery": settings.feature_discovery,
        }

    def _dra(self) -> dict[str, Any]:
        pools, settings = self.pools("dra"), self.site.gpu.dra
        terms = [{"matchExpressions": [{"key": EXPOSURE, "operator": "In", "values": ["dra"]}]}]
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
        values: dict[str, Any] = {"kubeletPlugin": {"affinity": affinity, "tolerations": self.tolerations(pools)}}
        if settings.driver == NVIDIA_DRA_DRIVER:
            values.update(
                nvidiaDriverRoot="/", gpuResourcesEnabledOverride=True, resources={"computeDomains": {"enabled": False}}
            )
        return {
            "enabled": bool(pools),
            "namespace": settings.namespace,
            "chart": settings.chart,
            "repository": settings.repository or "",
            "version": settings.version or "",
            "values": merged(values, settings.values),
        }


def config_name(spec: GpuPool) -> str:
    """Return the name of the device plugin's configuration for a pool; equal names mean equal content."""
    if spec.sharing == "mig":
        return f"mig-{spec.mig_strategy}"
    return f"time-slices-{spec.time_slices}" if spec.sharing == "time-slicing" else WHOLE


def configs(specs: Iterable[GpuPool]) -> dict[str, dict[str, Any]]:
    """Return the device plugin's configurations (its file format v1) by name."""
    found: dict[str, dict[str, Any]] = {}
    for spec in specs:
        strategy = spec.mig_strategy if spec.sharing == "mig" else "none"
        config: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": strategy}}
        if spec.sharing == "time-slicing":
            # Two slices may be of one GPU: who asks for two would get no more than one.
            resources = [{"name": "nvidia.com/gpu", "replicas": spec.time_slices}]
            config["sharing"] = {"timeSlicing": {"failRequestsGreaterThanOne": True, "resources": resources}}
        found[config_name(spec)] = config
    return dict(sorted(found.items()))


def feature_labels(distribution: str | None) -> dict[str, str]:
    """Return the labels of node feature discovery that NVIDIA's operator cannot do without."""
    labels = {f"{FEATURES}/pci-10de.present": "true"}
    if distribution:
        name, _dash, version = distribution.partition("-")
        labels.update({f"{FEATURES}/system-os_release.ID": name, f"{FEATURES}/system-os_release.VERSION_ID": version})
    return labels


def tolerate(taints: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """Return tolerations of taints."""
    found = []
    for taint in taints:
        value = {"operator": "Equal", "value": taint["value"]} if taint.get("value") else {"operator": "Exists"}
        found.append({"key": taint["key"], **value, "effect": taint["effect"]})
    return found


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return chart values with others laid over them; mappings are joined, anything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result
