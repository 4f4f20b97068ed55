# SPDX-License-Identifier: Apache-2.0
"""Names that stand once, and names that somebody gave."""

from __future__ import annotations

from collections.abc import Sequence

from .gather import Gathered
from .problem import suggestion
from .yamlfile import Path


def names(found: Gathered, section: str) -> list[str] | None:
    """Return the names of a section's entries; None when the section is wrong, so that nothing is compared with it."""
    if section not in found.sections:
        return None
    return [item.name for item in found.sections[section] or []]


def unique(found: Gathered, section: str, key: str) -> None:
    """Refuse entries of a section that have the same value at a key."""
    if section in found.written and section in found.sections:
        unique_in(found, section, (), [getattr(item, key) for item in found.sections[section] or []], key)


def unique_in(found: Gathered, section: str, path: Path, values: Sequence[str], key: str) -> None:
    """Refuse values that stand twice in the list at a path."""
    for index, name in enumerate(values):
        if name in values[:index]:
            found.problem(section, (*path, index, key), name, f"stands twice (first as entry {values.index(name)})")


def referenced(found: Gathered, section: str, path: Path, name: str, there: Sequence[str] | None, kind: str) -> None:
    """Refuse a name that nothing has. there: those that exist; None where that cannot be told."""
    if there is not None and name not in there:
        hint = suggestion(name, there) or f"; known are {', '.join(dict.fromkeys(there)) or 'none'}"
        found.problem(section, path, name, f"there is no {kind} of this name{hint}")
