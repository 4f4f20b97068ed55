# SPDX-License-Identifier: Apache-2.0
"""One line of the report: what was declared, what was found, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

OK, DIFFERS, UNKNOWN = "ok", "differs", "unknown"
VERDICTS = (DIFFERS, UNKNOWN, OK)
"""Worst first."""


@dataclass(frozen=True)
class Row:
    """A judged thing. next_step: "" for one that is ok."""

    what: str
    declared: str
    found: str
    verdict: str
    next_step: str = ""

    def public(self) -> dict[str, Any]:
        """Return the row as JSON types."""
        return asdict(self)


def judged(what: str, declared: object, found: object, good: bool, next_step: str) -> Row:
    """Return a row that is ok or differs."""
    return Row(what, str(declared), str(found), OK if good else DIFFERS, "" if good else next_step)


def unknown(what: str, declared: object, reason: str, next_step: str) -> Row:
    """Return a row about a thing that the host does not show."""
    return Row(what, str(declared), reason, UNKNOWN, next_step)


def worst(verdicts: Iterable[str]) -> str:
    """Return the worst of several verdicts; ok of none."""
    found = set(verdicts)
    return next((verdict for verdict in VERDICTS if verdict in found), OK)


def size(count: float) -> str:
    """Return bytes in the binary unit that keeps the number below 1024, with two decimals where it needs them."""
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        units.pop(0)
    return f"{round(count, 2):g} {units[0]}"


def modules_text(dimms: Iterable[Mapping[str, Any]] | None) -> str:
    """Return memory modules by kind; "" for none."""
    kinds = []
    for dimm in dimms or ():
        speed = f" at {dimm['speed_mts']} MT/s" if dimm["speed_mts"] else ""
        kinds.append(f"{dimm['count']} × {size(dimm['size_bytes'])}{speed}")
    return " + ".join(kinds)
