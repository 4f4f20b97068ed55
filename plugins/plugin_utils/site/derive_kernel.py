# SPDX-License-Identifier: Apache-2.0
"""Options of the kernel role: the section kernel, with the pool's words on top. Pure."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.kernel_command_line import REPEATED, key

from .model import Site
from .model_kernel import KernelSettings
from .model_pool import GpuPool

MODULES = ("overlay", "br_netfilter")
SYSCTL: dict[str, int] = {
    "net.bridge.bridge-nf-call-iptables": 1,
    "net.bridge.bridge-nf-call-ip6tables": 1,
    "net.ipv4.ip_forward": 1,
}
SYSCTL_IPV6: dict[str, int] = {"net.ipv6.conf.all.forwarding": 1}
IOMMU: dict[str, tuple[str, ...]] = {
    "passthrough": ("intel_iommu=on", "iommu=pt"),
    "translated": ("intel_iommu=on", "iommu=nopt"),
    "disabled": ("intel_iommu=off", "amd_iommu=off", "iommu=off"),
}
"""Parameters of kernel-parameters.txt: AMD's IOMMU is on by itself, Intel's by how the kernel was built; iommu= is for both."""


def merged(site: KernelSettings, pool: KernelSettings | None) -> dict[str, Any]:
    """Return the settings of a pool's hosts: lists one after another, mappings by key, else the pool's word where it has one."""
    result: dict[str, Any] = {name: getattr(site, name) for name in KernelSettings.model_fields}
    if pool is None:
        return result
    if pool.package is not None:  # a version is that of a package
        result["version"] = None
    for name, other in (("modules", pool.blacklist), ("blacklist", pool.modules)):
        result[name] = [module for module in result[name] if module not in other]
    for name in pool.model_fields_set:
        value, found = getattr(pool, name), result[name]
        if isinstance(value, list):
            result[name] = list(dict.fromkeys([*found, *value]))
        elif isinstance(value, dict):
            result[name] = {**found, **value}
        elif value is not None:
            result[name] = value
    return result


def command_line(site: KernelSettings, pool: KernelSettings | None) -> list[str]:
    """Return the parameters: of two with one name the later counts, the pool's last; huge pages in the kernel's own order."""
    found: dict[str, str] = {}
    for settings in (site, pool) if pool else (site,):
        parameters = [*IOMMU.get(settings.iommu or "", ()), *settings.command_line]
        found.update({p if key(p) in REPEATED else key(p): p for p in parameters})
    pages = merged(site, pool)["hugepages"].get("1G")
    return [*found.values(), *(("hugepagesz=1G", f"hugepages={pages}") if pages else ())]


def kernel_role(site: Site, spec: GpuPool | None, ipv6: bool) -> dict[str, Any]:
    """Return the options of the kernel role of a host in a pool (None for others); ipv6: pods have such addresses."""
    settings = merged(site.kernel, spec.kernel if spec else None)
    sysctl = {**SYSCTL, **(SYSCTL_IPV6 if ipv6 else {})}
    if settings["numa_balancing"] is not None:
        sysctl["kernel.numa_balancing"] = int(settings["numa_balancing"])
    if "2M" in settings["hugepages"]:
        sysctl["vm.nr_hugepages"] = settings["hugepages"]["2M"]
    return {
        "modules": list(dict.fromkeys([*MODULES, *settings["modules"]])),
        "sysctl": {key: str(value) for key, value in {**sysctl, **settings["sysctl"]}.items()},
        "swap": site.kernel.swap,
        "limits": settings["limits"],
        "packages": site.kernel.packages,
        "package": settings["package"] or "",
        "version": settings["version"] or "",
        "headers": bool(spec and spec.driver and spec.driver.build == "dkms"),
        "command_line": command_line(site.kernel, spec.kernel if spec else None),
        "blacklist": settings["blacklist"],
        "cpu_governor": settings["cpu_governor"] or "",
        "transparent_hugepages": settings["transparent_hugepages"] or "",
        "disable_acs": bool(settings["disable_acs"]),
        "time_servers": site.time.servers if site.time.service_required else [],
        "journal_max_size": site.kernel.journal_max_size or "",
        "lock_timeout_seconds": site.preflight.apt_lock_timeout_seconds,
    }
