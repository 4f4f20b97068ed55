# SPDX-License-Identifier: Apache-2.0
"""What a run did, host by host: the data behind the callback ``bedplate.metal.run_report``.

*Executed* counts module runs on a host, the figure a run's cost grows with. Skipped tasks, includes and actions that need no
connection do not count (what such an action changed is the controller's doing); a loop counts once per item that was not skipped;
a delegated task counts for the host it ran on, and everything that ran on the controller counts for ``controller``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

FORMAT = 1
"""Version of the JSON report's shape; raised when a reader would have to change."""

CONTROLLER = "controller"
SITE, ROLL = "bedplate.metal.site", "bedplate.metal.roll_pool"
"""Playbooks that take up what was left: on a host that carries no work, on a node."""
JOINING = frozenset({"bedplate.metal.control_plane", "bedplate.metal.worker"})
"""Actions after which a host is a node."""
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

Outcome = Literal["ok", "failed", "ignored", "skipped", "unreachable"]


@dataclass(frozen=True)
class TaskEvent:
    """One task that ended for one host.

    host: the host the task was for. ran_on: the host it was delegated to, else the same. runs: module runs (0 for an action
    without a connection, the number of items not skipped for a loop). seconds: wall time from hand-over to result. changes,
    deferred, problems: what a Bedplate module returned (a change's key ``host`` names another host that it belongs to).
    planned: the task ran in check mode, so its changes were not made. pool: the inventory group the host is rolled with.
    """

    host: str
    ran_on: str
    task: str
    action: str
    outcome: Outcome
    runs: int = 0
    changed: bool = False
    seconds: float = 0.0
    changes: tuple[Mapping[str, Any], ...] = ()
    deferred: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[Mapping[str, Any], ...] = ()
    planned: bool = False
    pool: str = ""


@dataclass
class HostReport:
    """The sums of one host, or of the controller. ``seconds`` adds up its tasks' wall times."""

    executed: int = 0
    changed: int = 0
    failed: int = 0
    ignored: int = 0
    skipped: int = 0
    unreachable: int = 0
    seconds: float = 0.0
    changes: list[dict[str, Any]] = field(default_factory=list)
    deferred: list[dict[str, Any]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)

    def public(self) -> dict[str, Any]:
        """Return the sums as JSON types."""
        return {**vars(self), "seconds": round(self.seconds, 3)}


class RunReport:
    """Collects :class:`TaskEvent` and answers with the report as data and as lines for the terminal.

    command: how ansible-playbook was called, as far as another playbook of the same site needs it.
    """

    def __init__(self, playbook: str, *, check: bool = False, command: str = "ansible-playbook") -> None:
        self.playbook = playbook
        self.check = check
        self.command = command
        self._pools: dict[str, str] = {}
        self._joined: set[str] = set()
        self._deferred: dict[tuple[str, str], list[tuple[HostReport, dict[str, Any]]]] = {}
        self.hosts: dict[str, HostReport] = {}
        self.tasks: list[TaskEvent] = []

    def add(self, event: TaskEvent) -> None:
        """Count one event for the host the task ran on; its findings for the host they are about.

        What a component leaves for later is what its last word in the run says: a rolling playbook plans before it applies.
        """
        self.tasks.append(event)
        self._pools[event.host] = event.pool
        ran_on = self._host(event.ran_on)
        ran_on.seconds += event.seconds
        if event.outcome == "skipped":
            ran_on.skipped += 1
            return
        if event.outcome == "unreachable":
            ran_on.unreachable += 1
            return
        ran_on.executed += event.runs
        if event.action in JOINING and event.outcome == "ok" and not event.planned:
            self._joined.add(event.host)
        planned = event.planned and not self.check
        ran_on.changed += event.changed and not planned
        ran_on.failed += event.outcome == "failed"
        ran_on.ignored += event.outcome == "ignored"
        waiting = self._deferred.setdefault((event.host, event.action), [])
        if event.outcome == "ok":
            for report, change in waiting:
                report.deferred = [other for other in report.deferred if other is not change]
            waiting.clear()
        for kind in ("deferred", "problems") if planned else ("changes", "deferred", "problems"):
            for found in getattr(event, kind):
                owner = self._host(str(found.get("host", event.ran_on)))
                public = {key: value for key, value in found.items() if key != "host"}
                getattr(owner, kind).append(public)
                if kind == "deferred":
                    waiting.append((owner, public))

    def public(self, seconds: float) -> dict[str, Any]:
        """Return the report as JSON types; ``seconds`` is the run's wall time."""
        return {
            "format": FORMAT,
            "playbook": self.playbook,
            "check": self.check,
            "seconds": round(seconds, 3),
            "hosts": {name: self.hosts[name].public() for name in sorted(self.hosts)},
            "tasks": [
                {
                    "host": event.host,
                    "ran_on": event.ran_on,
                    "task": event.task,
                    "action": event.action,
                    "outcome": event.outcome,
                    "executed": event.runs,
                    "changed": event.changed,
                    "seconds": round(event.seconds, 3),
                }
                for event in self.tasks
                if event.outcome != "skipped"
            ],
        }

    def lines(self, seconds: float) -> list[str]:
        """Return the summary an operator reads: what changed where, and what was left to which playbook."""
        if not self.hosts:
            return []
        width = max(len(name) for name in self.hosts)
        verb = "would change" if self.check else "changed"
        lines = [f"{seconds:.1f} s"]
        for name in sorted(self.hosts):
            report = self.hosts[name]
            words = [f"{report.executed} executed", f"{verb} {_amount(len(report.changes) or report.changed)}"]
            words += [f"{len(report.deferred)} left for later"] if report.deferred else []
            words += [f"{report.failed} failed"] if report.failed else []
            words += ["unreachable"] if report.unreachable else []
            lines.append(f"  {name:<{width}}  {', '.join(words)}")
        return lines + self._deferred_lines()

    def _deferred_lines(self) -> list[str]:
        by_command: dict[str, list[str]] = {}
        for name in sorted(self.hosts):
            for change in self.hosts[name].deferred:
                effects = ", ".join(change.get("effects", ())) or "waits for another change"
                command = self._command(name, str(change.get("playbook", "PLAYBOOK")))
                by_command.setdefault(command, []).append(f"  {name}: {change.get('what')} ({effects})")
        lines: list[str] = []
        for command in sorted(by_command):
            alone = f" {SITE} " in command
            why = "needs a reboot that nobody allowed" if alone else "disturbs running work"
            does = "this reboots the host and applies it" if alone else "this rolls it out"
            lines += [f"not applied, because it {why}:", *by_command[command], f"{does}: {command}"]
        return lines

    def _command(self, name: str, playbook: str) -> str:
        """Return what to paste for a host. One that joined in this run is a node by now, which nothing but a roll reboots."""
        if playbook == SITE and name not in self._joined:
            return f"{self.command} {SITE} --limit {name} -e bedplate_allow=reboot"
        return f"{self.command} {ROLL if playbook == SITE else playbook} -e bedplate_pool={self._pools.get(name) or 'POOL'}"

    def _host(self, name: str) -> HostReport:
        return self.hosts.setdefault(CONTROLLER if name in LOCAL_NAMES else name, HostReport())


def findings(result: Mapping[str, Any], key: str) -> tuple[Mapping[str, Any], ...]:
    """Return the dicts a module put under ``changes``, ``deferred`` or ``problems``, also from the items of a loop.

    Anything of another shape belongs to some other module and is left alone.
    """
    loop = result.get("results")
    results: Iterable[Any] = loop if isinstance(loop, list) else [result]
    found: list[Mapping[str, Any]] = []
    for one in results:
        values = one.get(key) if isinstance(one, Mapping) else None
        if isinstance(values, list):
            found += [value for value in values if isinstance(value, Mapping) and "what" in value]
    return tuple(found)


def _amount(count: int) -> str:
    return "nothing" if count == 0 else f"{count} thing{'' if count == 1 else 's'}"
