# SPDX-License-Identifier: Apache-2.0
"""The compatibility table as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .table import Rule, Table

WIDTH = 120
Applying = Mapping[str, Sequence[Rule]]


def as_json(table: Table, applying: Applying | None = None) -> dict[str, Any]:
    """Return the table as JSON types; applying: rows by pool."""
    found: dict[str, Any] = {
        "accelerators": {name: asdict(model) for name, model in table.accelerators.items()},
        "driver_branches": {str(number): dict(row) for number, row in table.branches.items()},
        "gpu_operator": [asdict(release) for release in table.operator_releases],
        "rules": [asdict(rule) for rule in table.rules],
    }
    if applying is not None:
        found["pools"] = {pool: [rule.row for rule in rules] for pool, rules in applying.items()}
    loaded: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return loaded


def as_text(table: Table, applying: Applying | None = None) -> str:
    """Return the table for reading; with applying only the rows that apply, by pool."""
    if applying is not None:
        lines = []
        for pool, rules in applying.items():
            lines.append(f"{pool}: {'nothing applies' if not rules else ''}".rstrip())
            lines += [line for rule in rules for line in _rule_lines(rule)]
        return "\n".join(lines) + "\n"
    lines = ["accelerators"]
    for model in table.accelerators.values():
        branches = f"branch {model.first_branch}" + (f" to {model.last_branch}" if model.last_branch else " and newer")
        mig = f"; MIG {', '.join(model.mig)}" if model.mig else ""
        lines += _wrapped(f"{model.name}: {model.architecture}, {branches}, modules {' or '.join(model.modules)}{mig}", 2)
    lines.append("driver branches")
    for number, row in table.branches.items():
        state = "ended" if row.get("ended") else f"until {row['ends']}" if "ends" in row else "maintained"
        lines.append(f"  {number}: {row['kind']}, {state}")
    lines.append("GPU Operator")
    lines += [f"  {release.name}: {release.version}, Kubernetes {release.range}" for release in table.operator_releases]
    lines.append("rules")
    lines += [line for rule in table.rules for line in _rule_lines(rule)]
    return "\n".join(lines) + "\n"


def _rule_lines(rule: Rule) -> list[str]:
    when = ", ".join(f"{name} {' or '.join(map(str, c)) if isinstance(c, list) else c}" for name, c in rule.when.items())
    return [f"  {rule.row}: {rule.verdict} when {when}", *_wrapped(rule.reason, 6), f"      {rule.source}"]


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent + 4))
