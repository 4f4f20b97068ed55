# SPDX-License-Identifier: Apache-2.0
"""The PCI bus as /sys shows it: functions with their way to the root, links, address spaces, access control. Pure but for reads.

Attributes are those of sysfs-bus-pci in the kernel's ABI documentation. A value that a host does not show is None.
"""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from .host import Host

ROOTS = "/sys/devices/pci*"
FUNCTION = "/[0-9a-f]*:[0-9a-f][0-9a-f]:[0-9a-f][0-9a-f].[0-7]"
DEEPEST = 16
"""Bridges between a root and a function; no machine has that many, and a loop must end."""
BRIDGE, VGA, CONTROLLER_3D, OTHER_BRIDGE, NVME = "0604", "0300", "0302", "0680", "0108"
"""Class codes without their programming interface (PCI ID repository, device classes)."""
CONFIG_BYTES = 4096
EXTENDED_CAPABILITIES = 0x100
ACS_CAPABILITY = 0x000D
ACS_REDIRECT = 0x0C
"""Access Control Services: request and completion redirect, which send traffic between devices through the root (PCI Express Base
Specification, "ACS Control Register")."""
PIX, PXB, PHB, NODE, SYS = "PIX", "PXB", "PHB", "NODE", "SYS"
LEVELS = (PIX, PXB, PHB, NODE, SYS)
"""Ways between two devices, nearest first, in the words of `nvidia-smi topo -m`: at most one PCIe switch; several; the host
bridge; several host bridges of a NUMA node; between NUMA nodes."""


class Reader:
    """Reads what a host shows; a refusal is no error here but kept by path, for the report to name."""

    def __init__(self, host: Host) -> None:
        """Read through the host's door."""
        self.host = host
        self.refused: dict[str, str] = {}

    def text(self, path: str) -> Optional[str]:
        """Return a file's text without white space around it; None where there is none or it is refused."""
        try:
            text = self.host.read(path)
        except OSError as error:  # e.g. the speed of a link that is down
            self._note(path, error)
            return None
        return text.strip() if text is not None else None

    def number(self, path: str) -> Optional[int]:
        """Return a file's decimal number."""
        text = self.text(path) or ""
        return int(text) if re.fullmatch(r"-?\d+", text) else None

    def data(self, path: str, size: int) -> Optional[bytes]:
        """Return a file's first bytes."""
        try:
            return self.host.read_bytes(path, size)
        except OSError as error:
            self._note(path, error)
            return None

    def names(self, pattern: str) -> list[str]:
        """Return the last parts of the paths that match."""
        return [path.rpartition("/")[2] for path in self.host.glob(pattern)]

    def _note(self, path: str, error: OSError) -> None:
        if error.errno in (errno.EACCES, errno.EPERM):
            self.refused[path] = error.strerror or str(error)


@dataclass(frozen=True)
class Link:
    """A PCIe link: transfers in GT/s per lane and lanes, as they are and as the function can have them at most."""

    speed: Optional[float] = None
    width: Optional[int] = None
    max_speed: Optional[float] = None
    max_width: Optional[int] = None


@dataclass(frozen=True)
class Function:
    """A PCI function. id: ``vendor:device`` in lower case. kind: class code of four digits. way: addresses of the bridges above
    it, the root (``pci0000:17``) first. path: its directory. numa_node: None where the firmware does not say.
    """

    address: str
    id: str
    kind: str
    path: str
    way: tuple[str, ...] = ()
    driver: Optional[str] = None
    numa_node: Optional[int] = None
    link: Link = field(default_factory=Link)


def observe_functions(reader: Reader) -> dict[str, Function]:
    """Return the functions of all buses by address, without virtual functions."""
    found: dict[str, Function] = {}
    for depth in range(1, DEEPEST):
        paths = reader.host.glob(f"{ROOTS}{FUNCTION * depth}/uevent")
        if not paths:
            break
        for path in paths:
            directory = path.rpartition("/")[0]
            if not reader.host.exists(f"{directory}/physfn"):
                function = observe_function(reader, directory)
                found[function.address] = function
    return found


def observe_function(reader: Reader, directory: str) -> Function:
    """Return one function."""
    says = dict(re.findall(r"^(\w+)=(.*)$", reader.text(f"{directory}/uevent") or "", re.MULTILINE))
    *way, address = directory.split("/")[3:]
    numa = reader.number(f"{directory}/numa_node")
    return Function(
        address=address,
        id=says.get("PCI_ID", "").lower(),
        kind=says.get("PCI_CLASS", "").zfill(6)[:4].lower(),
        path=directory,
        way=tuple(way),
        driver=says.get("DRIVER"),
        numa_node=numa if numa is not None and numa >= 0 else None,
        link=Link(
            parse_speed(reader.text(f"{directory}/current_link_speed")),
            parse_width(reader.text(f"{directory}/current_link_width")),
            parse_speed(reader.text(f"{directory}/max_link_speed")),
            parse_width(reader.text(f"{directory}/max_link_width")),
        ),
    )


def parse_speed(text: Optional[str]) -> Optional[float]:
    """Return 32.0 for ``32.0 GT/s PCIe``; None for ``Unknown``."""
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", text or "")
    return float(match.group(1)) if match else None


def parse_width(text: Optional[str]) -> Optional[int]:
    """Return the number of lanes; None for 0 and for 255, which say that there is no link or that it is unknown."""
    return int(text) if text and text.isdigit() and 0 < int(text) <= 32 else None


def parse_spaces(text: str) -> tuple[int, ...]:
    """Return the sizes in bytes of a function's six address spaces (BARs) from ``resource``; 0 for one that was not assigned."""
    sizes = []
    for line in text.splitlines()[:6]:
        start, end = (int(part, 16) for part in line.split()[:2])
        sizes.append(end - start + 1 if end > start else 0)
    return tuple(sizes)


def parse_acs(config: Optional[bytes]) -> Optional[bool]:
    """Tell whether a bridge's access control redirects traffic between devices; None where the extended space is not shown.

    A bridge without the capability redirects nothing.
    """
    if config is None or len(config) <= EXTENDED_CAPABILITIES:
        return None
    offset = EXTENDED_CAPABILITIES
    for _ in range(CONFIG_BYTES // 8):
        if offset < EXTENDED_CAPABILITIES or offset + 8 > len(config):
            break
        header = struct.unpack_from("<I", config, offset)[0]
        if header & 0xFFFF == ACS_CAPABILITY:
            return bool(struct.unpack_from("<H", config, offset + 6)[0] & ACS_REDIRECT)
        offset = header >> 20
    return False


def level(one: Function, other: Function, numa_nodes: Optional[int]) -> Optional[str]:
    """Return how near two functions are (:data:`LEVELS`); None where the firmware does not say their NUMA nodes.

    Below a common bridge each of them may have one port of the same switch: PIX. Any more of them is a second switch: PXB.
    """
    shared = 0
    for a, b in zip(one.way, other.way):
        if a != b:
            break
        shared += 1
    if shared > 1:
        return PIX if max(len(one.way), len(other.way)) - shared <= 1 else PXB
    if shared == 1:
        return PHB
    if one.numa_node is None or other.numa_node is None:
        return NODE if numa_nodes == 1 else None
    return NODE if one.numa_node == other.numa_node else SYS


def nearest(levels: Sequence[Optional[str]]) -> Optional[str]:
    """Return the nearest of several levels; None of none."""
    known = [found for found in levels if found is not None]
    return min(known, key=LEVELS.index) if known else None
