# SPDX-License-Identifier: Apache-2.0
"""Plan the rolling of a pool: waves and batches, and what an interrupted run left on its nodes. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from .errors import BedplateError

ANNOTATION = "bedplate.dev/rolling"
"""JSON, format 1, on a Node: state, cordoned_before, action and, of a failed one, the message."""
FORMAT = 1
CORDONED, DRAINED, FAILED = "cordoned", "drained", "failed"


@dataclass(frozen=True)
class Upgrade:
    """A pool's upgrade data.

    canary: nodes that go first, alone. waves: cumulative shares of the pool (``25%``) or counts to finish before the next begins.
    max_unavailable: share or count that bounds what is out at once. failure_budget: how many nodes may fail before it stops.
    """

    canary: int = 1
    waves: Sequence[str] = ("100%",)
    max_unavailable: str = "1"
    failure_budget: int = 0

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Upgrade:
        """Build from a pool's ``upgrade`` mapping; absent keys take the defaults."""
        known = {key: data[key] for key in cls.__dataclass_fields__ if data.get(key) is not None}
        if "waves" in known:
            known["waves"] = tuple(str(wave) for wave in known["waves"])
        if "max_unavailable" in known:
            known["max_unavailable"] = str(known["max_unavailable"])
        return cls(**known)

    def limit(self, total: int) -> int:
        """Return how many of a pool's nodes may be out at once: a share rounds down, but never below one."""
        return max(1, share(self.max_unavailable, total, up=False))


@dataclass(frozen=True)
class RollingNode:
    """A pool's node. pending: whether something waits for it. state: what an interrupted run left (None: nothing)."""

    name: str
    pending: bool
    ready: bool = True
    unschedulable: bool = False
    state: Optional[RollingState] = None

    @property
    def unfinished(self) -> bool:
        """True when an earlier run of ours has it out."""
        return self.state is not None and self.state.state in (CORDONED, DRAINED)

    @property
    def failed(self) -> bool:
        """True when an earlier step of ours failed on it."""
        return self.state is not None and self.state.state == FAILED

    @property
    def cordoned_by_others(self) -> bool:
        """True when somebody else had cordoned it, so that it stays so afterwards (case H50a)."""
        return self.state.cordoned_before if self.state is not None else self.unschedulable


@dataclass(frozen=True)
class RollingState:
    """What is stored on a node while it is out. cordoned_before: whether somebody had cordoned it before us."""

    state: str
    cordoned_before: bool
    action: str = ""
    message: str = ""

    def text(self) -> str:
        """Return the annotation's text."""
        data = {"format": FORMAT, "state": self.state, "cordoned_before": self.cordoned_before, "action": self.action}
        if self.message:
            data["message"] = self.message
        return json.dumps(data, sort_keys=True)

    @classmethod
    def read(cls, text: Optional[str]) -> Optional[RollingState]:
        """Read an annotation; raise :class:`BedplateError` for a format this code does not know."""
        if not text:
            return None
        try:
            data = json.loads(text)
        except ValueError:
            data = {}
        if data.get("format") != FORMAT:
            raise BedplateError(
                f"annotation {ANNOTATION}: found format {data.get('format')!r}; wanted {FORMAT}. Next: use the Bedplate release "
                "that wrote it, or remove the annotation after looking at the node"
            )
        return cls(str(data["state"]), bool(data["cordoned_before"]), str(data.get("action", "")), str(data.get("message", "")))


@dataclass(frozen=True)
class RollPlan:
    """Batches in order; each is out together, the next begins when it is back.

    waves: how many batches each wave has. skipped: reason by node that is left alone. blocked: why none may go.
    """

    batches: Sequence[Sequence[str]] = ()
    waves: Sequence[int] = field(default_factory=tuple)
    skipped: Mapping[str, str] = field(default_factory=dict)
    blocked: str = ""

    @property
    def order(self) -> list[str]:
        """All nodes to roll, in order."""
        return [name for batch in self.batches for name in batch]


def share(text: str, total: int, *, up: bool) -> int:
    """Return a count or percentage of a total as a number of nodes; raise ValueError for anything else."""
    if text.endswith("%"):
        exact = total * float(text[:-1]) / 100
        return math.ceil(round(exact, 6)) if up else math.floor(round(exact, 6))
    return int(text)


def plan_waves(nodes: Iterable[RollingNode], upgrade: Upgrade) -> RollPlan:
    """Plan a pool's rolling.

    Nodes that an interrupted run has out go first. A node that is not Ready (and not out by us) is skipped and named. Nodes that
    are out and stay so (dead, or cordoned by somebody) take up room in the limit; the cordoned ones may go themselves, they are
    out anyway. Failed nodes are tried again, and count against the failure budget until they succeed: beyond it, only they go.
    """
    everyone = sorted(nodes, key=lambda node: node.name)
    total, limit = len(everyone), upgrade.limit(len(everyone))
    dead = {n.name for n in everyone if not n.ready and not n.unfinished and not n.failed}
    skipped = {n.name: "not Ready" for n in everyone if n.name in dead and n.pending}
    todo = [n for n in everyone if (n.pending or n.unfinished or n.failed) and n.name not in dead]
    failed = [n.name for n in everyone if n.failed]
    if len(failed) > upgrade.failure_budget:
        found = f"found {len(failed)} failed node(s) ({', '.join(failed)})"
        reason = f"{found}; wanted at most {upgrade.failure_budget} (failure_budget)"
        skipped.update({n.name: reason for n in todo if not n.failed})
        todo = [n for n in todo if n.failed]

    staying_out = [n.name for n in everyone if n.name in dead or n.cordoned_by_others]
    room = limit - len(staying_out)
    cordoned = [n.name for n in todo if n.cordoned_by_others]
    resumed = [n.name for n in todo if (n.unfinished or n.failed) and n.name not in cordoned]
    rest = [n.name for n in todo if n.name not in cordoned and n.name not in resumed]
    batches = chunks(cordoned, limit)
    if room < 1:
        reason = f"found {len(staying_out)} node(s) out already ({', '.join(staying_out)}); wanted fewer than {limit} of {total}"
        skipped.update(dict.fromkeys([*resumed, *rest], f"{reason} (max_unavailable)"))
        return RollPlan(batches, [len(batches)] if batches else [], skipped, "" if batches or not todo else reason)
    batches += chunks(resumed, room)
    canaries = rest[: max(0, upgrade.canary - len(cordoned) - len(resumed))]
    rest = rest[len(canaries) :]
    batches += chunks(canaries, room)
    waves = [len(batches)] if batches else []
    finished = total - len(rest)
    for wave in [*upgrade.waves, "100%"]:
        part = rest[: max(0, share(wave, total, up=True) - finished)]
        rest, finished = rest[len(part) :], finished + len(part)
        batches += chunks(part, room)
        if part:
            waves.append(len(chunks(part, room)))
    return RollPlan(batches, waves, skipped)


def chunks(names: Sequence[str], size: int) -> list[list[str]]:
    """Return names in groups of at most size."""
    return [list(names[start : start + size]) for start in range(0, len(names), size)]


def begun(node_unschedulable: bool, found: Optional[RollingState], action: str) -> RollingState:
    """Return the state to store before a node is cordoned; the cordon that was there before our first try is never forgotten."""
    before = found.cordoned_before if found is not None else node_unschedulable
    return RollingState(CORDONED, before, action)


def advanced(found: RollingState, state: str, message: str = "") -> RollingState:
    """Return the state after a step."""
    return RollingState(state, found.cordoned_before, found.action, message)
