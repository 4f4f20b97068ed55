# SPDX-License-Identifier: Apache-2.0
"""Podman as the lab uses it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from subprocess import CompletedProcess
from typing import Any, Protocol

from bedplate_lab import labels, topology
from bedplate_lab.errors import LabError
from bedplate_lab.run import run


class Runner(Protocol):
    """What runs a command: `bedplate_lab.run.run`, or a stand-in for tests."""

    def __call__(self, argv: Sequence[str], *, check: bool = True, timeout_seconds: float | None = None) -> CompletedProcess[str]:
        """Run `argv`; raise CommandError unless it ends with 0 or `check` is False."""
        ...


@dataclass(frozen=True)
class Container:
    """A container as `podman ps` shows it."""

    name: str
    id: str
    state: str
    """created, running, exited, …; `dead` also for one that podman calls running and whose first process is gone."""
    started_at: int = 0
    """Unix time of the last start, seconds."""
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.state == "running"


class Podman:
    """Podman's commands, through a runner that tests replace."""

    def __init__(self, runner: Runner = run) -> None:
        self._run = runner

    def __call__(self, *arguments: str, check: bool = True, timeout_seconds: float | None = 120) -> CompletedProcess[str]:
        """Run `podman ARGUMENTS`. Raises CommandError."""
        return self._run(["podman", *arguments], check=check, timeout_seconds=timeout_seconds)

    def containers(self) -> dict[str, Container]:
        """This lab's containers by name, whatever their state. Raises CommandError."""
        rows = self._rows("ps", "--all", *labels.filters(), "--format", "json")
        return {container.name: container for container in map(_container, rows)}

    def foreign(self) -> dict[str, str]:
        """Containers that bear the lab's names and are not this checkout's: name to whose they are."""
        rows = self._rows("ps", "--all", "--filter", f"name=^{topology.CONTAINER_PREFIX}", "--format", "json")
        found = {}
        for container in map(_container, rows):
            if container.labels.get(labels.LAB) != labels.INSTANCE:
                found[container.name] = container.labels.get(labels.CHECKOUT, "made by hand")
        return found

    def labelled(self) -> list[Container]:
        """Containers of every lab on this machine, whatever their state."""
        return list(map(_container, self._rows("ps", "--all", "--filter", f"label={labels.LAB}", "--format", "json")))

    def remove_container(self, name: str) -> None:
        """Remove a container at once, running or not, with its anonymous volumes; none is fine."""
        self("rm", "--force", "--ignore", "--time", "0", "--volumes", name)

    def volumes(self, owner: str = labels.INSTANCE) -> list[str]:
        """Names of a lab's volumes, this one's unless another is named."""
        return self("volume", "ls", "--quiet", *labels.filters(owner)).stdout.split()

    def create_volume(self, name: str) -> None:
        """Make an empty volume; one of that name that is there already belongs to a host long gone and is replaced."""
        self.remove_volume(name)
        self("volume", "create", *labels.arguments(), name)

    def remove_volume(self, name: str) -> None:
        """Remove a volume; none is fine. Raises CommandError when a container uses it."""
        if self("volume", "exists", name, check=False).returncode == 0:
            self("volume", "rm", name)

    def network(self) -> dict[str, Any] | None:
        """The lab's network as `podman network inspect` shows it, None when there is none."""
        result = self("network", "inspect", topology.NETWORK, check=False)
        if result.returncode != 0:
            return None
        rows: list[dict[str, Any]] = json.loads(result.stdout or "[]")
        return rows[0] if rows else None

    def _rows(self, *arguments: str) -> list[dict[str, Any]]:
        text = self(*arguments).stdout.strip()
        try:
            rows: list[dict[str, Any]] = json.loads(text or "[]") or []
        except ValueError as error:
            raise LabError(f"podman {' '.join(arguments)}: wanted JSON, found {text[:200]!r}") from error
        return rows


def _container(row: dict[str, Any]) -> Container:
    state = str(row.get("State", ""))
    pid = int(row.get("Pid") or 0)
    if state == "running" and pid and not os.path.exists(f"/proc/{pid}"):
        state = "dead"
    return Container(
        name=row["Names"][0],
        id=row["Id"],
        state=state,
        started_at=int(row.get("StartedAt") or 0),
        labels=row.get("Labels") or {},
    )
