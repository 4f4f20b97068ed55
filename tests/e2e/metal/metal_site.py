# SPDX-License-Identifier: Apache-2.0
"""The machines as hosts of a site, for playbooks that read site data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bedplate_tools.lab_site import write_site

from ..site import Site
from .machines import Metal
from .whole import FABRIC, SECURE, VOLUMES, address

NOBODY = {"cp1": {"ansible_host": "10.87.0.240", "node_ip": "10.87.0.240", "rack": "r1", "topology_block": "b1"}}
"""A control-plane host at an address where no machine is."""
POOL = {
    "accelerator": "l4-24gb",
    "gpus_per_node": 1,
    "topology": "1gpu-pcie",
    "fabric": "ethernet",
    "workload": "dev",
    "exposure": "none",
}
PLACES = ("train", "infer")


def metal_site(
    metal: Metal,
    directory: Path,
    pools: Sequence[Sequence[str]],
    control_plane: Sequence[str] = (),
    **spec: Any,
) -> Site:
    """A site of pools of machines; without control_plane its cluster cannot be reached. spec: more words of the pools."""
    hosts = {name: {**variables, "rack": "r1", "topology_block": "b1"} for name, variables in metal.variables.items()}
    members = {
        place: {name: {**hosts[name], "fabric_addresses": {"rail0": address(name)}} for name in names}
        for place, names in zip(PLACES, pools, strict=False)
    }
    write_site(directory, "metal", {name: hosts[name] for name in control_plane} or NOBODY, members)
    for place, names in members.items():
        nvme = {volume["name"]: words(volume) for volume in VOLUMES[SECURE]} if SECURE in names and len(names) == 1 else {}
        pool = {**POOL, "nics": [{**FABRIC, "mtu": 4200}], "nvme": nvme, **spec}
        (directory / "group_vars" / f"{place}.yml").write_text(json.dumps({"gpu_pool": pool}), encoding="utf-8")
    return Site((directory,))


def words(volume: Mapping[str, Any]) -> dict[str, Any]:
    """A volume in the words of site data."""
    rule = {"min_size": str(volume.get("min_size_bytes")), "count": volume.get("count")}
    kept = {key: volume[key] for key in ("mount", "layout", "filesystem") if key in volume}
    return {**kept, "disks": {"serials": volume["serials"]} if "serials" in volume else rule}
