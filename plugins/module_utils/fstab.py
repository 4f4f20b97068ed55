# SPDX-License-Identifier: Apache-2.0
"""/etc/fstab: swap lines commented, lines of ours known by an option of our own, everything else kept byte for byte; words with
escapes read; pure.
"""

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


def fields(line: str) -> list[str]:
    """Return a line's fields, none for a comment (fstab(5))."""
    parts = line.split()
    return [] if not parts or parts[0].startswith("#") or len(parts) < 4 else parts


def marked(line: str, mark: str) -> str:
    """Return the name behind a mark (``x-bedplate.…=``) in a line's options; mount(8) takes ``x-`` options as comments."""
    parts = fields(line)
    options = parts[3].split(",") if parts else []
    return next((option[len(mark) :] for option in options if option.startswith(mark)), "")


def with_line(text: str, mark: str, name: str, line: str) -> str:
    """Return the text with the line of a marked name: in the place of the one that is there, else at the end; "" removes it."""
    lines = text.splitlines(keepends=True)
    ours = [index for index, found in enumerate(lines) if marked(found, mark) == name]
    for index in reversed(ours[1:] if line else ours):
        del lines[index]
    if not line:
        return "".join(lines)
    if ours:
        lines[ours[0]] = line
        return "".join(lines)
    end = "" if not lines or lines[-1].endswith("\n") else "\n"
    return "".join(lines) + end + line


def others_on(text: str, mount: str, mark: str, name: str) -> list[str]:
    """Return the lines that mount something else at a marked name's mount point."""
    return [line for line in text.splitlines() if fields(line)[1:2] == [mount] and marked(line, mark) != name]
