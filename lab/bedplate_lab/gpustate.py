# SPDX-License-Identifier: Apache-2.0
"""The state of a host's simulated GPUs: made from a profile, read, altered, written. Its format is in lab/gpu-sim/README.md."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache as remember
from typing import Any

import yaml

from bedplate_lab.errors import LabError
from bedplate_lab.paths import PACKAGING

DIRECTORY = PACKAGING.parent / "gpu-sim"
PROFILES = DIRECTORY / "profiles.yml"
PATH = "/var/lib/gpu-sim/state"
"""Where a host keeps it."""
FORMAT = "1"
MOST_GPUS = 16
SLOWDOWN_CELSIUS, SHUTDOWN_CELSIUS = 89, 92
Lines = list[tuple[str, str]]
AGAIN = "give the host its GPUs again: scripts/lab gpu HOST install PROFILE"


@dataclass
class Section:
    """`[name]` of the state file and its keys in order; some keys come several times."""

    name: str
    lines: Lines = field(default_factory=list)

    def get(self, key: str) -> str:
        """The value of a key, "" without one."""
        return next((value for name, value in self.lines if name == key), "")

    def all(self, key: str) -> list[str]:
        """All values of a key."""
        return [value for name, value in self.lines if name == key]

    def set(self, key: str, value: object) -> None:
        """Give a key one value, at its place or at the end."""
        text = str(value)
        for number, (name, _) in enumerate(self.lines):
            if name == key:
                self.lines[number] = (key, text)
                return
        self.lines.append((key, text))

    def add(self, key: str, value: object) -> None:
        """Add a value to a key that may have several."""
        self.lines.append((key, str(value)))

    def drop(self, key: str) -> None:
        """Remove all values of a key."""
        self.lines = [line for line in self.lines if line[0] != key]


@dataclass
class GpuState:
    """A whole state file."""

    sections: list[Section]
    generation: int = 1

    def section(self, name: str) -> Section:
        """The first section of that name. Raises LabError without one."""
        for section in self.sections:
            if section.name == name:
                return section
        raise LabError(f"GPU state: found no section [{name}]; {AGAIN}")

    @property
    def gpus(self) -> list[Section]:
        """The GPUs, by number."""
        return [section for section in self.sections if section.name.startswith("gpu ")]

    def text(self) -> str:
        """The file."""
        lines = [f"format = {FORMAT}", f"generation = {self.generation}"]
        for section in self.sections:
            lines.append(f"[{section.name}]")
            lines += [f"{key} = {value}" for key, value in section.lines]
        return "\n".join([*lines, f"[end {self.generation}]", ""])


def parse(text: str) -> GpuState:
    """Read a state file. Raises LabError when it is none, or cut off."""
    head: dict[str, str] = {}
    sections: list[Section] = []
    end = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"\[end (\d+)\]", line):
            end = match.group(1)
        elif match := re.fullmatch(r"\[(.+)\]", line):
            sections.append(Section(match.group(1)))
        elif " = " in line and not line.startswith("#"):
            key, _, value = line.partition(" = ")
            if sections:
                sections[-1].lines.append((key, value))
            else:
                head[key] = value
    if head.get("format") != FORMAT or not end or end != head.get("generation"):
        raise LabError(f"GPU state: found no whole file of format {FORMAT}; {AGAIN}")
    return GpuState(sections, int(end))


@remember
def profiles() -> dict[str, dict[str, Any]]:
    """The profiles by name. Raises LabError for a format this version does not read."""
    data = yaml.safe_load(PROFILES.read_text())
    if data.get("format") != 1:
        raise LabError(f"{PROFILES}: format {data.get('format')!r}, wanted 1")
    found: dict[str, dict[str, Any]] = data["profiles"]
    return found


def new(host: str, *machines: tuple[str, int | None]) -> GpuState:
    """The state of a fresh machine with GPUs of one profile or more: each with its number, None for as many as the model has.

    The first profile says what the machine is like. UUIDs and serial numbers are made from the host's name, so that the same
    host always has the same GPUs. Raises LabError.
    """
    gpus: list[Section] = []
    for profile, count in machines:
        gpus += _of_profile(profile, count, host, len(gpus))
    if len(gpus) > MOST_GPUS:
        raise LabError(f"{len(gpus)} GPUs: wanted {MOST_GPUS} at most")
    data = profiles()[machines[0][0]]
    machine = Section("host", [("profile", machines[0][0]), ("product", data["product"]), ("fabric", data["fabric"])])
    machine.add("xid_sequence", 0)
    for cpus in data["numa_cpus"]:
        machine.add("numa_cpus", cpus)
    for address in data.get("switches", ()):
        machine.add("switch", _address(address))
    driver = Section("driver", [("loaded", ""), ("loaded_modules", ""), ("fabric_ready", "0"), ("hang", "0")])
    mig = Section("mig", [("profile", _mig(name, values)) for name, values in data.get("mig", {}).items()])
    return GpuState([machine, driver, mig, *gpus])


def _of_profile(profile: str, count: int | None, host: str, first: int) -> list[Section]:
    known = profiles()
    if profile not in known:
        raise LabError(f"GPU profile {profile!r}: wanted one of {', '.join(known)}")
    data = known[profile]
    number = data["count"] if count is None else count
    if not 0 <= number <= len(data["pci"]):
        raise LabError(f"{number} GPUs of {profile}: wanted 0 to {len(data['pci'])}, the places a {data['product']} has")
    return [_gpu(data, index, number, host, first + index) for index in range(number)]


def _address(address: str) -> str:
    return f"0000:{address}"


def _mig(name: str, values: list[Any]) -> str:
    number, *rest, starts = values
    return f"{number} {name} {' '.join(map(str, rest))} {','.join(map(str, starts))}"


def _gpu(data: Mapping[str, Any], index: int, count: int, host: str, minor: int) -> Section:
    model = data["gpu"]
    identity = f"{host}/{minor}"
    power, clocks = model["power_watts"], model["clocks"]
    link = model.get("nvlink", {})
    values: dict[str, object] = {
        "name": model["name"],
        "uuid": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{identity}.gpu.bedplate.test')}",
        "serial": str(1_650_000_000_000 + int(hashlib.sha256(identity.encode()).hexdigest()[:9], 16) % 10**9),
        "part": model["part"],
        "vbios": model["vbios"],
        "architecture": model["architecture"],
        "brand": model.get("brand", "nvidia"),
        "modules": model.get("modules", ""),
        "pci": _address(data["pci"][index]),
        "device_id": model["device_id"],
        "subsystem_id": model["subsystem_id"],
        "minor": minor,
        "numa": data["numa"][index],
        "compute_major": model["compute"][0],
        "compute_minor": model["compute"][1],
        "cores": model["cores"],
        "sms": model["sms"],
        "memory_bus_bits": model["memory_bus_bits"],
        "pcie_generation": model["pcie_generation"],
        "pcie_width": 16,
        "memory_mib": model["memory_mib"],
        "reserved_mib": model["reserved_mib"],
        "used_mib": 0,
        "temperature": 28 + index % 4,
        "memory_temperature": 40 + index % 4,
        "temperature_slowdown": SLOWDOWN_CELSIUS,
        "temperature_shutdown": SHUTDOWN_CELSIUS,
        "power_mw": power["idle"] * 1000 + 137 * index,
        "power_limit_mw": power["limit"] * 1000,
        "power_min_mw": power["min"] * 1000,
        "power_max_mw": power["max"] * 1000,
        "utilization": 0,
        "memory_utilization": 0,
        "sm_clock": clocks["sm"],
        "memory_clock": clocks["memory"],
        "max_sm_clock": clocks["max_sm"],
        "max_memory_clock": clocks["max_memory"],
        "nvlink_generation": link.get("generation", 0),
        "nvlink_mbps": link.get("mbps", 0),
        "ecc": 1,
        "mig_capable": int("mig" in data),
        "mig_reset": int(bool(model.get("mig_reset"))),
    }
    section = Section(f"gpu {minor}", [(key, str(value)) for key, value in values.items()])
    switches = data.get("switches") or ["00:00.0"]
    for number in range(data.get("links_to_switch", 0)):
        section.add("link", f"switch {_address(switches[number % len(switches)])}")
    for one, other in data.get("links", ()):
        if index in (one, other) and max(one, other) < count:
            section.add("link", f"gpu {_address(data['pci'][other if index == one else one])}")
    return section
