# SPDX-License-Identifier: Apache-2.0
"""What a machine is made of, for the preflight report: GPUs, NVSwitches, network cards, how near they are to each other, disks.

Everything is read from /sys and /proc in one pass; nothing is loaded, opened for writing or probed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from .hardware_disks import Disk, observe_disks
from .hardware_machine import Machine, observe_machine
from .hardware_pci import (
    BRIDGE,
    CONFIG_BYTES,
    CONTROLLER_3D,
    OTHER_BRIDGE,
    VGA,
    Function,
    Link,
    Reader,
    level,
    observe_functions,
    parse_acs,
    parse_spaces,
)
from .host import Host
from .nvidia_probe import PROC_GPUS, normal_pci

NVIDIA, MELLANOX = "10de:", "15b3:"
NVLINK_BRIDGE = "SW_MNG"
"""In the vital product data of a ConnectX that only manages the NVSwitches of an HGX B200 or later (NVIDIA Fabric Manager User
Guide)."""


@dataclass(frozen=True)
class Gpu:
    """A GPU. model: what the driver calls it, "" without a driver. bar1_bytes: largest address space, the window to its memory;
    0: not assigned. port: link of the bridge above it. on_bus: False for one that only the driver still lists.
    """

    address: str
    id: str = ""
    model: str = ""
    driver: Optional[str] = None
    numa_node: Optional[int] = None
    link: Link = field(default_factory=Link)
    port: Link = field(default_factory=Link)
    bar1_bytes: Optional[int] = None
    on_bus: bool = True


@dataclass(frozen=True)
class Nic:
    """A network card's function. link_type: ``infiniband``, ``roce``, ``ethernet`` or ``nvlink`` (manages NVSwitches, carries no
    traffic of the host's). up: whether its link is; speed_gbps: None as long as it is not. virtual_functions: made and possible.
    """

    address: str
    id: str = ""
    interface: str = ""
    rdma: str = ""
    link_type: str = "ethernet"
    up: Optional[bool] = None
    speed_gbps: Optional[float] = None
    driver: Optional[str] = None
    numa_node: Optional[int] = None
    link: Link = field(default_factory=Link)
    virtual_functions: Optional[tuple[int, int]] = None


@dataclass(frozen=True)
class Hardware:
    """affinity: GPU's address to NIC's address to level (see hardware_pci.LEVELS). acs: bridge above a GPU or a NIC to whether it
    redirects, None where its configuration is not shown. pci: whether the host shows a bus. refused: paths by reason.
    """

    machine: Machine = field(default_factory=Machine)
    pci: bool = False
    gpus: tuple[Gpu, ...] = ()
    nvswitches: tuple[str, ...] = ()
    nics: tuple[Nic, ...] = ()
    affinity: dict[str, dict[str, Optional[str]]] = field(default_factory=dict)
    acs: dict[str, Optional[bool]] = field(default_factory=dict)
    disks: tuple[Disk, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)

    def public(self) -> dict[str, Any]:
        """Return the inventory as JSON types."""
        return asdict(self)


def observe_hardware(host: Host) -> Hardware:
    """Look once."""
    reader = Reader(host)
    machine = observe_machine(reader)
    functions = observe_functions(reader)
    nics = observe_nics(reader, functions)
    gpus = observe_gpus(reader, functions)
    near = [nic for nic in nics if nic.link_type != "nvlink"]
    nodes = len(machine.numa_nodes) if machine.numa_nodes else None
    on_bus = [gpu for gpu in gpus if gpu.on_bus]
    return Hardware(
        machine=machine,
        pci=bool(functions),
        gpus=gpus,
        nvswitches=tuple(a for a, f in functions.items() if f.kind == OTHER_BRIDGE and f.id.startswith(NVIDIA)),
        nics=nics,
        affinity={
            gpu.address: {nic.address: level(functions[gpu.address], functions[nic.address], nodes) for nic in near}
            for gpu in on_bus
        },
        acs=observe_acs(reader, functions, [*(gpu.address for gpu in on_bus), *(nic.address for nic in near)]),
        disks=observe_disks(reader),
        refused=reader.refused,
    )


def observe_gpus(reader: Reader, functions: Mapping[str, Function]) -> tuple[Gpu, ...]:
    """Return NVIDIA's GPUs on the bus and those its driver lists; a card for displays counts only where there is no other."""
    nvidia = {address: f for address, f in functions.items() if f.id.startswith(NVIDIA)}
    on_bus = {a: f for a, f in nvidia.items() if f.kind == CONTROLLER_3D} or {a: f for a, f in nvidia.items() if f.kind == VGA}
    listed = {normal_pci(path.split("/")[5]): reader.text(path) or "" for path in reader.host.glob(PROC_GPUS)}
    gpus = [Gpu(address, model=parse_model(text), on_bus=False) for address, text in listed.items() if address not in nvidia]
    for address, function in on_bus.items():
        parent = functions.get(function.way[-1])
        spaces = reader.text(f"{function.path}/resource")
        gpus.append(
            Gpu(
                address=address,
                id=function.id,
                model=parse_model(listed.get(address, "")),
                driver=function.driver,
                numa_node=function.numa_node,
                link=function.link,
                port=parent.link if parent else Link(),
                bar1_bytes=max(parse_spaces(spaces), default=0) if spaces else None,
            )
        )
    return tuple(sorted(gpus, key=lambda gpu: gpu.address))


def parse_model(text: str) -> str:
    """Return the model out of the driver's ``information`` file."""
    match = re.search(r"^Model:\s+(.+)$", text, re.MULTILINE)
    return match.group(1).strip() if match else ""


def observe_nics(reader: Reader, functions: Mapping[str, Function]) -> tuple[Nic, ...]:
    """Return the network cards' functions."""
    cards = [function for function in functions.values() if function.kind.startswith("02")]
    return tuple(observe_nic(reader, card) for card in sorted(cards, key=lambda card: card.address))


def observe_nic(reader: Reader, card: Function) -> Nic:
    """Return one function of a network card; of several interfaces or ports the first counts."""
    interfaces = reader.host.glob(f"{card.path}/net/*") or reader.host.glob(f"{card.path}/virtio*/net/*")
    devices = reader.host.glob(f"{card.path}/infiniband/*")
    interface, device = next(iter(interfaces), None), next(iter(devices), None)
    total, made = (reader.number(f"{card.path}/sriov_{name}") for name in ("totalvfs", "numvfs"))
    link_type, up, speed = "ethernet", None, None
    if interface:
        state = reader.text(f"{interface}/operstate") or "unknown"
        up = None if state == "unknown" else state == "up"
        megabits = reader.number(f"{interface}/speed")
        speed = megabits / 1000 if megabits and megabits > 0 else None
    if device:
        state, rate = (reader.text(f"{device}/ports/1/{name}") or "" for name in ("state", "rate"))
        link_type = "infiniband" if reader.text(f"{device}/ports/1/link_layer") == "InfiniBand" else "roce"
        up = "ACTIVE" in state if state else up
        match = re.match(r"(\d+(?:\.\d+)?) Gb/sec", rate)
        speed = float(match.group(1)) if match and up else speed
    if card.id.startswith(MELLANOX) and card.kind == "0207":
        link_type = "nvlink" if NVLINK_BRIDGE in (reader.text(f"{card.path}/vpd") or "") else "infiniband"
    return Nic(
        address=card.address,
        id=card.id,
        interface=interface.rpartition("/")[2] if interface else "",
        rdma=device.rpartition("/")[2] if device else "",
        link_type=link_type,
        up=up,
        speed_gbps=speed,
        driver=card.driver,
        numa_node=card.numa_node,
        link=card.link,
        virtual_functions=(made or 0, total) if total else None,
    )


def observe_acs(reader: Reader, functions: Mapping[str, Function], devices: list[str]) -> dict[str, Optional[bool]]:
    """Look at the bridges above the devices, each once."""
    above = {address: functions[address] for device in devices for address in functions[device].way if address in functions}
    bridges = [bridge for bridge in above.values() if bridge.kind == BRIDGE]
    return {bridge.address: parse_acs(reader.data(f"{bridge.path}/config", CONFIG_BYTES)) for bridge in bridges}
