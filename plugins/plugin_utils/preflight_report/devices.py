# SPDX-License-Identifier: Apache-2.0
"""Names of devices on the PCI bus (compatibility/pci_devices.yml)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

TABLE = Path(__file__).resolve().parents[1] / "compatibility" / "pci_devices.yml"


@dataclass(frozen=True)
class PciDevices:
    """names: by ``vendor:device``. accelerators: what a pool calls the GPU. nvswitches: seen on the bus, by architecture."""

    names: Mapping[str, str]
    accelerators: Mapping[str, str]
    nvswitches: Mapping[str, int]

    def name(self, device: str) -> str:
        """Return a device's name, or its number for one that is not in the table."""
        return self.names.get(device, device or "unknown")


@cache
def load_devices() -> PciDevices:
    """Read the table."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    rows = table["devices"]
    return PciDevices(
        names={device: row["name"] for device, row in rows.items()},
        accelerators={device: row["accelerator"] for device, row in rows.items() if "accelerator" in row},
        nvswitches=table["nvswitches"],
    )
