# SPDX-License-Identifier: Apache-2.0
"""The inventory as it is written: groups, hosts and variables with file and line, also of groups that are empty.

inventory_files.py reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .problem import Place, SiteProblem
from .yamlfile import Path

ALL = "all"
BUILT_IN_GROUPS = (ALL, "ungrouped")


@dataclass(frozen=True)
class Variable:
    """A variable as written: its value and the place of each part, by path below the variable."""

    name: str
    value: Any
    places: Mapping[Path, Place]

    @property
    def place(self) -> Place:
        """Where the variable's name stands."""
        return self.places[()]


@dataclass
class Group:
    """An inventory group. hosts and children map names to the place that puts them into this group."""

    name: str
    place: Place
    hosts: dict[str, Place] = field(default_factory=dict)
    children: dict[str, Place] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)


@dataclass
class Inventory:
    """All groups and hosts, and what was wrong with the files.

    encrypted: files that cannot be read without a vault password. missing: a source is not there, so nothing was read.
    """

    groups: dict[str, Group] = field(default_factory=dict)
    host_variables: dict[str, dict[str, Variable]] = field(default_factory=dict)
    problems: list[SiteProblem] = field(default_factory=list)
    encrypted: list[str] = field(default_factory=list)
    missing: bool = False
    _groups_of: dict[str, list[str]] | None = None

    def hosts_of(self, group: str) -> dict[str, Place]:
        """Return the hosts of a group and of the groups below it, in the order written."""
        found: dict[str, Place] = {}
        for name in self.below(group):
            for host, place in self.groups[name].hosts.items():
                found.setdefault(host, place)
        return found

    def below(self, group: str) -> Iterator[str]:
        """Yield a group and the groups below it, in the order written."""
        seen: set[str] = set()
        waiting = [group]
        while waiting:
            name = waiting.pop(0)
            if name in seen or name not in self.groups:
                continue
            seen.add(name)
            yield name
            waiting.extend(self.groups[name].children)

    def variable(self, host: str, name: str) -> Variable | None:
        """Return the variable a host sees: its own, else that of its nearest group."""
        own = self.host_variables.get(host, {}).get(name)
        if own is not None:
            return own
        for group in self.groups_of(host):
            if name in self.groups[group].variables:
                return self.groups[group].variables[name]
        return None

    def groups_of(self, host: str) -> list[str]:
        """Return the groups that hold a host, nearest first (deeper before higher, as Ansible's precedence has it)."""
        if self._groups_of is None:
            depth = self._depths()
            order = sorted(self.groups, key=lambda g: (-depth.get(g, 1), [-ord(c) for c in g]))
            self._groups_of = {}
            for group in order:
                for name in self.groups if group == ALL else ():
                    for member in self.groups[name].hosts:
                        self._add_group(member, ALL)
                for member in self.hosts_of(group):
                    self._add_group(member, group)
        return self._groups_of.get(host, [ALL] if ALL in self.groups else [])

    def _add_group(self, host: str, group: str) -> None:
        assert self._groups_of is not None
        groups = self._groups_of.setdefault(host, [])
        if group not in groups:
            groups.append(group)

    def _depths(self) -> dict[str, int]:
        """Return each group's longest distance from ``all``; a loop of groups ends the count."""
        depth = {ALL: 0}
        for _round in range(len(self.groups)):
            before = dict(depth)
            for name, group in self.groups.items():
                for child in group.children:
                    depth[child] = min(max(depth.get(child, 1), depth.get(name, 1) + 1), len(self.groups))
            if depth == before:
                break
        return depth
