# SPDX-License-Identifier: Apache-2.0
"""Network cards as the site declares them and as a host shows them under /sys: interface, RDMA device, PCI address, port."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Optional

from .core import Problem
from .host import Host

INFINIBAND, ROCE, SOFT_ROCE, ETHERNET = "infiniband", "roce", "soft-roce", "ethernet"
FABRICS = (INFINIBAND, ROCE, SOFT_ROCE, ETHERNET)
RDMA = (INFINIBAND, ROCE, SOFT_ROCE)
MELLANOX = "0x15b3"
DRIVERS = {MELLANOX: "mlx5_ib", "0x14e4": "bnxt_re", "0x8086": "irdma"}
"""RDMA driver of the kernel by PCI vendor (MODULE_DEVICE_TABLE of drivers/infiniband/hw); udev loads it too, but not at once."""
LINK_LAYER = {INFINIBAND: "InfiniBand", ROCE: "Ethernet", SOFT_ROCE: "Ethernet"}
CLASS = "/sys/class/infiniband"

MAC = re.compile(r"([0-9a-f]{2}:){5,19}[0-9a-f]{2}", re.IGNORECASE)
"""Six bytes, twenty on IPoIB."""
PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)


@dataclass(frozen=True)
class Traffic:
    """How RoCE packets are marked and kept from loss. priority 0-7; dscp 0-63; pfc: pause frames for the priority; ecn:
    congestion is answered by slowing down.
    """

    priority: int = 3
    dscp: int = 26
    pfc: bool = True
    ecn: bool = True

    @property
    def type_of_service(self) -> int:
        """The byte of the IP header: the DSCP, and in the last two bits ECT(0) where ECN is used (RFC 3168)."""
        return self.dscp << 2 | (2 if self.ecn else 0)


@dataclass(frozen=True)
class Nic:
    """A declared card. device: interface, RDMA device, PCI address or MAC. address: with its prefix length; mtu in bytes."""

    name: str
    fabric: str = ETHERNET
    device: str = ""
    address: Optional[str] = None
    mtu: Optional[int] = None
    speed_gbps: Optional[int] = None
    traffic: Optional[Traffic] = None

    @property
    def rdma(self) -> bool:
        """True where it carries RDMA."""
        return self.fabric in RDMA


@dataclass(frozen=True)
class Device:
    """A card as found; "" where there is no such part. vendor: PCI vendor, e.g. 0x15b3."""

    netdev: str = ""
    rdma: str = ""
    pci: str = ""
    mac: str = ""
    vendor: str = ""
    mtu: int = 0
    index: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.netdev, self.rdma, self.pci) if part)


@dataclass(frozen=True)
class Port:
    """The first port of an RDMA device: state (ACTIVE, INIT, DOWN …), physical state, rate in Gb/s, subnet manager's LID."""

    state: str
    physical: str
    rate_gbps: float
    link_layer: str
    sm_lid: int


def observe_devices(host: Host) -> tuple[Device, ...]:
    """Read /sys/class/net, /sys/class/infiniband and the PCI functions they belong to; no command runs."""
    function: dict[str, str] = {}
    for pattern in ("/sys/bus/pci/devices/*/net/*", "/sys/bus/pci/devices/*/virtio*/net/*"):
        function.update({path.rpartition("/")[2]: path.split("/")[5] for path in host.glob(pattern)})
    adapters = {path.split("/")[5]: path.rpartition("/")[2] for path in host.glob("/sys/bus/pci/devices/*/infiniband/*")}
    soft = {(host.read(path) or "").strip(): path.split("/")[4] for path in host.glob(f"{CLASS}/*/parent")}
    devices = []
    for path in host.glob("/sys/class/net/*/address"):
        netdev = path.split("/")[4]
        pci = function.get(netdev, "")
        devices.append(
            Device(
                netdev=netdev,
                rdma=soft.get(netdev) or adapters.get(pci, ""),
                pci=pci,
                mac=(host.read(path) or "").strip(),
                vendor=_vendor(host, pci),
                mtu=int(host.read(f"/sys/class/net/{netdev}/mtu") or 0),
                index=(host.read(f"/sys/class/net/{netdev}/ifindex") or "").strip(),
            )
        )
    shown = {device.pci for device in devices}
    devices += [Device(rdma=rdma, pci=pci, vendor=_vendor(host, pci)) for pci, rdma in adapters.items() if pci not in shown]
    return tuple(devices)


def _vendor(host: Host, pci: str) -> str:
    return (host.read(f"/sys/bus/pci/devices/{pci}/vendor") or "").strip() if pci else ""


def matches(declared: str, device: Device) -> bool:
    """Tell whether a declaration means a device."""
    if MAC.fullmatch(declared):
        return device.mac.lower() == declared.lower()
    if PCI.fullmatch(declared):
        return device.pci == declared.lower()
    return declared in (device.netdev, device.rdma)


def find(nic: Nic, devices: Iterable[Device]) -> tuple[Optional[Device], Optional[Problem]]:
    """Return the device a card means, or why there is none. Of those that share a MAC (bonds, VLANs) the card itself counts."""
    known = list(devices)
    found = [device for device in known if matches(nic.device, device)]
    found = [device for device in found if device.pci] or found
    if len(found) == 1:
        return found[0], None
    listed = ", ".join(str(device) for device in (found or known) if device.netdev != "lo") or "no card at all"
    step = "correct the pool's nics, or give this host's own in fabric_devices (interface, RDMA device, PCI address or MAC)"
    return None, Problem(f"card {nic.name}", listed, f"one card that is {nic.device}", step)


def observe_port(host: Host, rdma: str) -> Optional[Port]:
    """Read the first port of an RDMA device; None when it has none."""
    base = f"{CLASS}/{rdma}/ports/1"
    state = host.read(f"{base}/state")
    if not rdma or state is None:
        return None
    return parse_port(
        state,
        host.read(f"{base}/phys_state") or "",
        host.read(f"{base}/rate") or "",
        host.read(f"{base}/link_layer") or "",
        host.read(f"{base}/sm_lid") or "",
    )


def parse_port(state: str, physical: str, rate: str, link_layer: str, sm_lid: str) -> Port:
    """Parse the files of a port, e.g. ``4: ACTIVE``, ``5: LinkUp``, ``400 Gb/sec (4X NDR)``, ``InfiniBand``, ``0x1``
    (Documentation/ABI/stable/sysfs-class-infiniband).
    """
    speed = re.match(r"[\d.]+", rate.strip())
    lid = re.fullmatch(r"0x([0-9a-f]+)", sm_lid.strip(), re.IGNORECASE)
    return Port(
        state=state.partition(":")[2].strip(),
        physical=physical.partition(":")[2].strip(),
        rate_gbps=float(speed.group()) if speed else 0.0,
        link_layer=link_layer.strip(),
        sm_lid=int(lid[1], 16) if lid else 0,
    )


def judge_port(nic: Nic, rdma: str, port: Port) -> list[Problem]:
    """Return what keeps a port from carrying RDMA. A card of the other link layer is an error; what a cable, a switch or a subnet
    manager may still mend is a warning.
    """
    what = f"port of {nic.name} ({rdma})"
    if port.link_layer != LINK_LAYER[nic.fabric]:
        step = "correct the card's fabric in the pool's nics, or its port type (mlxconfig -d DEVICE set LINK_TYPE_P1=…)"
        return [Problem(what, f"link layer {port.link_layer}", f"{LINK_LAYER[nic.fabric]} ({nic.fabric})", step)]
    if nic.fabric == INFINIBAND and port.physical == "LinkUp" and port.sm_lid == 0:
        step = "start a subnet manager (opensm on one host, or the switch's); sminfo asks for it"
        return [Problem(what, f"{port.state}, no subnet manager", "ACTIVE with a subnet manager", step, "warning")]
    if port.state != "ACTIVE":
        step = "look at the cable, the switch port and the interface (ip link); ibstat shows the port"
        return [Problem(what, f"{port.state}, {port.physical}", "ACTIVE, LinkUp", step, "warning")]
    if nic.speed_gbps and port.rate_gbps < nic.speed_gbps:
        step = "look at the cable and the switch port's speed (mlxlink, ethtool), or correct speed_gbps"
        return [Problem(what, f"{port.rate_gbps:g} Gb/s", f"{nic.speed_gbps} Gb/s", step, "warning")]
    return []


def lower_devices(host: Host, netdev: str) -> frozenset[str]:
    """Return an interface and those below it (members of a bond, the parent of a VLAN)."""
    below = [path.rpartition("/lower_")[2] for path in host.glob(f"/sys/class/net/{netdev}/lower_*")]
    return frozenset({netdev}).union(*(lower_devices(host, one) for one in below))


def modules(nics: Sequence[Nic], found: dict[str, Device]) -> tuple[str, ...]:
    """Return the kernel modules RDMA needs on these cards, in the order they are loaded."""
    rdma = [nic for nic in nics if nic.rdma]
    if not rdma:
        return ()
    wanted = ["ib_uverbs", "rdma_ucm"]
    vendors = {found[nic.name].vendor for nic in rdma if nic.name in found and nic.fabric != SOFT_ROCE}
    wanted += sorted(DRIVERS[vendor] for vendor in vendors & set(DRIVERS))
    if any(nic.fabric == INFINIBAND for nic in rdma):
        wanted.append("ib_umad")
    if any(nic.fabric == INFINIBAND and nic.address for nic in rdma):
        wanted.append("ib_ipoib")
    if any(nic.fabric == SOFT_ROCE for nic in rdma):
        wanted.append("rdma_rxe")
    return tuple(wanted)
