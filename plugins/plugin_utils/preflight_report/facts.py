# SPDX-License-Identifier: Apache-2.0
"""The facts of a host in words, for the page: a list about the system and tables of its devices. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.hardware_pci import LEVELS
from ansible_collections.bedplate.metal.plugins.module_utils.wording import listing

from .judge_gpus import link_text, most_text
from .row import modules_text, size

WAYS = {
    "PIX": "at most one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the host bridge",
    "NODE": "several host bridges of a NUMA node",
    "SYS": "between NUMA nodes",
}
NOT_SHOWN = "not shown"


@dataclass(frozen=True)
class FactTable:
    """A table of devices; the first cell of a row names the device."""

    title: str
    label: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def system_facts(observed: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a host is, in the order it is read."""
    if not observed:
        return []
    offset, roots = observed["clock_offset_seconds"], observed["disk_free_bytes"]
    disks = [f"{size(free)} below {path}" for path, free in roots.items()]
    facts = [
        ("operating system", f"{observed['distribution']}, {observed['architecture']}"),
        ("kernel", observed["kernel"]),
        ("memory", size(observed["memory_bytes"])),
        ("free disk space", ", ".join(disks)),
        ("clock", f"{offset:+.3f} s" if offset is not None else "not measured: the site names no time servers that answered"),
        ("time service", listing(observed["time_services"]) or "none active"),
        ("default route", listing(observed["default_interfaces"]) or "none"),
        ("packages held back", listing(observed["held_packages"], 8) or "none"),
        ("Kubernetes", {"none": "none yet", "partial": "half installed"}.get(observed["kubelet"]["state"], "a node")),
    ]
    hardware = observed.get("hardware")
    if not hardware:
        return facts
    refused = [f"{path} ({reason})" for path, reason in hardware["refused"].items()]
    return [*machine_facts(hardware["machine"]), *facts, *([("refused to be read", listing(refused, 8))] if refused else [])]


def machine_facts(machine: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the machine is made of."""
    dmi, cpus, iommu, bmc = machine["dmi"], machine["processors"], machine["iommu"], machine["firmware"]["bmc"]
    counts = (("sockets", cpus["sockets"]), ("cores", cpus["cores"]), ("threads", cpus["threads"]))
    maker = " ".join(dict.fromkeys(dmi[key] for key in ("sys_vendor", "product_name") if key in dmi))
    firmware = " ".join(dmi[key] for key in ("bios_vendor", "bios_version", "bios_date") if key in dmi)
    groups = [f"{iommu['groups']} device groups", iommu["kind"]] if iommu["groups"] else ["no device groups"]
    nodes = [f"node {number}: {cpulist}" for number, cpulist in sorted((machine["numa_nodes"] or {}).items())]
    return [
        ("machine", maker or NOT_SHOWN),
        ("firmware", firmware or NOT_SHOWN),
        ("Secure Boot", machine["firmware"]["secure_boot"] or NOT_SHOWN),
        ("management controller", NOT_SHOWN if bmc is None else "yes" if bmc else "none"),
        ("processors", ", ".join([cpus["model"] or "unknown model", *(f"{n} {word}" for word, n in counts if n)])),
        ("NUMA", "; ".join(nodes) or NOT_SHOWN),
        ("memory modules", modules_text(machine["dimms"]) or "not shown (needs dmidecode and a machine of its own)"),
        ("IOMMU", ", ".join(word for word in (*groups, *iommu["options"]) if word)),
    ]


def tables(name: str, observed: Mapping[str, Any]) -> list[FactTable]:
    """Return the tables of a host's devices."""
    hardware = observed.get("hardware")
    if not hardware:
        return []
    return [gpus(name, hardware), affinity(name, hardware), nics(name, hardware), disks(name, hardware)]


def gpus(name: str, hardware: Mapping[str, Any]) -> FactTable:
    """Return the GPUs."""
    switches = len(hardware["nvswitches"])
    rows = [
        (
            gpu["address"],
            gpu["name"] if gpu["id"] else gpu["model"],
            numa(gpu),
            link_text(gpu["link"]) or NOT_SHOWN,
            most_text(gpu["link"]) or NOT_SHOWN,
            size(gpu["bar1_bytes"]) if gpu["bar1_bytes"] is not None else NOT_SHOWN,
            gpu["driver"] or "none",
        )
        for gpu in hardware["gpus"]
    ]
    columns = ("PCI address", "model", "NUMA node", "link", "at most", "BAR1", "driver")
    return FactTable("GPUs" + (f" and {switches} NVSwitches" if switches else ""), f"GPUs of {name}", columns, rows)


def affinity(name: str, hardware: Mapping[str, Any]) -> FactTable:
    """Return the ways between GPUs and network cards."""
    near = [nic for nic in hardware["nics"] if nic["link_type"] != "nvlink"]
    if not near:
        return FactTable("", "", (), ())
    rows = [(gpu, *(ways.get(nic["address"]) or "?" for nic in near)) for gpu, ways in hardware["affinity"].items()]
    used = [way for way in LEVELS if any(way in row for row in rows)]
    legend = ", ".join(f"{way} {WAYS[way]}" for way in used)
    return FactTable(f"Way between GPU and network card: {legend}", f"Affinity of {name}", ("GPU", *map(title, near)), rows)


def nics(name: str, hardware: Mapping[str, Any]) -> FactTable:
    """Return the network cards."""
    rows = [
        (
            title(nic),
            nic["address"],
            nic["name"],
            "manages NVSwitches" if nic["link_type"] == "nvlink" else nic["link_type"],
            {True: "up", False: "down", None: "unknown"}[nic["up"]],
            f"{nic['speed_gbps']:g} Gb/s" if nic["speed_gbps"] else "–",
            numa(nic),
            link_text(nic["link"]) or NOT_SHOWN,
            "{} of {}".format(*nic["virtual_functions"]) if nic["virtual_functions"] else "–",
        )
        for nic in hardware["nics"]
    ]
    columns = ("name", "PCI address", "model", "kind", "link", "speed", "NUMA node", "PCIe", "virtual functions")
    return FactTable("Network cards", f"Network cards of {name}", columns, rows)


def disks(name: str, hardware: Mapping[str, Any]) -> FactTable:
    """Return the NVMe disks."""
    rows = [
        (
            disk["serial"] or disk["name"],
            disk["model"],
            size(disk["size_bytes"]),
            "blank" if disk["blank"] else ", ".join(disk["carries"]) or "unknown: udev does not know it",
            disk["name"],
            disk["address"],
        )
        for disk in hardware["disks"]
    ]
    columns = ("serial", "model", "size", "carries", "name now", "PCI address")
    return FactTable("NVMe disks", f"NVMe disks of {name}", columns, rows)


def numa(device: Mapping[str, Any]) -> str:
    """Return a device's NUMA node."""
    return NOT_SHOWN if device["numa_node"] is None else str(device["numa_node"])


def title(nic: Mapping[str, Any]) -> str:
    """Return what a card is called on the host."""
    return str(nic["rdma"] or nic["interface"] or nic["address"])
