# SPDX-License-Identifier: Apache-2.0
"""The machines of the metal lab: names, addresses, disks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bedplate_lab import paths
from bedplate_lab.errors import LabError
from bedplate_lab.topology import SUBNET

MIB = 1024**2


@dataclass(frozen=True)
class Disk:
    """An NVMe disk. `content` is `blank`, or `data` for one that carries a file system with files of somebody's."""

    serial: str
    size_bytes: int
    content: str = "blank"


@dataclass(frozen=True)
class Machine:
    """One virtual machine: its distribution's suite, the last octet of its addresses, whether its firmware enforces Secure Boot.

    One that is `on_demand` is there for those who name it.
    """

    name: str
    suite: str
    octet: int
    secure_boot: bool = False
    on_demand: bool = False
    memory_mib: int = 2560
    cores: int = 2

    @property
    def address(self) -> str:
        """On the lab's network, where SSH and the cluster reach it."""
        return str(SUBNET.network_address + self.octet)

    @property
    def mac(self) -> str:
        """Hardware address of the first network card."""
        return f"02:be:0a:57:00:{self.octet:02x}"

    @property
    def fabric_mac(self) -> str:
        """Hardware address of the second network card, which is the fabric's; it has no address until a role gives it one."""
        return f"02:be:0a:58:00:{self.octet:02x}"

    @property
    def disks(self) -> tuple[Disk, ...]:
        """Blank NVMe disks, three larger and seven small ones, and one with data that nothing may write."""
        blank = [Disk(f"BP{self.name.upper()}N{number}", 1024 * MIB) for number in range(1, 4)]
        blank += [Disk(f"BP{self.name.upper()}S{number}", 128 * MIB) for number in range(1, 8)]
        return (*blank, Disk(f"BP{self.name.upper()}DATA", 32 * MIB, "data"))

    def path(self, *parts: str) -> Path:
        """A path in the machine's directory, where its disks, its firmware's variables and its console are."""
        return paths.state("metal", self.name, *parts)


MACHINES = (
    Machine("m1", "bookworm", 251),
    Machine("m2", "trixie", 252, secure_boot=True),
    Machine("u1", "noble", 253, secure_boot=True, on_demand=True),
)


def chosen(names: list[str]) -> list[Machine]:
    """The machines `names`; for an empty list all but those on demand. Raises LabError for an unknown one."""
    known = {machine.name: machine for machine in MACHINES}
    for name in names:
        if name not in known:
            raise LabError(f"machine {name}: the metal lab has {' and '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)] or [one for one in MACHINES if not one.on_demand]
