# SPDX-License-Identifier: Apache-2.0
"""What is to be applied and removed so that a cluster has the objects that are wanted. Pure; apply.py does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import Change, Problem

from .difference import Difference, differences
from .identity import TUNED, Object, key_of, name_of, ours

Refusal = Callable[[Object, Sequence[Difference]], list[Problem]]
"""Returns why an object's fields cannot be changed; an empty list when they can."""
Keeper = Callable[[Object, Sequence[Object]], str | None]
"""Says why an object that is wanted no more stays: a sentence, "" for no word about it, None when it goes.

The second argument are the objects that stay as they are.
"""


@dataclass
class ObjectsPlan:
    """What is to be done. problems: what cannot be. warnings: what is left as it is, and what somebody changed."""

    changes: list[Change] = field(default_factory=list)
    apply: list[Object] = field(default_factory=list)
    remove: list[Object] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plan_objects(
    found: Iterable[Object],
    wanted: Sequence[Object],
    refusal: Refusal = lambda item, different: [],
    keeper: Keeper = lambda item, staying: "",
) -> ObjectsPlan:
    """Plan how a cluster comes to have the wanted objects, in their order. found: what there is of them.

    Objects of ours among those found that are not wanted go, last made first, unless the keeper says otherwise.
    """
    plan = ObjectsPlan()
    there = {key_of(item): item for item in found}
    for item in wanted:
        present = there.get(key_of(item))
        if present is None:
            plan.changes.append(Change(name_of(item), None, _content(item)))
            plan.apply.append(item)
        else:
            _update(plan, present, item, refusal)
    kept = {key_of(item) for item in wanted}
    changed = {key_of(item) for item in plan.apply}
    staying = [item for key, item in there.items() if key not in changed]
    for item in reversed([item for key, item in there.items() if key not in kept and ours(item)]):
        if item["metadata"].get("deletionTimestamp"):
            continue
        why = keeper(item, staying)
        if why is None:
            plan.changes.append(Change(name_of(item), _content(item), None))
            plan.remove.append(item)
            staying.remove(item)
        elif why:
            plan.warnings.append(f"{name_of(item)}: {why}")
    return plan


def _update(plan: ObjectsPlan, present: Object, wanted: Object, refusal: Refusal) -> None:
    name, different = name_of(wanted), differences(present, wanted)
    if not different:
        return
    if (reason := (present["metadata"].get("annotations") or {}).get(TUNED)) is not None:
        plan.warnings += [
            f"{name} {one.label}: found {one.before}, the site data say {one.after}; left so ({TUNED}: {reason})"
            for one in different
        ]
        return
    if problems := refusal(wanted, different):
        plan.problems += problems
        return
    plan.changes += [Change(f"{name} {one.label}", one.before, one.after) for one in different]
    plan.warnings += [
        f"{name} {one.label}: found {one.before}, set by {one.by}; put back to {one.after}. To keep such a change, annotate the "
        f"object with {TUNED}=REASON, or change the site data"
        for one in different
        if one.by
    ]
    plan.apply.append(wanted)


def _content(item: Object) -> dict[str, Any]:
    """Return what an object says, for a diff."""
    return {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata", "status")}
