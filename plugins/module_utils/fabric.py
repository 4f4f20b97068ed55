# SPDX-License-Identifier: Apache-2.0
"""The fabric of a host: the RDMA stack, its modules, soft-RoCE devices, lossless RoCE, and addresses of the fabric's cards.

Locked memory for RDMA pods is the container runtime's (container_runtime), GPUDirect the driver's (nvidia_driver).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import Change, Component, Plan, Problem
from .fabric_devices import (
    INFINIBAND,
    SOFT_ROCE,
    Device,
    Nic,
    Port,
    find,
    judge_port,
    lower_devices,
    modules,
    observe_devices,
    observe_port,
)
from .fabric_network import NetworkState, observe_network, plan_network
from .fabric_roce import RoceState, observe_roce, plan_roce
from .fabric_stack import INBOX, StackState, management_problems, observe_stack, plan_stack
from .host import Host
from .kernel_state import LoadModule, module_loaded
from .network import LocalNetwork, Network, same_address
from .operations import RemoveFile, file_change
from .preflight_facts import parse_default_interfaces

MODULES_FILE = "/etc/modules-load.d/91-bedplate-fabric.conf"
PEERMEM = "/sys/module/nvidia_peermem"


@dataclass(frozen=True)
class FabricDesired:
    """nics: the host's declared cards. stack: inbox or doca; version: of doca-ofed, None for the repository's. out_of_band: bmc,
    serial or "": the other way to the host. management_address: the one Ansible reaches the host at, "" for unknown.
    """

    nics: tuple[Nic, ...] = ()
    stack: str = INBOX
    version: Optional[str] = None
    out_of_band: str = ""
    management_address: str = ""
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS


@dataclass(frozen=True)
class FabricObserved:
    """found: the device of each card; missing: why a card has none. loaded: of the modules wanted. ports: by card."""

    devices: tuple[Device, ...] = ()
    found: Mapping[str, Device] = field(default_factory=dict)
    missing: tuple[Problem, ...] = ()
    stack: StackState = field(default_factory=StackState)
    modules: tuple[str, ...] = ()
    loaded: frozenset[str] = frozenset()
    modules_file: Optional[str] = None
    roce: RoceState = field(default_factory=RoceState)
    network: NetworkState = field(default_factory=NetworkState)
    ports: Mapping[str, Port] = field(default_factory=dict)
    peermem: bool = False


class Fabric(Component[FabricDesired, FabricObserved]):
    """See the module's docstring."""

    name: ClassVar[str] = "fabric"

    def __init__(self, network: Network | None = None) -> None:
        self.network = network or LocalNetwork()

    def observe(self, host: Host, desired: FabricDesired) -> FabricObserved:
        """Read /sys and /proc; one dpkg-query, one systemctl where a card has an address, two dcb per lossless card."""
        devices = observe_devices(host)
        answers = {nic.name: find(nic, devices) for nic in desired.nics}
        found = {name: device for name, (device, _problem) in answers.items() if device is not None}
        wanted = modules(desired.nics, found)
        release = (host.read("/proc/sys/kernel/osrelease") or "").strip()
        builtin = host.read(f"/lib/modules/{release}/modules.builtin") or ""
        ports = {nic.name: observe_port(host, found[nic.name].rdma) for nic in desired.nics if nic.rdma and nic.name in found}
        return FabricObserved(
            devices=devices,
            found=found,
            missing=tuple(problem for _device, problem in answers.values() if problem is not None),
            stack=observe_stack(host, desired.stack, desired.nics),
            modules=wanted,
            loaded=frozenset(m for m in wanted if module_loaded(host, m, builtin)),
            modules_file=host.read(MODULES_FILE),
            roce=observe_roce(host, desired.nics, found),
            network=observe_network(host, self.network, desired.nics, devices, self._management(host, desired)),
            ports={name: port for name, port in ports.items() if port is not None},
            peermem=host.exists(PEERMEM),
        )

    def plan(self, observed: FabricObserved, desired: FabricDesired) -> Plan:
        """Packages, modules, devices, addresses, in this order: each needs the one before."""
        changes, problems = plan_stack(observed.stack, desired.stack, desired.version, desired.nics, desired.lock_timeout_seconds)
        problems += management_problems(changes, observed.devices, observed.network.management, desired.out_of_band)
        modules_changes = plan_modules(observed)
        changes += modules_changes
        roce, refused = plan_roce(observed.roce, desired.nics, observed.found)
        problems += refused
        network, refused = plan_network(observed.network, desired.nics, observed.found, self.network)
        problems += refused
        # a module that is still to be loaded may be what brings an RDMA device
        problems += [*observed.missing, *check_devices(observed, desired, coming=bool(changes))]
        return Plan([*changes, *roce, *network], problems)

    def _management(self, host: Host, desired: FabricDesired) -> frozenset[str]:
        """Return the interfaces the host is reached by: the default route's and that of Ansible's address; also those below."""
        routes = parse_default_interfaces(host.read("/proc/net/route") or "", host.read("/proc/net/ipv6_route") or "")
        names = set(routes)
        if desired.management_address:
            own = self.network.addresses()
            names |= {a.interface for a in own if same_address(a.address, desired.management_address)}
        return frozenset[str]().union(*(lower_devices(host, name) for name in names))


def plan_modules(observed: FabricObserved) -> list[Change]:
    """Load what is missing and keep it loaded at boot."""
    changes = [
        Change(f"module {m}", "not loaded", "loaded", operation=LoadModule(m))
        for m in observed.modules
        if m not in observed.loaded
    ]
    if observed.modules:
        text = "# Written by Bedplate; changes are overwritten.\n" + "".join(f"{m}\n" for m in observed.modules)
        return changes + file_change(MODULES_FILE, observed.modules_file, text)
    if observed.modules_file is not None:
        changes.append(Change(f"file {MODULES_FILE}", observed.modules_file, None, operation=RemoveFile(MODULES_FILE)))
    return changes


def check_devices(observed: FabricObserved, desired: FabricDesired, coming: bool) -> list[Problem]:
    """Return what is wrong with cards that were found: no interface, no RDMA device, or a port that carries nothing."""
    problems = []
    for nic in desired.nics:
        device = observed.found.get(nic.name)
        if device is None:
            continue
        if nic.address and not device.netdev and not coming:
            step = "look why its interface is missing (dmesg); ib_ipoib makes that of an InfiniBand card"
            problems.append(Problem(f"card {nic.name} ({device})", "no interface", f"one for {nic.address}", step))
        if nic.name in observed.ports:
            problems += judge_port(nic, device.rdma, observed.ports[nic.name])
        elif nic.rdma and nic.fabric != SOFT_ROCE and not coming:
            step = "look at the card's driver (dmesg, lspci -k), or correct the card's fabric in the pool's nics"
            problems.append(Problem(f"card {nic.name} ({device})", "no RDMA device", f"one for {nic.fabric}", step))
    return problems


def public_fabric(observed: FabricObserved) -> dict[str, Any]:
    """Return what was found of the cards, as JSON types: by card its device and port; GPUDirect by peermem or not."""
    return {
        "cards": {
            name: {
                "interface": device.netdev,
                "rdma": device.rdma,
                "pci": device.pci,
                **(vars(observed.ports[name]) if name in observed.ports else {}),
            }
            for name, device in observed.found.items()
        },
        "peermem": observed.peermem,
    }


def check_nics(nics: tuple[Nic, ...]) -> None:
    """Raise ValueError for two cards of one name and for settings that their fabric has not."""
    names = [nic.name for nic in nics]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"nics: found {', '.join(twice)} twice; wanted each card once. Next: correct the pool's nics")
    for nic in nics:
        if nic.mtu and not nic.address:
            wanted = "an address too: both are set by one file"
            raise ValueError(f"nics: found {nic.name} with an MTU alone; wanted {wanted}. Next: give it one in fabric_addresses")
        if nic.fabric == INFINIBAND and nic.traffic is not None:
            raise ValueError(f"nics: found roce settings on {nic.name}; wanted them on roce cards alone. Next: remove them")
