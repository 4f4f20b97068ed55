# SPDX-License-Identifier: Apache-2.0
"""A host in memory behind the same door as a real one: files, commands, and a switch that kills a run before its n-th change."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.host import DEFAULT_TIMEOUT_SECONDS, NOT_FOUND, Result

VOLATILE = ("/var/lib/bedplate/apt.json",)
"""Left by a killed package transaction until preflight or the next transaction of held packages clears it away."""


class KilledError(BaseException):
    """The run was killed here. Not an Exception: nothing may catch it and go on."""


@dataclass
class Package:
    """A package as dpkg knows it."""

    version: str
    status: str = "install ok installed"
    held: bool = False


Handler = Callable[["RecordedHost", Sequence[str], "str | None"], Result]


@dataclass
class RecordedHost:
    """State and commands of a simulated host; ``commands`` lists every argv that ran.

    A handler stands for a program, by the base name of argv[0]; one that changes something calls :meth:`changing` first.
    repository: package name to the versions on offer. installs: what installing a package does besides. services: unit (without
    ``.service``) to ``active``, ``inactive`` or ``failed``. broken_restarts: units that do not come up.
    """

    files: dict[str, str] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    packages: dict[str, Package] = field(default_factory=dict)
    repository: dict[str, list[str]] = field(default_factory=dict)
    installs: dict[str, Callable[[RecordedHost], None]] = field(default_factory=dict)
    services: dict[str, str] = field(default_factory=dict)
    broken_restarts: set[str] = field(default_factory=set)
    modules: dict[str, dict[str, str]] = field(default_factory=dict)
    apt_error: str = ""
    update_error: str = ""
    disk_free: str = "50000000000 1000000 2000000"
    commands: list[list[str]] = field(default_factory=list)
    environments: list[dict[str, str]] = field(default_factory=list)
    handlers: dict[str, Handler] = field(default_factory=dict)
    full: bool = False
    _changes: int = 0
    _kill_at: int | None = None

    def __post_init__(self) -> None:
        from simulated_commands import HANDLERS

        self.handlers = {**HANDLERS, **self.handlers}

    # The switch

    def kill_after(self, count: int | None) -> None:
        """Kill the run before change number ``count`` (1 is the first) from now; None switches it off."""
        self._changes = 0
        self._kill_at = count

    def changing(self) -> None:
        """Count a change that is about to happen; every simulated program that changes something calls it."""
        self._changes += 1
        if self._kill_at is not None and self._changes >= self._kill_at:
            raise KilledError

    @property
    def changes(self) -> int:
        """How many changes happened since :meth:`kill_after` was called."""
        return self._changes

    def on(self, program: str, handler: Handler) -> None:
        """Let a handler stand for a program."""
        self.handlers[program] = handler

    def ran(self, *start: str) -> list[list[str]]:
        """Return the commands that began with these words."""
        return [c for c in self.commands if tuple(c[: len(start)]) == start]

    def snapshot(self) -> dict[str, Any]:
        """Return the state that two runs must agree on."""
        return {
            "files": {p: t for p, t in self.files.items() if p not in VOLATILE},
            "modes": {p: m for p, m in self.modes.items() if p not in VOLATILE},
            "packages": {n: vars(p) for n, p in self.packages.items()},
            "services": dict(self.services),
        }

    # The door

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def read_bytes(self, path: str, size: int) -> bytes | None:
        text = self.read(path)  # a recorded file of bytes has a character for each
        return None if text is None else text.encode("latin-1")[:size]

    def mode(self, path: str) -> int | None:
        return self.modes.get(path, 0o644) if path in self.files else None

    def exists(self, path: str) -> bool:
        return path in self.files or any(p.startswith(path.rstrip("/") + "/") for p in self.files)

    def glob(self, pattern: str) -> list[str]:
        depth = pattern.count("/")
        starts = {"/".join(p.split("/")[: depth + 1]) for p in self.files if p.count("/") >= depth}
        return sorted(p for p in starts if _matches(p, pattern))

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        self.changing()
        if self.full:
            raise OSError(28, "No space left on device")
        self.files[path] = text
        self.modes[path] = mode

    def remove(self, path: str) -> None:
        gone = [p for p in self.files if p == path or p.startswith(path.rstrip("/") + "/")]
        if gone:
            self.changing()
        for name in gone:
            del self.files[name]
            self.modes.pop(name, None)

    def run(
        self,
        argv: Sequence[str],
        stdin: str | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        self.commands.append(list(argv))
        self.environments.append(dict(env or {}))
        handler = self.handlers.get(argv[0].rpartition("/")[2])
        if handler is None:
            return Result(NOT_FOUND, "", f"{argv[0]}: No such file or directory")
        return handler(self, list(argv), stdin)


def _matches(path: str, pattern: str) -> bool:
    """Compare part by part: a star never crosses a slash."""
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(fnmatch.fnmatchcase(a, b) for a, b in zip(parts, patterns, strict=True))
