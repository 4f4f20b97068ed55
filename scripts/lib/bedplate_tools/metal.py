# SPDX-License-Identifier: Apache-2.0
"""The suite of the virtual machines: the tests of one of them beside those of the other, then those that need both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bedplate_tools.lab import LAB
from bedplate_tools.result import Check, Result, of_command

TESTS = "tests/e2e/metal"
MACHINES = ("m1", "m2")
"""Tests of one machine alone are in a directory of its name."""
Pytest = Callable[[str, Sequence[str]], Result]
Command = Callable[[str, Sequence[str | Path]], Result]


class Metal:
    """The suite's checks, in order: machines are booted once and removed at the end; nothing is tried without them."""

    def __init__(self, pytest: Pytest, command: Command) -> None:
        self._pytest = pytest
        self._command = command
        self._up = False

    def checks(self, options: Sequence[str], extra: Sequence[str]) -> list[Check]:
        """Return the checks; with arguments of pytest's (extra) all tests are one run. options: pytest's, of every run."""
        beside = [f"{TESTS}/{name}" for name in MACHINES]
        rest = [TESTS, *(f"--ignore={path}" for path in beside)]
        parts = [partial(self._side_by_side, beside), partial(self._run, "metal", rest)]
        if extra:
            parts = [partial(self._run, "metal", [TESTS, *extra])]
        return [self._boot, *(partial(part, options) for part in parts), self._remove]

    def _boot(self) -> Result:
        self._command("metal down", [LAB, "metal", "down"])
        result = self._command("metal up", [LAB, "metal", "up"])
        self._up = result.failed == 0
        return result

    def _remove(self) -> Result:
        return self._command("metal down", [LAB, "metal", "down"])

    def _run(self, name: str, arguments: Sequence[str], options: Sequence[str]) -> Result:
        if not self._up:
            return of_command(f"{name}: the machines did not come up", False, 0)
        return self._pytest(name, [*arguments, "-v", *options])

    def _side_by_side(self, paths: Sequence[str], options: Sequence[str]) -> Result:
        names = [f"metal {path.rpartition('/')[2]}" for path in paths]
        with ThreadPoolExecutor() as pool:
            results = list(pool.map(lambda name, path: self._run(name, [path], options), names, paths))
        return Result(
            " and ".join(names),
            sum(result.passed for result in results),
            sum(result.failed for result in results),
            max(result.seconds for result in results),
            sum(result.skipped for result in results),
            tuple(failure for result in results for failure in result.failures),
        )
