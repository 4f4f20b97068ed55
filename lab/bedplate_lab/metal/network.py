# SPDX-License-Identifier: Apache-2.0
"""The machines' network: a network namespace with two bridges and a tap per card, joined to the lab's own bridge.

`mgmt` is the lab's network reached through a pair of virtual cards; `fabric` is a network of the machines alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from bedplate_lab.errors import LabError
from bedplate_lab.metal.plan import Machine
from bedplate_lab.podman import Podman
from bedplate_lab.run import run
from bedplate_lab.topology import NETWORK

NAMESPACE = "bedplate-metal"
UPLINK = "bp-metal"
"""Name of the card that is plugged into the lab's bridge; at most 15 characters."""
MTU = {"mgmt": 1500, "fabric": 9000}
"""The two bridges, and the size of their frames in bytes."""


def taps(machine: Machine) -> tuple[str, str]:
    """Names of a machine's two taps inside the namespace, for `mgmt` and for `fabric`."""
    return f"{machine.name}-mgmt", f"{machine.name}-fabric"


def ensure(podman: Podman, machines: Sequence[Machine]) -> None:
    """Make what is missing of it. Raises LabError when the lab's bridge is not there."""
    found = podman.network()
    bridge = (found or {}).get("network_interface", "")
    if not bridge or not _links().get(bridge):
        raise LabError(f"podman network {NETWORK}: found no bridge, wanted one that runs. next: scripts/lab up --no-site")
    if NAMESPACE not in _namespaces():
        run(["ip", "netns", "add", NAMESPACE])
        _inside("ip", "link", "set", "lo", "up")
    there = _links(NAMESPACE)
    for name, mtu in MTU.items():
        if name not in there:
            _inside("ip", "link", "add", name, "type", "bridge")
            _inside("ip", "link", "set", name, "mtu", str(mtu), "up")
    if "uplink" not in there:
        run(["ip", "link", "add", UPLINK, "type", "veth", "peer", "name", "uplink", "netns", NAMESPACE])
        _inside("ip", "link", "set", "uplink", "master", "mgmt", "up")
    run(["ip", "link", "set", UPLINK, "master", bridge, "up"])
    for machine in machines:
        for tap, (name, mtu) in zip(taps(machine), MTU.items(), strict=True):
            if tap not in there:
                _inside("ip", "tuntap", "add", tap, "mode", "tap")
                _inside("ip", "link", "set", tap, "mtu", str(mtu), "master", name, "up")


def remove() -> bool:
    """Remove the namespace with all in it; the uplink goes with its peer. True when there was one."""
    if NAMESPACE not in _namespaces():
        return False
    run(["ip", "netns", "delete", NAMESPACE])
    return True


def inside(*argv: str) -> list[str]:
    """The command line that runs `argv` in the namespace."""
    return ["ip", "netns", "exec", NAMESPACE, *argv]


def _inside(*argv: str) -> None:
    run(inside(*argv))


def _links(namespace: str | None = None) -> dict[str, dict[str, object]]:
    argv = ["ip", *(["-n", namespace] if namespace else []), "-json", "link", "show"]
    return {link["ifname"]: link for link in json.loads(run(argv).stdout or "[]")}


def _namespaces() -> list[str]:
    return [row["name"] for row in json.loads(run(["ip", "-json", "netns", "list"]).stdout or "[]")]
