# SPDX-License-Identifier: Apache-2.0
"""The compatibility table: accelerators, driver branches, operator releases, and the rules about what goes with what.

The data are the YAML files beside this module; each row names its source.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import yaml

IMPOSSIBLE = "impossible"
UNSUPPORTED = "unsupported"
ADVICE = "advice"
VERDICTS = (IMPOSSIBLE, UNSUPPORTED, ADVICE)

_COMPARISONS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class TableError(ValueError):
    """The table itself is wrong; ``str()`` names file and entry."""


@dataclass(frozen=True)
class MigProfile:
    """A MIG profile of a model: compute and memory slices it takes, and instances per GPU at most."""

    name: str
    compute: int
    memory: int
    most: int

    @property
    def resource(self) -> str:
        """Resource the device plugin's mixed strategy advertises, e.g. ``nvidia.com/mig-1g.10gb.me``."""
        return f"nvidia.com/mig-{self.name.replace('+', '.')}"


@dataclass(frozen=True)
class Accelerator:
    """A GPU model. products: names NVML gives it. first_branch, last_branch: driver branches that support its architecture.

    modules: kinds of kernel modules that can drive it, the preferred first. mig: profiles by name, none where there are none.
    """

    name: str
    architecture: str
    products: tuple[str, ...]
    first_branch: int
    last_branch: int | None
    modules: tuple[str, ...]
    mig: Mapping[str, MigProfile] = field(default_factory=dict)
    compute_slices: int = 0
    memory_slices: int = 0


@dataclass(frozen=True)
class OperatorRelease:
    """A release of NVIDIA's GPU Operator. kubernetes: first and last minor version it supports, None where not known."""

    name: str
    version: str
    kubernetes: tuple[str | None, str | None]

    def supports(self, kubernetes: str) -> bool:
        """Tell whether the release supports a Kubernetes version (two or three numbers)."""
        first, last = self.kubernetes
        minor = version_numbers(kubernetes)[:2]
        return (first is None or version_numbers(first) <= minor) and (last is None or minor <= version_numbers(last))

    @property
    def range(self) -> str:
        """The supported versions as an operator reads them."""
        first, last = self.kubernetes
        return f"{first} to {last}" if first else f"up to {last}"


@dataclass(frozen=True)
class Rule:
    """A row of the table; see the head of rules.yml."""

    row: str
    verdict: str
    when: Mapping[str, Any]
    key: str
    reason: str
    source: str

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Tell whether every condition holds; a fact that is absent or None makes its condition false."""
        return all(facts.get(name) is not None and _matches(condition, facts[name]) for name, condition in self.when.items())

    def message(self, facts: Mapping[str, Any]) -> str:
        """Return the reason with the facts in it."""
        return self.reason.format_map({name: str(value) for name, value in facts.items()})


@dataclass(frozen=True)
class Table:
    """The whole table."""

    accelerators: Mapping[str, Accelerator]
    branches: Mapping[int, Mapping[str, Any]]
    operator_releases: Sequence[OperatorRelease]
    operator_distributions: Sequence[str]
    rules: Sequence[Rule]

    def default_operator(self, kubernetes: str) -> OperatorRelease:
        """Return the newest operator release that supports a Kubernetes version, the newest of all when none does."""
        return next((r for r in self.operator_releases if r.supports(kubernetes)), self.operator_releases[0])

    def operator_release(self, version: str) -> OperatorRelease | None:
        """Return the release a version (v26.7.1) belongs to."""
        name = ".".join(version.lstrip("v").split(".")[:2])
        return next((r for r in self.operator_releases if r.name == name), None)

    def applying(self, facts: Mapping[str, Any]) -> list[Rule]:
        """Return the rules that hold for facts."""
        return [rule for rule in self.rules if rule.holds(facts)]


def version_numbers(text: Any) -> tuple[int, ...]:
    """Return the numbers a version begins with: ``v1.36.3-1.1`` gives (1, 36, 3); empty for text without any."""
    match = re.match(r"[vV]?([0-9]+(?:\.[0-9]+)*)", str(text))
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def _matches(condition: Any, fact: Any) -> bool:
    if isinstance(condition, list):
        return fact in condition
    match = re.fullmatch(r"([<>]=?)([0-9.]+)", str(condition))
    if match is None:
        raise TableError(f"rules.yml: condition {condition!r}: wanted a list or a comparison of versions")
    wanted = version_numbers(match[2])
    found = version_numbers(fact)[: len(wanted)]
    return bool(found) and _COMPARISONS[match[1]](found, wanted)


@cache
def load_table() -> Table:
    """Read the table; raise :class:`TableError` when its files disagree."""
    models, software, rules = _read("accelerators"), _read("software"), _read("rules")
    releases = software["gpu_operator"]["releases"]
    return Table(
        accelerators={name: _accelerator(name, row, models) for name, row in models["accelerators"].items()},
        branches=software["driver_branches"]["branches"],
        operator_releases=[
            OperatorRelease(n, r["version"], (r["kubernetes"][0], r["kubernetes"][1])) for n, r in releases.items()
        ],
        operator_distributions=software["gpu_operator"]["distributions"],
        rules=[_rule(row) for row in rules["rules"]],
    )


def _read(name: str) -> dict[str, Any]:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.yml")
    with open(path, encoding="utf-8") as stream:
        found: dict[str, Any] = yaml.safe_load(stream)
    if found.get("format") != 1:
        raise TableError(f"{name}.yml: found format {found.get('format')!r}; wanted 1")
    return found


def _accelerator(name: str, row: Mapping[str, Any], models: Mapping[str, Any]) -> Accelerator:
    architecture = models["architectures"][row["architecture"]]
    layout = models["mig_layouts"][row["mig"]["layout"]] if "mig" in row else {}
    profiles = {}
    for place, profile in row.get("mig", {}).get("profiles", {}).items():
        spec = layout["profiles"][place]
        profiles[profile] = MigProfile(profile, spec["compute"], spec["memory"], spec["most"])
    return Accelerator(
        name=name,
        architecture=row["architecture"],
        products=tuple(row["products"]),
        first_branch=architecture["first_branch"],
        last_branch=architecture.get("last_branch"),
        modules=tuple(architecture["modules"]),
        mig=profiles,
        compute_slices=layout.get("compute_slices", 0),
        memory_slices=layout.get("memory_slices", 0),
    )


def _rule(row: Mapping[str, Any]) -> Rule:
    rule = Rule(**row)
    if rule.verdict not in VERDICTS or not rule.when or not rule.source:
        raise TableError(f"rules.yml: row {rule.row}: wanted a verdict of {', '.join(VERDICTS)}, conditions and a source")
    return rule
