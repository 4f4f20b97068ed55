# SPDX-License-Identifier: Apache-2.0
"""The fabric out of validated site data: a host's cards, and how Kubernetes gets to see RDMA devices. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.fabric_devices import MAC, PCI

from .gather import Gathered, SiteHost
from .model import Site
from .model_fabric import Nic
from .model_pool import GpuPool

RESOURCE_PREFIX = "rdma"
"""The device plugin's own (k8s-rdma-shared-dev-plugin, resourcePrefix)."""
SHOWN = ("infiniband", "roce")
"""The plugin looks for network cards among PCI devices, so that it never sees a soft-RoCE device."""
RDMA_DEVICE = re.compile(r"(mlx5|bnxt_re|irdma|rocep|ibp)\w*")
"""Names of RDMA devices, the kernel's and those of rdma-core's persistent naming (rdma_rename)."""


def fabric_roles(host: SiteHost, spec: GpuPool | None, site: Site) -> dict[str, dict[str, Any]]:
    """Return the options of role fabric; none where the host has no card that it would touch."""
    if spec is None:
        return {}
    addresses, devices = host.data.fabric_addresses, host.data.fabric_devices
    nics = [nic for nic in spec.nics if nic.rdma or nic.name in addresses]
    if not nics:
        return {}
    return {
        "fabric": {
            "nics": [_card(nic, addresses.get(nic.name), devices.get(nic.name)) for nic in nics],
            "stack": spec.rdma_stack.source,
            "version": spec.rdma_stack.version or "",
            "out_of_band": host.data.out_of_band or "",
            "management_address": host.address or "",
            "lock_timeout_seconds": site.preflight.apt_lock_timeout_seconds,
        }
    }


def _card(nic: Nic, address: str | None, device: str | None) -> dict[str, Any]:
    card = nic.model_dump(exclude_none=True, exclude={"min_gbps"})
    card["device"] = device or nic.device or nic.name
    if address is None:
        card.pop("mtu", None)
    return card if address is None else {**card, "address": address}


def shown_fabric(spec: GpuPool) -> str | None:
    """Return which of a pool's cards pods get: those of the fabric between its nodes, else of the first other; None for none."""
    fabrics = [nic.fabric for nic in spec.nics if nic.fabric in SHOWN]
    return spec.fabric if spec.fabric in fabrics else next(iter(fabrics), None)


def _by_interface(text: str) -> bool:
    return not (MAC.fullmatch(text) or PCI.fullmatch(text) or RDMA_DEVICE.fullmatch(text))


def unshown_cards(spec: GpuPool, devices: Sequence[Mapping[str, str]] = ()) -> list[tuple[int, Nic]]:
    """Return the RoCE cards that are not known by interface on every host. devices: fabric_devices of the hosts."""
    if shown_fabric(spec) != "roce":
        return []
    names = {nic.name: [nic.device or nic.name, *(d[nic.name] for d in devices if nic.name in d)] for nic in spec.nics}
    cards = [(index, nic) for index, nic in enumerate(spec.nics) if nic.fabric == "roce"]
    return [(index, nic) for index, nic in cards if not all(map(_by_interface, names[nic.name]))]


def selectors(spec: GpuPool, devices: Sequence[Mapping[str, str]] = ()) -> dict[str, list[str]]:
    """Return which cards the device plugin takes: InfiniBand by its kind of link, RoCE by interface (the management card has the
    same kind); {} for none. devices: fabric_devices of the hosts.
    """
    fabric = shown_fabric(spec)
    if fabric == "infiniband":
        return {"linkTypes": ["infiniband"]}
    unshown = {nic.name for _index, nic in unshown_cards(spec, devices)}
    shown = [nic for nic in spec.nics if nic.fabric == fabric and nic.name not in unshown]
    names = [name for nic in shown for name in (nic.device or nic.name, *(d[nic.name] for d in devices if nic.name in d))]
    return {"ifNames": list(dict.fromkeys(names))} if fabric and names else {}


def host_devices(found: Gathered, pool: str) -> list[Mapping[str, str]]:
    """Return fabric_devices of a pool's hosts."""
    return [found.hosts[name].data.fabric_devices or {} for name in found.pools[pool].hosts]


def rdma_resource(found: Gathered, pool: str, spec: GpuPool) -> str | None:
    """Return what a pod asks for to get a pool's RDMA devices; None where they are not shown."""
    return f"{RESOURCE_PREFIX}/{shown_fabric(spec)}" if selectors(spec, host_devices(found, pool)) else None


def rdma_pools(found: Gathered) -> dict[str, dict[str, Any]]:
    """Return by pool that shows RDMA devices the resource's name without prefix, and the plugin's selectors."""
    shown = {}
    for name, pool in found.pools.items():
        chosen = selectors(pool.spec, host_devices(found, name)) if pool.spec is not None else {}
        if pool.spec is not None and chosen:
            shown[name] = {"resource": str(shown_fabric(pool.spec)), "selectors": chosen}
    return shown
