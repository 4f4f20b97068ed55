# SPDX-License-Identifier: Apache-2.0
"""The container device interface (CDI) specification of NVIDIA's GPUs: what it names, and whether that is what is there. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Optional

from .nvidia_probe import Gpu

PATH = "/var/run/cdi/nvidia.yaml"
"""Where NVIDIA's nvidia-cdi-refresh.service writes it, anew at every boot and change of the driver."""
SECOND = "/etc/cdi/nvidia.yaml"
"""Where older instructions had it written once; it outlives the driver it was made for."""


@dataclass(frozen=True)
class CdiSpec:
    """versions: of the driver's libraries it mounts. uuids: GPUs and MIG devices it names."""

    versions: frozenset[str] = field(default_factory=frozenset)
    uuids: frozenset[str] = field(default_factory=frozenset)


def parse_spec(text: str) -> CdiSpec:
    """Read what matters here of ``nvidia-ctk cdi generate``'s YAML (no YAML parser in the standard library)."""
    names = re.findall(r"^\s*(?:-\s+)?name:\s*[\"']?([^\"'\s]+)", text, re.MULTILINE)
    versions = re.findall(r"\.so\.(\d{3}\.\d{2,3}(?:\.\d{2,3})?)\b", text)
    return CdiSpec(frozenset(versions), frozenset(n for n in names if n.startswith(("GPU-", "MIG-"))))


def parse_list(text: str) -> dict[str, list[str]]:
    """Parse ``nvidia-smi -L``: UUID of each GPU to the UUIDs of its MIG devices."""
    found: dict[str, list[str]] = {}
    gpu = ""
    for line in text.splitlines():
        match = re.search(r"\(UUID: ((?:GPU|MIG)-[^)]+)\)", line)
        if match and match.group(1).startswith("GPU-"):
            gpu = match.group(1)
            found[gpu] = []
        elif match and gpu:
            found[gpu].append(match.group(1))
    return found


def wanted_uuids(gpus: Iterable[Gpu], listed: dict[str, list[str]]) -> frozenset[str]:
    """Return what a specification must name: MIG devices where MIG is on, whole GPUs elsewhere."""
    uuids: set[str] = set()
    for gpu in gpus:
        uuids.update(listed.get(gpu.uuid, ()) if gpu.mig == "Enabled" else (gpu.uuid,))
    return frozenset(uuids)


def difference(found: Optional[CdiSpec], version: str, uuids: frozenset[str]) -> Optional[str]:
    """Return how a specification differs from a loaded driver and its devices, None when it does not."""
    if found is None:
        return "none"
    if found.versions != {version}:
        return f"one for driver {', '.join(sorted(found.versions)) or 'of no version'}"
    if found.uuids != uuids:
        missing, gone = len(uuids - found.uuids), len(found.uuids - uuids)
        return f"one that lacks {missing} devices and names {gone} that are gone"
    return None
