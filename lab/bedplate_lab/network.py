# SPDX-License-Identifier: Apache-2.0
"""The lab's network: a bridge of podman's with a fixed subnet, and a resolver at its gateway."""

from __future__ import annotations

import ipaddress
import json

from bedplate_lab import labels
from bedplate_lab.errors import LabError
from bedplate_lab.podman import Podman
from bedplate_lab.run import run
from bedplate_lab.topology import GATEWAY, NETWORK, SUBNET


def ensure(podman: Podman) -> bool:
    """Make the network unless it is there; True when it was made. Raises LabError where somebody else has it."""
    found = podman.network()
    if found is not None:
        owner = (found.get("labels") or {}).get(labels.LAB)
        if owner != labels.INSTANCE:
            whose = (found.get("labels") or {}).get(labels.CHECKOUT, "made by hand")
            raise LabError(
                f"podman network {NETWORK}: found one of another lab ({whose}), wanted none; "
                "one machine runs one lab: run scripts/lab down there first"
            )
        return False
    for route in json.loads(run(["ip", "-json", "-4", "route", "show"]).stdout or "[]"):
        other = _network(route.get("dst", ""))
        if other is not None and other.prefixlen > 0 and other.overlaps(SUBNET):
            raise LabError(
                f"the lab's network {SUBNET}: the machine already routes {other} through {route.get('dev', '?')}; "
                "wanted it free: remove that route for as long as the lab runs"
            )
    podman("network", "create", *labels.arguments(), "--subnet", str(SUBNET), "--gateway", GATEWAY, NETWORK)
    return True


def owner(podman: Podman) -> str | None:
    """Label of the lab whose network it is, None when there is none or somebody made it by hand."""
    label: str | None = ((podman.network() or {}).get("labels") or {}).get(labels.LAB)
    return label


def owned(podman: Podman) -> bool:
    """Whether the network is there and this lab's."""
    return owner(podman) == labels.INSTANCE


def remove(podman: Podman) -> bool:
    """Remove the network if it is this lab's; True when it was. Raises CommandError."""
    if not owned(podman):
        return False
    podman("network", "rm", "--force", "--time", "0", NETWORK)
    return True


def _network(text: str) -> ipaddress.IPv4Network | None:
    try:
        return ipaddress.IPv4Network(text)
    except ValueError:
        return None
