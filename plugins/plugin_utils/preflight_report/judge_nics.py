# SPDX-License-Identifier: Apache-2.0
"""Network cards declared against found, how near the GPUs are to them, and what stands between. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.hardware_pci import LEVELS, NODE, SYS, nearest
from ansible_collections.bedplate.metal.plugins.module_utils.wording import listing
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.model_fabric import RDMA_FABRICS

from .row import DIFFERS, OK, Row, judged, unknown

AFFINITY = "a card of the fabric near every GPU"
ACS = "no redirection between GPUs and cards"
Nics = Sequence[Mapping[str, Any]]


def judge_nics(spec: Mapping[str, Any], hardware: Mapping[str, Any]) -> list[Row]:
    """Return a row for each declared card: of those whose name the host has, and for names of rails any other of the fabric."""
    cards = [nic for nic in hardware["nics"] if nic["link_type"] != "nvlink"]
    declared = spec.get("nics") or []
    if declared and not hardware["pci"]:
        step = "look at the machine itself: containers do not show the bus"
        return [unknown(f"NIC {nic['name']}", wanted_text(nic), "the host shows no PCI bus", step) for nic in declared]
    named = {nic["name"]: card for nic in declared for card in cards if nic["name"] in (card["interface"], card["rdma"])}
    rest = [card for card in cards if card not in named.values()]
    rows = []
    for nic in declared:
        card = named.get(nic["name"]) or take(rest, nic)
        rows.append(judge_nic(nic, card))
    return rows


def take(cards: list[Mapping[str, Any]], nic: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Take the card that suits best: of the fabric, up, of the speed wanted."""
    wanted = nic["speed_gbps"] or 0
    suiting = [card for card in cards if suits(card, nic["fabric"])]
    best = min(suiting, key=lambda card: (not card["up"], abs((card["speed_gbps"] or 0) - wanted), card["address"]), default=None)
    if best is not None:
        cards.remove(best)
    return best


def suits(card: Mapping[str, Any], fabric: str) -> bool:
    """Tell whether a card can be on a fabric: one that does RDMA over Ethernet is an Ethernet card as well."""
    return card["link_type"] == fabric or (fabric == "ethernet" and card["link_type"] == "roce")


def wanted_text(nic: Mapping[str, Any]) -> str:
    """Return what is declared of a card."""
    return f"{nic['fabric']}, {nic['speed_gbps']} Gb/s" if nic["speed_gbps"] else str(nic["fabric"])


def judge_nic(nic: Mapping[str, Any], card: Mapping[str, Any] | None) -> Row:
    """Return the row of one declared card."""
    what, wanted = f"NIC {nic['name']}", wanted_text(nic)
    if card is None:
        step = "see whether the card is on the bus (lspci) and its driver loaded, or correct nics of the pool"
        return Row(what, wanted, f"no {nic['fabric']} card of that name, and none left over", DIFFERS, step)
    name = " ".join(dict.fromkeys(part for part in (card["rdma"], card["interface"]) if part)) or card["address"]
    speed = f", {card['speed_gbps']:g} Gb/s" if card["speed_gbps"] else ""
    found = f"{name}: {card['link_type']}{speed}{'' if card['up'] else ', link is down' if card['up'] is False else ''}"
    if not suits(card, nic["fabric"]):
        step = "correct fabric of this card, or set the port's type (mlxconfig LINK_TYPE_P1)"
        return Row(what, wanted, found, DIFFERS, step)
    if card["up"] is False:
        step = "see cable and switch port; InfiniBand also needs a subnet manager to become active"
        return Row(what, wanted, found, DIFFERS, step)
    if nic["speed_gbps"] and card["speed_gbps"] is None:
        return unknown(what, wanted, f"{found}, and the card does not say its speed", "see ethtool or ibstat on the host")
    slow = bool(nic["speed_gbps"]) and card["speed_gbps"] < nic["speed_gbps"]
    return judged(what, wanted, found, not slow, "see cable, transceiver and the switch port's speed, or correct speed_gbps")


def judge_affinity(spec: Mapping[str, Any], hardware: Mapping[str, Any]) -> list[Row]:
    """On an RDMA fabric every GPU wants a card near it: none across NUMA nodes, and with a card for each all equally near."""
    fabric = spec["fabric"]
    cards = {nic["address"]: nic for nic in hardware["nics"] if nic["link_type"] == fabric}
    ways = {gpu: nearest([found for nic, found in to.items() if nic in cards]) for gpu, to in hardware["affinity"].items()}
    if fabric not in RDMA_FABRICS or not ways:
        return []
    rows = [judge_redirection(hardware["acs"], fabric)]
    step = "put the card into a slot of the GPU's own switch or NUMA node, as the maker's slot table says"
    if not cards:
        return [Row("GPU–NIC affinity", AFFINITY, f"no {fabric} card", DIFFERS, "see the rows about NICs"), *rows]
    silent = [gpu for gpu, way in ways.items() if way is None]
    if silent:
        reason = f"the firmware does not say the NUMA node of {listing(silent)} or of its cards"
        return [unknown("GPU–NIC affinity", AFFINITY, reason, "see NUMA in the firmware's settings"), *rows]
    known = [way for way in ways.values() if way is not None]
    best = min(known, key=LEVELS.index)
    worst_allowed = max(best, NODE, key=LEVELS.index) if len(cards) < len(ways) else best
    far = [f"{gpu} {way}" for gpu, way in ways.items() if way is not None and LEVELS.index(way) > LEVELS.index(worst_allowed)]
    far += [f"{gpu} {way}" for gpu, way in ways.items() if way == SYS and not far]
    counts = {way: known.count(way) for way in LEVELS if way in known}
    found = ", ".join(f"{count} × {way}" for way, count in counts.items())
    text = f"{found}; far: {listing(far)}" if far else found
    return [judged("GPU–NIC affinity", AFFINITY, text, not far, step), *rows]


def judge_redirection(acs: Mapping[str, bool | None], fabric: str) -> Row:
    """Access control on the bridges, which sends what GPUs and cards tell each other through the processors (NCCL's
    documentation, "PCI Access Control Services (ACS)").
    """
    redirecting = [bridge for bridge, state in acs.items() if state]
    silent = [bridge for bridge, state in acs.items() if state is None]
    what, declared = "PCIe access control (ACS)", f"fabric {fabric}: {ACS}"
    if not redirecting and (silent or not acs):
        reason = f"the configuration of {listing(silent)} is not shown" if silent else "the host shows no bridges above them"
        return unknown(what, declared, reason, "see lspci -vvv as root (ACSCtl)")
    step = "switch ACS or the IOMMU off in the firmware, unless virtual machines get these devices"
    found = f"on at {listing(redirecting)}" if redirecting else f"off at {len(acs)} bridge{'s' if len(acs) != 1 else ''}"
    return Row(what, declared, found, DIFFERS if redirecting else OK, step if redirecting else "")
