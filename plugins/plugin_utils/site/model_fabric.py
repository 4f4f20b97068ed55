# SPDX-License-Identifier: Apache-2.0
"""Site data of a pool's network cards: what they are attached to, how a host's card is found, how RoCE is kept from loss."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .types import Shape, Word, matching
from .types_host import PackageVersion

RDMA_FABRICS = ("infiniband", "roce", "soft-roce")


def _interface(text: str) -> str:
    try:
        found = ipaddress.ip_interface(text)
    except ValueError:
        found = None
    if found is None or "/" not in text:
        raise ValueError("must be an address with its prefix length, for example 10.88.0.11/24")
    if found.ip == found.network.network_address and found.network.num_addresses > 2:
        raise ValueError("is the address of the network itself")
    return str(found)


_nic = matching(r"[A-Za-z0-9][A-Za-z0-9_.-]*", "becomes part of a file name: letters, digits, '.', '_' and '-'")

NicName = Annotated[str, AfterValidator(_nic)]
InterfaceAddress = Annotated[str, AfterValidator(_interface)]


class RoceTraffic(Shape):
    """How RoCE packets are marked and kept from loss; the switches must say the same."""

    priority: Annotated[int, Field(ge=0, le=7)] = 3
    """Priority of RoCE traffic."""
    dscp: Annotated[int, Field(ge=0, le=63)] = 26
    """DSCP of RoCE traffic; it becomes the type of service of connections."""
    pfc: bool = True
    """Pause frames for that priority, and for no other."""
    ecn: bool = True
    """Switches mark congestion, and senders slow down."""


class Nic(Shape):
    """A network card of every node of the pool."""

    name: NicName
    """Name of the card or rail, by which hosts give it an address."""
    fabric: Literal["infiniband", "roce", "soft-roce", "ethernet"] = "ethernet"
    """What it is attached to; soft-roce makes an RDMA device of an ordinary card (the kernel's rdma_rxe), for trials."""
    device: Word | None = None
    """Its interface, RDMA device (mlx5_0), PCI address or MAC; left out, the name. A host says otherwise in fabric_devices."""
    speed_gbps: Annotated[int, Field(ge=1)] | None = None
    """Link speed wanted, in Gb/s."""
    min_gbps: Annotated[float, Field(gt=0, strict=False, allow_inf_nan=False)] | None = None
    """Bandwidth between two nodes below which check_fabric fails, in Gb/s; left out, a share of speed_gbps."""
    mtu: Annotated[int, Field(ge=1280, le=65520)] | None = None
    """MTU of the interface in bytes; needs an address."""
    roce: RoceTraffic | None = None
    """With fabric roce: lossless settings; left out, they are not touched."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse lossless settings for what is not RoCE."""
        if self.roce is not None and self.fabric != "roce":
            yield "roce", f"roce settings go with fabric roce, not with {self.fabric}"

    @property
    def rdma(self) -> bool:
        """True where it carries RDMA."""
        return self.fabric in RDMA_FABRICS


class RdmaStack(Shape):
    """Drivers and tools of RDMA."""

    source: Literal["inbox", "doca"] = "inbox"
    """inbox: the kernel's drivers and the distribution's tools. doca: NVIDIA's DOCA-OFED out of packages.repositories, which
    takes over on drained nodes and by a reboot."""
    version: PackageVersion | None = None
    """With doca: exact version of the package doca-ofed, in quotes; left out, the repository's."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse a version of what is not installed."""
        if self.version is not None and self.source != "doca":
            yield "version", "version is that of doca-ofed: it goes with source doca"
