# SPDX-License-Identifier: Apache-2.0
"""Run a command and say plainly what failed."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bedplate_lab.errors import LabError

LAST_LINES = 15


class CommandError(LabError):
    """A command ended with an exit code other than 0, was not found or took too long.

    `code` is the exit code, None when there is none; `output` is all it wrote.
    """

    def __init__(self, argv: Sequence[str], reason: str, output: str = "", code: int | None = None) -> None:
        tail = "\n".join(f"    {line}" for line in output.strip().splitlines()[-LAST_LINES:])
        super().__init__(f"{shlex.join(argv)}: {reason}" + (f"\n{tail}" if tail else ""))
        self.argv = list(argv)
        self.code = code
        self.output = output


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input_text: str | None = None,
    timeout_seconds: float | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run `argv` without a shell and return its result, with `stdout` and `stderr` as text.

    `env` is added to the environment. Raises CommandError, also for an exit code other than 0 unless `check` is False.
    """
    argv = [str(part) for part in argv]
    try:
        result = subprocess.run(
            argv,
            cwd=cwd,
            env={**os.environ, **env} if env else None,
            input=input_text,
            stdin=subprocess.DEVNULL if input_text is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
            check=False,
        )
    except FileNotFoundError as error:
        missing = str(cwd) if cwd and not cwd.exists() else argv[0]
        raise CommandError(argv, f"{missing} not found") from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(argv, f"no end after {timeout_seconds} s") from error
    if check and result.returncode != 0:
        raise CommandError(argv, f"exit code {result.returncode}", result.stdout + result.stderr, result.returncode)
    return result
