# SPDX-License-Identifier: Apache-2.0
"""Addresses and MTU of fabric cards, by systemd-networkd: one file per card, which sorts before those netplan generates.

networkd touches only the cards it has a file for, so it works beside ifupdown and NetworkManager if those leave the card alone.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from .core import DRAIN, Change, Problem
from .errors import BedplateError
from .fabric_devices import INFINIBAND, MAC, PCI, Device, Nic, find, observe_devices
from .host import Host
from .network import Address, Network
from .operations import RemoveFile, RunCommand, file_change, last_lines

DIRECTORY = "/etc/systemd/network"
PREFIX = "05-bedplate-"
SETTINGS = "/etc/systemd/networkd.conf.d/50-bedplate.conf"
SERVICE = "systemd-networkd"
HEADER = "# Written by Bedplate; changes are overwritten.\n"
FOREIGN = (
    f"{HEADER}# networkd would otherwise remove rules and routes that the pod network made (networkd.conf(5)).\n"
    "[Network]\nManageForeignRoutingPolicyRules=no\nManageForeignRoutes=no\n"
)
WAIT_SECONDS = 30.0
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class NetworkState:
    """What is there. files: ours by path. in_use: networkd's file of a card's interface. addresses: of all interfaces.
    other: who else manages an interface. management: interfaces the host is reached by. running, enabled: networkd.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    settings: Optional[str] = None
    in_use: Mapping[str, str] = field(default_factory=dict)
    addresses: tuple[Address, ...] = ()
    other: Mapping[str, str] = field(default_factory=dict)
    management: frozenset[str] = frozenset()
    running: bool = False
    enabled: bool = False


def path_of(nic: Nic) -> str:
    """Return the file of a card."""
    return f"{DIRECTORY}/{PREFIX}{nic.name}.network"


def file_of(nic: Nic, device: Device) -> str:
    """Return the text of a card's file. A card counts as online without a cable: none may hold up the boot."""
    kind = "infiniband" if nic.fabric == INFINIBAND else "ether"
    if MAC.fullmatch(nic.device):
        match = f"MACAddress={nic.device.lower()}\nType={kind}"  # a VLAN or bridge above has the same address
    elif PCI.fullmatch(nic.device) or nic.device != device.netdev:
        match = f"Path=pci-{device.pci}\nType={kind}"
    else:
        match = f"Name={device.netdev}"
    mtu = f"MTUBytes={nic.mtu}\n" if nic.mtu else ""
    return (
        f"{HEADER}[Match]\n{match}\n\n[Link]\nRequiredForOnline=no-carrier\n{mtu}\n"
        f"[Network]\nAddress={nic.address}\nConfigureWithoutCarrier=yes\nIPv6AcceptRA=no\n"
    )


def observe_network(
    host: Host, network: Network, nics: tuple[Nic, ...], devices: tuple[Device, ...], management: frozenset[str]
) -> NetworkState:
    """Read networkd's files and state; one systemctl where a card has an address."""
    paths = host.glob(f"{DIRECTORY}/{PREFIX}*.network")
    files = {path: text for path in paths if (text := host.read(path)) is not None}
    addressed = [nic for nic in nics if nic.address]
    if not addressed:
        return NetworkState(files=files, settings=host.read(SETTINGS), management=management)
    found = [device for nic in addressed if (device := find(nic, devices)[0]) is not None and device.netdev]
    shown = host.run(["systemctl", "show", SERVICE, "-p", "ActiveState", "-p", "UnitFileState"]).out
    return NetworkState(
        files=files,
        settings=host.read(SETTINGS),
        in_use={device.netdev: _file_in_use(host, device.index) for device in found},
        addresses=tuple(network.addresses()),
        other={device.netdev: who for device in found if (who := other_manager(host, device))},
        management=management,
        running="ActiveState=active" in shown,
        enabled="UnitFileState=enabled" in shown,
    )


def _file_in_use(host: Host, index: str) -> str:
    match = re.search(r"^NETWORK_FILE=(\S+)", host.read(f"/run/systemd/netif/links/{index}") or "", re.MULTILINE)
    return match[1] if match else ""


def other_manager(host: Host, device: Device) -> str:
    """Return who else configures an interface: ifupdown or NetworkManager; "" for nobody."""
    stanza = re.compile(rf"^\s*iface\s+{re.escape(device.netdev)}\s", re.MULTILINE)
    for path in ("/etc/network/interfaces", *host.glob("/etc/network/interfaces.d/*")):
        if stanza.search(host.read(path) or ""):
            return f"ifupdown ({path})"
    state = host.read(f"/run/NetworkManager/devices/{device.index}") or ""
    return "NetworkManager" if re.search(r"^(managed=true|connection-uuid=)", state, re.MULTILINE) else ""


def plan_network(
    state: NetworkState, nics: tuple[Nic, ...], found: Mapping[str, Device], network: Network
) -> tuple[list[Change], list[Problem]]:
    """Plan networkd itself, each card's file, and the address where it is not there yet."""
    addressed = [nic for nic in nics if nic.address and nic.name in found]
    wanted = {path_of(nic): file_of(nic, found[nic.name]) for nic in addressed}
    changes: list[Change] = []
    problems: list[Problem] = []
    if addressed:
        changes += file_change(SETTINGS, state.settings, FOREIGN)
        if not state.enabled:
            enable = RunCommand(("systemctl", "enable", "--no-reload", f"{SERVICE}.service"), f"enable {SERVICE}")
            changes.append(Change(f"service {SERVICE} enabled", False, True, operation=enable))
        if not state.running:
            start = RunCommand(("systemctl", "start", f"{SERVICE}.service"), f"start {SERVICE}")
            changes.append(Change(f"service {SERVICE}", "inactive", "active", operation=start))
    elif state.settings == FOREIGN:
        changes.append(Change(f"file {SETTINGS}", state.settings, None, operation=RemoveFile(SETTINGS)))
    for nic in addressed:
        card, refused = _plan_card(state, nic, found[nic.name], wanted[path_of(nic)], network)
        changes += card
        problems += refused
    gone = [path for path in state.files if path not in wanted]
    changes += [Change(f"file {p}", state.files[p], None, frozenset({DRAIN}), RemoveFile(p)) for p in gone]
    return changes, problems


def _plan_card(state: NetworkState, nic: Nic, device: Device, text: str, network: Network) -> tuple[list[Change], list[Problem]]:
    path = path_of(nic)
    has = [f"{a.address}/{a.prefix}" for a in state.addresses if device.netdev and a.interface == device.netdev]
    before = {"addresses": has, "mtu": device.mtu, "file": state.in_use.get(device.netdev, "")}
    right = nic.address in has and nic.mtu in (None, device.mtu) and before["file"] == path
    disturbs = frozenset({DRAIN}) if has or path in state.files else NONE
    changes = file_change(path, state.files.get(path), text, effects=disturbs)
    if right and not changes:
        return [], []
    what = f"card {nic.name} ({device})"
    if device.netdev in state.other:
        step = f"take {device.netdev} out of its configuration, or leave the card's address out of fabric_addresses"
        return [], [Problem(what, f"configured by {state.other[device.netdev]}", "left to systemd-networkd", step)]
    if device.netdev in state.management:
        step = "leave this card's address out of fabric_addresses: RDMA works over the address it has"
        return [], [Problem(what, "the card this host is reached by", "a card of the fabric alone", step)]
    after = {"addresses": [nic.address], "mtu": nic.mtu or device.mtu, "file": path}
    needs = (f"file {path}", f"service {SERVICE}")
    # also after a changed file alone: networkd must read it
    changes.append(Change(f"address of {nic.name}", before, after, disturbs, Configure(nic, network), needs))
    return changes, []


@dataclass(frozen=True)
class Configure:
    """Operation: let networkd read its files and configure a card, and wait until the card has its address."""

    nic: Nic
    network: Network

    def perform(self, host: Host) -> None:
        """Reload and wait; raise :class:`BedplateError` with networkd's own words when the address does not come."""
        result = host.run(["networkctl", "reload"], timeout_seconds=60)
        device, _problem = find(self.nic, observe_devices(host))
        netdev = device.netdev if device else ""
        if result.ok and netdev:
            result = host.run(["networkctl", "reconfigure", netdev], timeout_seconds=60)
        until = self.network.monotonic() + WAIT_SECONDS
        while result.ok and netdev and self.network.monotonic() < until:
            if any(a.interface == netdev and f"{a.address}/{a.prefix}" == self.nic.address for a in self.network.addresses()):
                return
            self.network.sleep(0.5)
        said = last_lines(result.err) or last_lines(host.run(["networkctl", "status", "--no-pager", netdev or "--all"]).out, 5)
        raise BedplateError(
            f"address of {self.nic.name}: found none on {netdev or self.nic.device} within {WAIT_SECONDS:g} s; wanted "
            f"{self.nic.address}. networkd says:\n{said}\nNext: journalctl -u {SERVICE} on the host names the reason"
        )


def normal_address(text: str) -> str:
    """Return an address with its prefix length in canonical form; raise ValueError for anything else."""
    if "/" not in text:
        raise ValueError(f"{text}: found no prefix length; wanted an address with one, for example 10.88.0.11/24")
    return str(ipaddress.ip_interface(text))
