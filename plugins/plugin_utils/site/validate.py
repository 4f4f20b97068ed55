# SPDX-License-Identifier: Apache-2.0
"""Validate an inventory and derive what its hosts should be: the one entry for the action plugin, the command and the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .checks import CREATE, check_site
from .derive import derive
from .gather import Gathered, gather
from .inventory_files import read_inventory
from .problem import ERROR, SiteProblem, in_order
from .resolve import Resolver
from .versions import Versions, load_versions


@dataclass(frozen=True)
class Validation:
    """The findings, and the fact ``bedplate`` (None when anything is wrong or cannot be read)."""

    problems: list[SiteProblem]
    bedplate: dict[str, Any] | None

    @property
    def errors(self) -> list[SiteProblem]:
        """Findings that stop."""
        return [p for p in self.problems if p.severity == ERROR]

    @property
    def warnings(self) -> list[SiteProblem]:
        """Findings to know."""
        return [p for p in self.problems if p.severity != ERROR]


def examine(sources: Sequence[str], resolver: Resolver | None, purpose: str, versions: Versions) -> Gathered:
    """Read the inventory sources and check them; arguments as of :func:`validate`."""
    inventory = read_inventory(sources)
    if inventory.missing:  # whatever else could be said comes from that
        return Gathered(inventory, problems=list(inventory.problems))
    found = gather(inventory, resolver)
    check_site(found, versions, purpose)
    return found


def validate(
    sources: Sequence[str], resolver: Resolver | None = None, purpose: str = CREATE, versions: Versions | None = None
) -> Validation:
    """Validate the inventory sources; every finding is reported at once, no host is contacted.

    resolver: resolves templates and encrypted values; without one they are taken as they are. purpose: one of ``PURPOSES``.
    """
    versions = versions or load_versions()
    found = examine(sources, resolver, purpose, versions)
    problems = in_order(found.problems)
    wrong = any(problem.severity == ERROR for problem in problems)
    return Validation(problems, None if wrong or not found.complete() else derive(found, versions))
