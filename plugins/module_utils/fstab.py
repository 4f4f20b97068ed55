# SPDX-License-Identifier: Apache-2.0
"""/etc/fstab: swap lines commented, everything else kept byte for byte; pure."""

from __future__ import annotations

FSTAB = "/etc/fstab"
MARKER = "# swap off (Bedplate): "


def swap_devices(text: str) -> list[str]:
    """Return the first field of each active swap line, e.g. ``/swap.img``, ``UUID=…``."""
    return [line.split()[0] for line in text.splitlines() if is_swap(line)]


def is_swap(line: str) -> bool:
    """Tell whether a line of fstab(5) activates swap; fields are separated by spaces or tabs, comments begin with #."""
    fields = line.split()
    return len(fields) >= 3 and not fields[0].startswith("#") and fields[2] == "swap"


def without_swap(text: str) -> str:
    """Return the text with each active swap line commented by :data:`MARKER`."""
    return "".join(MARKER + line if is_swap(line) else line for line in text.splitlines(keepends=True))
