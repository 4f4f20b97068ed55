# SPDX-License-Identifier: Apache-2.0
"""The lab's plan of hosts, names and addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from bedplate_lab.errors import LabError

NETWORK = "bedplate-lab"
SUBNET = ipaddress.IPv4Network("10.87.0.0/24")
GATEWAY = "10.87.0.1"
DEPOT_ADDRESS = "10.87.0.2"
DEPOT_NAME = "depot.lab.bedplate.test"
CONTAINER_PREFIX = "bedplate-lab-"
POOLS = ("train", "infer")
HARDWARE = {"train": "h100-80gb", "infer": "l40s-48gb"}
"""What kind of machine the hosts of a pool are: a profile of lab/gpu-sim/profiles.yml."""

Role = Literal["control_plane", "worker", "extra"]
FIRST: dict[Role, int] = {"control_plane": 11, "worker": 21, "extra": 51}
"""Last octet of the first host of each role; the role's addresses end before the next role's first."""
MOST: dict[Role, int] = {"control_plane": 9, "worker": 30, "extra": 200}


@dataclass(frozen=True)
class Host:
    """A host of the lab. `pool` is set for workers only, `rack` and `block` for all that are in the inventory."""

    name: str
    role: Role
    address: str
    rack: str = ""
    block: str = ""
    pool: str = ""

    @property
    def container(self) -> str:
        """The name of its container."""
        return CONTAINER_PREFIX + self.name

    @property
    def volume(self) -> str:
        """The name of the volume behind its /var."""
        return f"{self.container}-var"

    @property
    def mac(self) -> str:
        """Its hardware address, made from the IPv4 address: the same after every reboot."""
        octets = ipaddress.IPv4Address(self.address).packed
        return "02:be:" + ":".join(f"{octet:02x}" for octet in octets)


def address(role: Role, index: int) -> str:
    """The address of the host number `index` (from 0) of a role. Raises LabError beyond the role's range."""
    if not 0 <= index < MOST[role]:
        raise LabError(f"{role} host number {index + 1}: the lab's network {SUBNET} has room for 1 to {MOST[role]}")
    return str(SUBNET.network_address + FIRST[role] + index)


def planned(control_planes: int, workers: int) -> list[Host]:
    """The hosts of the inventory: cp1.. and w1.., racks and pools taking turns. Raises LabError for too many."""
    hosts = []
    for index in range(control_planes):
        hosts.append(
            Host(f"cp{index + 1}", "control_plane", address("control_plane", index), rack=f"r{index % 2 + 1}", block="b1")
        )
    for index in range(workers):
        hosts.append(
            Host(
                f"w{index + 1}",
                "worker",
                address("worker", index),
                rack=f"r{index % 2 + 1}",
                block="b1",
                pool=POOLS[index % len(POOLS)],
            )
        )
    return hosts


def check_extra_name(name: str) -> None:
    """Refuse a name for an extra host that is no host name or belongs to the plan. Raises LabError."""
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?", name):
        raise LabError(f"host name {name!r}: wanted lower-case letters, digits and hyphens, beginning with a letter")
    if re.fullmatch(r"(cp|w)[0-9]+", name) or name == "depot" or name.startswith("depot-"):
        raise LabError(f"host name {name!r} belongs to the lab's own hosts; choose another, for example m1")


def free_extra_address(taken: Iterable[str]) -> str:
    """The lowest address for extra hosts that is not in `taken`. Raises LabError when none is left."""
    used = set(taken)
    for index in range(MOST["extra"]):
        candidate = address("extra", index)
        if candidate not in used:
            return candidate
    raise LabError(f"all {MOST['extra']} addresses for extra hosts are taken; remove some with: scripts/lab host rm NAME")
