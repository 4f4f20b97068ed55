# SPDX-License-Identifier: Apache-2.0
"""Volumes over NVMe disks: which a host has, and the rules no single value can hold: no disk twice, no mount inside another."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.nvme_volumes import LEAST_DISKS
from ansible_collections.bedplate.metal.plugins.module_utils.paths import nested

from .gather import Gathered, Pool, SiteHost
from .kubelet_config import quantity_bytes
from .model_pool import Disks, Volume
from .problem import SiteProblem, suggestion


def volumes_of(host: SiteHost, pool: Pool | None) -> dict[str, tuple[Volume, list[str]]]:
    """Return a host's volumes: spec and serials (none where a rule chooses), those with serials first."""
    volumes = pool.spec.nvme if pool is not None and pool.spec is not None else {}
    own = host.data.nvme_serials or {}
    named = {name: (volume, own.get(name) or volume.disks.serials) for name, volume in volumes.items()}
    return dict(sorted(named.items(), key=lambda item: not item[1][1]))


def nvme_role(host: SiteHost, pool: Pool | None) -> dict[str, Any] | None:
    """Return the options of role nvme on a host; None where it has no volumes."""
    volumes = [
        {
            "name": name,
            "mount": volume.mount,
            "layout": volume.layout,
            "filesystem": volume.filesystem,
            "serials": serials,
            "min_size_bytes": quantity_bytes(volume.disks.min_size) if volume.disks.min_size and not serials else 0,
            "model": "" if serials else volume.disks.model or "",
            "count": 0 if serials else volume.disks.count or 0,
        }
        for name, (volume, serials) in volumes_of(host, pool).items()
    ]
    return {"volumes": volumes, "wipe": host.data.nvme_wipe or []} if volumes else None


def check_nvme(found: Gathered) -> None:
    """Add every finding about volumes of pools and the disks that hosts name."""
    for pool in found.pools.values():
        if pool.spec is not None and pool.spec.nvme:
            _pool(found, pool, pool.spec.nvme)
    for host in found.hosts.values():
        pool_of_host = found.pools.get(host.pool)
        if (
            pool_of_host is None or pool_of_host.written is None or pool_of_host.spec is not None
        ):  # else the spec is wrong, and told
            _host(found, host, pool_of_host)


def _pool(found: Gathered, pool: Pool, volumes: dict[str, Volume]) -> None:
    for (name, first), (other, second) in combinations(volumes.items(), 2):
        if nested(first.mount, second.mount):
            rule = f"lies in or over the mount point {first.mount} of {name}"
            found.problems.append(pool.problem(("nvme", other, "mount"), second.mount, rule))
        if _overlap(first.disks, second.disks):
            rule = f"may mean the same disks as the rule of {name}: name the disks of one by serial, or tell them apart by model"
            found.problems.append(pool.problem(("nvme", other, "disks"), "(rule)", rule))
    for name, volume in volumes.items():
        others = [host for host in pool.hosts if name not in (found.hosts[host].data.nvme_serials or {})]
        if volume.disks.serials and len(others) > 1:
            rule = "a disk is in one host: give a rule here, or each host its own nvme_serials"
            found.problems.append(pool.problem(("nvme", name, "disks", "serials"), volume.disks.serials, rule))
        if volume.disks.count is not None and (rule := _amount(volume, volume.disks.count)):
            found.problems.append(pool.problem(("nvme", name, "disks", "count"), volume.disks.count, rule))


def _overlap(first: Disks, second: Disks) -> bool:
    """Tell whether two rules may mean one disk; disks with serials are taken before any rule looks."""
    if first.serials or second.serials:
        return False
    return first.model is None or second.model is None or first.model in second.model or second.model in first.model


def _amount(volume: Volume, count: int) -> str:
    least = LEAST_DISKS[volume.layout]
    if volume.layout == "single" and count > 1:
        return "single takes one disk; join several by raid0, raid1, raid10 or lvm"
    return f"{volume.layout} needs at least {least} disks" if count < least else ""


def _host(found: Gathered, host: SiteHost, pool: Pool | None) -> None:
    volumes = volumes_of(host, pool)
    for name in host.data.nvme_serials or {}:
        if name not in volumes:
            hint = suggestion(name, volumes) or f"; known are {', '.join(volumes) or 'none'}"
            found.problems.append(host.problem("nvme_serials", name, f"the pool {host.pool} has no such volume{hint}"))
    if host.data.nvme_wipe and not volumes:
        rule = f"the pool {host.pool} has no volumes, so nothing would use these disks"
        found.problems.append(host.problem("nvme_wipe", host.data.nvme_wipe, rule))
    seen: dict[str, str] = {}
    for name, (volume, serials) in volumes.items():
        rules = [f"{serial} stands twice (first in {seen[serial]})" for serial in serials if serial in seen]
        rules += [f"{serial} stands twice" for serial in set(serials) if serials.count(serial) > 1]
        if serials and (rule := _amount(volume, len(set(serials)))):
            rules.append(rule)
        found.problems.extend(_named_by(host, pool, name, serials, rule) for rule in rules)
        seen.update(dict.fromkeys(serials, name))


def _named_by(host: SiteHost, pool: Pool | None, name: str, serials: list[str], rule: str) -> SiteProblem:
    """Return a finding where the serials are written: at the host, or in the pool."""
    if pool is None or name in (host.data.nvme_serials or {}):
        return host.problem("nvme_serials", {name: serials}, rule)
    return pool.problem(("nvme", name, "disks", "serials"), serials, rule)
