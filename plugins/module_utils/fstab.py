# SPDX-License-Identifier: Apache-2.0
"""/etc/fstab: swap lines commented, everything else kept byte for byte; words with escapes read; pure."""

from __future__ import annotations

import re

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


def unescape(word: str) -> str:
    """Return a path with its octal escapes read, as fstab(5) and the tables below /proc write blanks."""
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), word)
