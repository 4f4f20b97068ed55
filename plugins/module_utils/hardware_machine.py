# SPDX-License-Identifier: Apache-2.0
"""The machine itself: who made it, processors, memory, NUMA nodes, firmware. Serial numbers of the machine are left out: reports
are passed on. A value the host does not show is None."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Optional

from .hardware_pci import Reader
from .secure_boot import VARIABLE

DMI = "/sys/class/dmi/id"
DMI_ITEMS = ("sys_vendor", "product_name", "board_name", "bios_vendor", "bios_version", "bios_date")
NODES = "/sys/devices/system/node"
IOMMU_GROUPS = "/sys/kernel/iommu_groups"
BMC_PLACES = ("/sys/class/ipmi/*", "/sys/firmware/dmi/entries/38-*")
"""A driver's device, or the firmware's record of a management controller (SMBIOS type 38, "IPMI Device Information")."""
DMIDECODE_TIMEOUT_SECONDS = 10
_UNITS = {"kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}


@dataclass(frozen=True)
class Processors:
    """threads: what Kubernetes calls CPUs. sockets and cores: None where /proc/cpuinfo does not number them."""

    model: str = ""
    threads: int = 0
    sockets: Optional[int] = None
    cores: Optional[int] = None


@dataclass(frozen=True)
class Dimms:
    """Memory modules as the firmware lists them: how many of one size in bytes and configured speed in MT/s (None unknown)."""

    count: int
    size_bytes: int
    speed_mts: Optional[int] = None


@dataclass(frozen=True)
class Firmware:
    """secure_boot: ``on``, ``off``, ``no UEFI``, or None. bmc: whether there is a management controller."""

    secure_boot: Optional[str] = None
    bmc: Optional[bool] = None


@dataclass(frozen=True)
class Iommu:
    """groups: how many the kernel made, 0 for no translation. kind: of the first group, ``identity`` is passthrough.
    options: what the command line says of it.
    """

    groups: int = 0
    kind: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """numa_nodes: NUMA nodes with processors, by number with their CPU list."""

    dmi: dict[str, str] = field(default_factory=dict)
    processors: Processors = field(default_factory=Processors)
    numa_nodes: Optional[dict[str, str]] = None
    dimms: Optional[tuple[Dimms, ...]] = None
    firmware: Firmware = field(default_factory=Firmware)
    iommu: Iommu = field(default_factory=Iommu)
    kernel_build: str = ""


def observe_machine(reader: Reader) -> Machine:
    """Look at /proc and /sys; the only command is dmidecode, where it is installed."""
    dmi = {item: text for item in DMI_ITEMS if (text := reader.text(f"{DMI}/{item}"))}
    builds = (reader.text("/proc/version"), reader.text("/proc/version_signature"))
    modules = reader.host.run(["dmidecode", "--type", "17"], timeout_seconds=DMIDECODE_TIMEOUT_SECONDS)
    return Machine(
        dmi=dmi,
        processors=parse_processors(reader.text("/proc/cpuinfo") or ""),
        numa_nodes=observe_numa_nodes(reader),
        dimms=parse_dimms(modules.out) if modules.ok else None,
        firmware=Firmware(observe_secure_boot(reader), observe_bmc(reader)),
        iommu=observe_iommu(reader),
        kernel_build=" ".join(text for text in builds if text),
    )


def parse_processors(text: str) -> Processors:
    """Read /proc/cpuinfo: a block per hardware thread."""
    blocks = [dict(re.findall(r"^([\w ]+?)\s*: ?(.*)$", block, re.MULTILINE)) for block in text.split("\n\n")]
    blocks = [block for block in blocks if "processor" in block]
    model = next((block["model name"] for block in blocks if block.get("model name")), "")
    sockets = {block["physical id"] for block in blocks if "physical id" in block}
    cores = {(block["physical id"], block["core id"]) for block in blocks if "physical id" in block and "core id" in block}
    return Processors(" ".join(model.split()), len(blocks), len(sockets) or None, len(cores) or None)


def observe_numa_nodes(reader: Reader) -> Optional[dict[str, str]]:
    """Return the CPU lists of NUMA nodes that have processors; None on a host that shows no nodes."""
    paths = reader.host.glob(f"{NODES}/node[0-9]*/cpulist")
    return {path.split("/")[-2][len("node") :]: cpus for path in paths if (cpus := reader.text(path))} or None


def parse_dimms(text: str) -> Optional[tuple[Dimms, ...]]:
    """Read ``dmidecode --type 17``; None where it lists no module (virtual machines, containers)."""
    counts: dict[tuple[int, Optional[int]], int] = {}
    for block in text.split("\n\n"):
        size = re.search(r"^\s+Size: (\d+) (kB|MB|GB|TB)$", block, re.MULTILINE)
        speed = re.search(r"^\s+Configured (?:Memory|Clock) Speed: (\d+) (?:MT/s|MHz)$", block, re.MULTILINE)
        if size:
            key = int(size.group(1)) * _UNITS[size.group(2)], int(speed.group(1)) if speed else None
            counts[key] = counts.get(key, 0) + 1
    return tuple(Dimms(count, bytes_, mts) for (bytes_, mts), count in counts.items()) or None


def observe_secure_boot(reader: Reader) -> Optional[str]:
    """Return the firmware's own word; the variable is four bytes of attributes and one of state."""
    state = reader.data(VARIABLE, 5)
    if state and len(state) == 5:
        return "on" if state[4] == 1 else "off"
    if reader.host.exists("/sys/firmware/efi"):
        return None
    return "no UEFI" if reader.host.exists(DMI) else None


def observe_bmc(reader: Reader) -> Optional[bool]:
    """Tell whether there is a management controller; None where the firmware's tables are not shown."""
    if any(reader.host.glob(place) for place in BMC_PLACES):
        return True
    return False if reader.host.exists("/sys/firmware/dmi/entries") else None


def observe_iommu(reader: Reader) -> Iommu:
    """Look at the kernel's groups and its command line."""
    groups = reader.names(f"{IOMMU_GROUPS}/[0-9]*")
    words = (reader.text("/proc/cmdline") or "").split()
    options = tuple(word for word in words if re.match(r"(intel_|amd_)?iommu(\.\w+)?=", word))
    return Iommu(len(groups), reader.text(f"{IOMMU_GROUPS}/{groups[0]}/type") or "" if groups else "", options)
