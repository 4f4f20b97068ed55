# SPDX-License-Identifier: Apache-2.0
"""Values that the files alone do not settle: templates and encrypted values, resolved through Ansible."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .inventory import Variable
from .problem import WARNING, Place, SiteProblem, dotted, shown_value
from .yamlfile import Opaque, Path


class ResolveError(Exception):
    """A template that cannot be resolved; ``str()`` is the reason."""


class Resolver(Protocol):
    """Gives the value of a host's variable as a task would see it."""

    def value(self, host: str, path: Path) -> Any:
        """Return what stands at a path (the variable's name first); raise :class:`ResolveError` when that cannot be told."""


@dataclass
class Resolved:
    """A variable's value with nothing left to resolve, where possible.

    templated: paths whose value came from a template. unknown: paths whose value is not known (encrypted, no password given).
    """

    name: str
    value: Any
    places: Mapping[Path, Place]
    templated: set[Path] = field(default_factory=set)
    unknown: set[Path] = field(default_factory=set)
    problems: list[SiteProblem] = field(default_factory=list)

    def place(self, path: Path) -> Place:
        """Return the place of a path below the variable, or of the nearest thing around it that is written."""
        for size in range(len(path), -1, -1):
            if path[:size] in self.places:
                return self.places[path[:size]]
        raise KeyError(self.name)

    def problem(self, path: Path, value: Any, rule: str, severity: str = "error") -> SiteProblem:
        """Return a finding about a path below the variable; a template is shown beside what it gave."""
        place = self.place(path)
        shown = value if isinstance(value, _Shown) else shown_value(value)
        if path in self.templated and place.raw:
            shown = f"{shown} (from {shown_value(place.raw)})"
        return SiteProblem(place, dotted((self.name, *path)), shown, rule, severity)

    def unread(self) -> SiteProblem:
        """Return the finding that a value that cannot be had keeps the variable from being used."""
        paths = ", ".join(sorted(dotted((self.name, *path)) for path in self.unknown))
        rule = "cannot be checked without the vault's password (--vault-password-file); until then nothing can be made of it"
        return SiteProblem(self.place(()), paths, HIDDEN, rule, WARNING)

    def is_unknown(self, path: Path) -> bool:
        """Tell whether a path lies at or below a value that is not known."""
        return any(path[: len(known)] == known for known in self.unknown)


class _Shown(str):
    """Text that may stand in a message as it is."""


HIDDEN = _Shown("(hidden)")
MISSING = _Shown("(missing)")


def resolve(variable: Variable, host: str | None, resolver: Resolver | None) -> Resolved:
    """Resolve every template in a variable as the given host sees it. Without a resolver templates stay unknown."""
    result = Resolved(variable.name, None, variable.places)

    def walk(value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: walk(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, (*path, index)) for index, item in enumerate(value)]
        encrypted = isinstance(value, Opaque)
        if not encrypted and not is_template(value):
            return value
        if resolver is None or host is None:
            result.unknown.add(path)
            return value
        try:
            found = plain(resolver.value(host, (variable.name, *path)))
        except ResolveError as error:
            result.unknown.add(path)
            if not encrypted:
                result.problems.append(result.problem(path, value, f"the template cannot be resolved: {error}"))
            return value
        if not encrypted:
            result.templated.add(path)
        return found

    result.value = walk(variable.value, ())
    return result


def is_template(value: Any) -> bool:
    """Tell whether a value is text with a Jinja template in it."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def plain(value: Any) -> Any:
    """Return a value as plain JSON types (Ansible's tagged and lazy containers become ordinary ones)."""
    return json.loads(json.dumps(value, default=str))
