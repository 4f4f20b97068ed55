# SPDX-License-Identifier: Apache-2.0
"""The operations that changes are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from .core import Change
from .errors import BedplateError
from .host import Host


@dataclass(frozen=True)
class WriteFile:
    """Write a file whole (see :meth:`Host.write`)."""

    path: str
    text: str
    mode: int = 0o644

    def perform(self, host: Host) -> None:
        """Write it."""
        try:
            host.write(self.path, self.text, self.mode)
        except OSError as error:
            raise BedplateError(
                f"file {self.path}: cannot be written: {error.strerror}. Next: free space or correct permissions, then repeat"
            ) from error


@dataclass(frozen=True)
class RemoveFile:
    """Remove a file or tree that may be gone already."""

    path: str

    def perform(self, host: Host) -> None:
        """Remove it."""
        host.remove(self.path)


@dataclass(frozen=True)
class RunCommand:
    """Run a command that must answer 0; ``purpose`` completes "cannot …" in the error."""

    argv: tuple[str, ...]
    purpose: str
    timeout_seconds: float = 120
    next_step: str = "read the output above on the host"
    env: Mapping[str, str] = field(default_factory=dict)

    def perform(self, host: Host) -> None:
        """Run it; raise :class:`BedplateError` with its last lines when it fails."""
        result = host.run(self.argv, timeout_seconds=self.timeout_seconds, env=self.env)
        if not result.ok:
            command = " ".join(self.argv)
            said = last_lines(result.err or result.out)
            raise BedplateError(f"cannot {self.purpose}: {command} answered {result.rc}:\n{said}\nNext: {self.next_step}")


def last_lines(text: str, count: int = 8) -> str:
    """Return the last lines that are not empty."""
    return "\n".join([line for line in text.strip().splitlines() if line.strip()][-count:])


def file_change(
    path: str,
    found: Optional[str],
    wanted: str,
    *,
    mode: int = 0o644,
    found_mode: Optional[int] = None,
    effects: frozenset[str] = frozenset(),
    secret: bool = False,
    needs: tuple[str, ...] = (),
) -> list[Change]:
    """Plan one file: no change when text and (if given) mode agree, else one change with the texts as before and after."""
    if found == wanted and (found_mode is None or found_mode == mode):
        return []
    before = found if found != wanted else f"mode {found_mode or 0:04o}"
    after = wanted if found != wanted else f"mode {mode:04o}"
    return [Change(f"file {path}", before, after, effects, WriteFile(path, wanted, mode), needs, secret)]
