# SPDX-License-Identifier: Apache-2.0
"""Variables that stand where they are not looked for, or that would win over what the site data say."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

import yaml

from .gather import GPU_NODES, POOL_SPEC, Gathered
from .inventory import ALL, Variable
from .model import SECTIONS
from .model_host import HostData
from .model_pool import GpuPool
from .problem import SiteProblem, suggestion
from .versions import ROOT

POOL_KEYS = frozenset(GpuPool.model_fields) - set(SECTIONS)
SOURCES = {
    "bedplate": "the site data",
    "cni": "network",
    "container_runtime": "container_runtime",
    "control_plane": "cluster",
    "device_plugin": "gpu.device_plugin",
    "dra": "gpu.dra",
    "fabric": "gpu_pool.nics and gpu_pool.rdma_stack, of a host in fabric_addresses, fabric_devices and out_of_band",
    "gate": "gate",
    "gpu_catalog": "gpu_pool of each pool",
    "gpu_operator": "gpu.operator",
    "gpu_sharing": "gpu_pool.mig",
    "kernel": "kernel",
    "kubelet": "kubelet, or gpu_pool.kubelet of a pool",
    "nfs_client": "storage",
    "nfs_server": "storage, of a host in nfs_threads",
    "nvidia_container_toolkit": "gpu_pool.driver and gpu_pool.exposure",
    "nvidia_driver": "gpu_pool.driver",
    "nvme": "gpu_pool.nvme, of a host in nvme_serials and nvme_wipe",
    "preflight": "preflight",
    "rdma_exposure": "gpu_pool.nics",
    "repositories": "packages",
    "storage_class": "storage",
    "worker": "gpu_pool of the pool",
}
"""Where the site data say what a role's variables are derived from, by what their names begin with."""


@cache
def role_variables() -> dict[str, str]:
    """Return the variables that playbooks/group_vars/all.yml sets, each with the place of the site data it comes from."""
    with open(os.path.join(ROOT, "playbooks", "group_vars", "all.yml"), encoding="utf-8") as stream:
        names = list(yaml.safe_load(stream))
    prefixes = sorted(SOURCES, key=len, reverse=True)
    return {name: SOURCES[next(prefix for prefix in prefixes if name.startswith(f"{prefix}_"))] for name in names}


def check_places(found: Gathered) -> None:
    """Add a finding for every variable that stands in the wrong place."""
    inventory = found.inventory
    pool_hosts = {name for name, host in found.hosts.items() if host.pool in found.pools and host.pool != "system"}
    for name, group in inventory.groups.items():
        of_pools = not pool_hosts.isdisjoint(inventory.hosts_of(name))
        for variable in group.variables.values():
            found.problems += _in_group(found, name, variable)
            found.problems += _derived(name, variable, of_pools)
    for host, variables in inventory.host_variables.items():
        for variable in variables.values():
            if variable.name in SECTIONS:
                found.problems.append(_refused(variable, host, "a section of the whole site: it belongs into group_vars/all"))
            elif variable.name == POOL_SPEC:
                rule = "the hosts of a pool are alike: its spec belongs to the pool's group"
                found.problems.append(_refused(variable, host, rule))
            if variable.name not in HostData.model_fields:
                found.problems += _derived(host, variable, host in pool_hosts)


def _in_group(found: Gathered, group: str, variable: Variable) -> Iterator[SiteProblem]:
    if group != ALL and variable.name in SECTIONS:
        yield _refused(variable, group, "a section of the whole site: it belongs into group_vars/all")
    elif variable.name == POOL_SPEC and group not in found.pools:
        yield _refused(variable, group, f"a pool is a group directly under {GPU_NODES}; {group} is not")
    elif variable.name != POOL_SPEC and group in found.pools and (hint := suggestion(variable.name, [POOL_SPEC])):
        yield SiteProblem(variable.place, f"{group}.{variable.name}", "(unknown)", f"unknown key{hint}")


def _derived(owner: str, variable: Variable, of_pools: bool) -> Iterator[SiteProblem]:
    """Refuse what Ansible's precedence lets win over derived data, unchecked, and what looks as if it did."""
    if source := role_variables().get(variable.name):
        yield _refused(variable, owner, f"a role's variable would win over the checked site data: say it in {source}")
    elif of_pools and variable.name in POOL_KEYS:
        rule = (
            f"a key of {POOL_SPEC}: it belongs into the spec in the pool's group_vars; give a variable of your own another name"
        )
        yield _refused(variable, owner, rule)


def _refused(variable: Variable, owner: str, rule: str) -> SiteProblem:
    return SiteProblem(variable.place, f"{owner}.{variable.name}", "(misplaced)", rule)
