# SPDX-License-Identifier: Apache-2.0
"""Observe, plan, apply: the types every host component is written with.

A component observes a host through :class:`~.host.Host`, plans with a pure function and lets :func:`execute` apply what the
safe-to-re-run rule permits. ``changed``, the diff, check mode, the plan and the run report are all views of the same list of
:class:`Change`. Nothing here imports Ansible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from .errors import BedplateError, RebootNeededError
from .host import Host
from .record import Record

UNKNOWN = "(unknown until an earlier change is applied)"
"""Stands for a value that only an earlier component can settle; printed, never guessed."""

DRAIN = "drain"
REBOOT = "reboot"
RESTART_KUBELET = "restart:kubelet"
HARMLESS = frozenset({RESTART_KUBELET, "restart:chrony", "restart:systemd-journald"})
"""Restarts that no pod notices."""


class Operation(Protocol):
    """How one change is carried out. Repeating an operation that already took effect must be harmless."""

    def perform(self, host: Host) -> None:
        """Carry the change out; raise :class:`BedplateError` when the host refuses."""


class Nothing:
    """The operation of a change that consists of its effects alone (a restart owed by an interrupted run)."""

    def perform(self, host: Host) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Change:
    """One difference between what was observed and what is desired.

    what: stable name of the thing, e.g. ``package kubelet`` or ``file /etc/hosts``; two runs call the same thing alike.
    before, after: what was found and what will be; JSON types, or :data:`UNKNOWN`.
    effects: subset of ``restart:<service>``, ``drain``, ``reboot``; empty means none. Each distinct effect runs once.
    needs: ``what`` of changes without which this one must not be applied.
    secret: the values are never shown.
    """

    what: str
    before: Any
    after: Any
    effects: frozenset[str] = frozenset()
    operation: Operation = field(default_factory=Nothing, compare=False, repr=False)
    needs: tuple[str, ...] = ()
    secret: bool = False

    def public(self) -> dict[str, Any]:
        """Return the change as it may be printed and stored: keys what, before, after, effects."""
        hidden = "(secret)"
        return {
            "what": self.what,
            "before": hidden if self.secret and self.before is not None else self.before,
            "after": hidden if self.secret and self.after is not None else self.after,
            "effects": sorted(self.effects),
        }


@dataclass(frozen=True)
class Problem:
    """Something that stops (``error``) or should be known (``warning``)."""

    what: str
    found: str
    wanted: str
    next_step: str
    severity: str = "error"

    def __str__(self) -> str:
        return f"{self.what}: found {self.found}; wanted {self.wanted}. Next: {self.next_step}"

    def public(self) -> dict[str, str]:
        """Return the problem as a dict of strings."""
        return dict(vars(self))


@dataclass(frozen=True)
class Plan:
    """Ordered changes, and problems found while planning. Any problem of severity error applies nothing."""

    changes: Sequence[Change] = ()
    problems: Sequence[Problem] = ()

    @property
    def errors(self) -> list[Problem]:
        """Problems that stop the component."""
        return [p for p in self.problems if p.severity == "error"]


@dataclass(frozen=True)
class Policy:
    """What a run may do to a host.

    check: plan only. in_service: the node carries work (see docs/architecture.md). allow: effects permitted by an explicit flag.
    """

    check: bool = False
    in_service: bool = False
    allow: frozenset[str] = frozenset()

    def permits(self, change: Change) -> bool:
        """Tell whether the change may be applied now.

        In service only :data:`HARMLESS` restarts go without (pods keep running); a reboot needs its flag and a node without work.
        """
        needing_flag = {e for e in change.effects if e == REBOOT or (self.in_service and e not in HARMLESS)}
        return needing_flag <= self.allow - ({REBOOT} if self.in_service else set())


@dataclass(frozen=True)
class Outcome:
    """What a run of a component did. ``deferred`` changes wait for the rolling playbook or a flag."""

    changes: list[Change]
    deferred: list[Change]
    problems: list[Problem]
    observed: Any

    @property
    def changed(self) -> bool:
        """True when something was (in check mode: would be) applied."""
        return bool(self.changes)

    @property
    def reboot(self) -> bool:
        """True when an applied change takes effect by a reboot, which is the playbook's to do."""
        return any(REBOOT in c.effects for c in self.changes)


Desired = TypeVar("Desired")
Observed = TypeVar("Observed")


class Component(ABC, Generic[Desired, Observed]):
    """A part of a host: declared as data, observed once, planned by a pure function."""

    name: ClassVar[str]
    rolling_playbook: ClassVar[str] = "bedplate.metal.roll_pool"

    @abstractmethod
    def observe(self, host: Host, desired: Desired) -> Observed:
        """Look at the host; change nothing. Called again after applying."""

    @abstractmethod
    def plan(self, observed: Observed, desired: Desired) -> Plan:
        """Compare; pure, touches no host."""

    def renew(self, host: Host, desired: Desired, errors: Sequence[Problem]) -> bool:
        """Renew what the errors may rest on (a package index); True: look and plan once more. Not called in check mode."""
        return False

    def effect(self, host: Host, effect: str, desired: Desired) -> None:
        """Carry out one effect. The default restarts a service and fails with its journal if it does not come back."""
        kind, _colon, service = effect.partition(":")
        if kind != "restart":
            raise BedplateError(f"effect {effect} belongs to a rolling playbook, not to this run")
        restart_service(host, service)


def restart_service(host: Host, service: str, reload: bool = True) -> None:
    """Restart a systemd service; raise :class:`BedplateError` with the journal's last lines if it is not active afterwards.

    reload: read units again first, which takes GPUs away from running containers on some set-ups.
    """
    if reload:
        host.run(["systemctl", "daemon-reload"])
    result = host.run(["systemctl", "restart", service], timeout_seconds=120)
    state = host.run(["systemctl", "is-active", service]).out.strip()
    if not result.ok or state not in ("active", "activating"):
        journal = host.run(["journalctl", "-u", service, "-n", "15", "--no-pager", "-o", "cat"]).out.strip()
        raise BedplateError(
            f"service {service}: found {state or 'no answer'} after a restart; wanted active. "
            f"{result.err.strip()}\nlast journal lines:\n{journal}\n"
            f"Next: correct what the journal names (journalctl -u {service} on the host), then repeat"
        )


def execute(component: Component[Desired, Observed], host: Host, desired: Desired, policy: Policy) -> Outcome:
    """Observe, plan, apply what the policy permits, and observe again.

    A restart owed is written to the component's record before the change and struck off after the restart, so a run killed in
    between still restarts next time. A permitted reboot is left to the playbook (:attr:`Outcome.reboot`). Raises
    :class:`BedplateError` when the host refuses a change or when, afterwards, what was planned and what is there disagree.
    """
    observed = component.observe(host, desired)
    record = Record.load(host, component.name)
    plan = component.plan(observed, desired)
    if plan.errors and not policy.check and component.renew(host, desired, plan.errors):
        observed = component.observe(host, desired)
        plan = component.plan(observed, desired)
    if plan.errors:
        return Outcome([], [], list(plan.problems), observed)
    owed = [Change(f"pending {effect}", "owed by an interrupted run", "done", frozenset({effect})) for effect in record.pending]
    now, deferred = _split([*owed, *plan.changes], policy)
    if policy.check or not now:
        return Outcome(now, deferred, list(plan.problems), observed)

    effects = sorted({e for change in now for e in change.effects if e.startswith("restart:")})
    if effects:
        record.owing(effects).save(host)
    at_boot: dict[str, Problem] = {}
    for change in now:
        try:
            change.operation.perform(host)
        except RebootNeededError as found:
            at_boot[change.what] = Problem(change.what, str(found), "it done at once", "reboot the host, then repeat", "warning")
    for effect in effects:
        component.effect(host, effect, desired)
        Record.load(host, component.name).paid(effect).save(host)

    now = [replace(c, effects=c.effects | {REBOOT}, operation=Nothing()) if c.what in at_boot else c for c in now]
    observed = component.observe(host, desired)
    waiting = {c.what for c in deferred} | {c.what for c in now if REBOOT in c.effects and isinstance(c.operation, Nothing)}
    remaining = [c for c in component.plan(observed, desired).changes if not waiting & {c.what, *c.needs}]
    if remaining:
        lines = "\n".join(f"  {c.what}: found {c.public()['before']!r}, wanted {c.public()['after']!r}" for c in remaining)
        raise BedplateError(
            f"applied, yet still different when observed again:\n{lines}\n"
            "Next: see what else on the host changes these things (another tool, a boot script), then repeat"
        )
    now, late = _split(now, policy)
    return Outcome(now, [*deferred, *late], [*plan.problems, *at_boot.values()], observed)


def _split(changes: Iterable[Change], policy: Policy) -> tuple[list[Change], list[Change]]:
    now: list[Change] = []
    deferred: list[Change] = []
    held: set[str] = set()
    for change in changes:
        if policy.permits(change) and not held & set(change.needs):
            now.append(change)
        else:
            deferred.append(change)
            held.add(change.what)
    return now, deferred
