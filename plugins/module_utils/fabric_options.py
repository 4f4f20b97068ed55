# SPDX-License-Identifier: Apache-2.0
"""A card as the modules fabric and fabric_check take it."""

from __future__ import annotations

from typing import Any

from .fabric_devices import FABRICS, Nic, Traffic
from .fabric_network import normal_address
from .kernel import check_name

TRAFFIC_OPTIONS: dict[str, Any] = {
    "priority": {"type": "int", "default": 3},
    "dscp": {"type": "int", "default": 26},
    "pfc": {"type": "bool", "default": True},
    "ecn": {"type": "bool", "default": True},
}
NICS_OPTION: dict[str, Any] = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {
        "name": {"type": "str", "required": True},
        "fabric": {"type": "str", "choices": list(FABRICS), "default": "ethernet"},
        "device": {"type": "str"},
        "address": {"type": "str"},
        "mtu": {"type": "int"},
        "speed_gbps": {"type": "int"},
        "roce": {"type": "dict", "options": TRAFFIC_OPTIONS},
    },
}


def build_nic(given: dict[str, Any]) -> Nic:
    """Make a card; raise ValueError for a name that could not be part of a file's, or an address that is none."""
    check_name("nics.name", given["name"])
    traffic = given.get("roce")
    if traffic and not (0 <= traffic["priority"] <= 7 and 0 <= traffic["dscp"] <= 63):
        raise ValueError(f"nics: found roce {traffic} of {given['name']}; wanted priority 0 to 7 and dscp 0 to 63")
    return Nic(
        name=given["name"],
        fabric=given["fabric"],
        device=given.get("device") or given["name"],
        address=normal_address(given["address"]) if given.get("address") else None,
        mtu=given.get("mtu"),
        speed_gbps=given.get("speed_gbps"),
        traffic=Traffic(**traffic) if traffic else None,
    )
