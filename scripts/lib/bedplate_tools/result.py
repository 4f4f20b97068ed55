# SPDX-License-Identifier: Apache-2.0
"""What a check answered, and how answers add up."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """The outcome of one check or of one run of pytest.

    name: e.g. ``lint ruff``. passed, failed, skipped: numbers of tests. failures: names of those that failed. seconds: wall time.
    """

    name: str
    passed: int
    failed: int
    seconds: float
    skipped: int = 0
    failures: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the result as one line for people."""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.name:<28} {self.passed:>5} passed, {self.failed} failed{skipped}  ({self.seconds:.0f} s)"


Check = Callable[[], Result]


def of_command(name: str, ok: bool, seconds: float) -> Result:
    """Return the result of a check that is one command: one test that passed or failed."""
    return Result(name, int(ok), int(not ok), seconds, failures=() if ok else (name,))


def of_junit(name: str, path: Path, ok: bool, seconds: float) -> Result:
    """Sum up a JUnit XML file that pytest wrote; ``ok`` says whether pytest's exit code was 0.

    A run that failed without naming a failed test (a collection error, a kill, no file at all) counts as one failed test.
    """
    passed = skipped = 0
    failures: list[str] = []
    if path.exists():
        for case in ElementTree.parse(path).iter("testcase"):
            outcomes = {child.tag for child in case}
            if outcomes & {"failure", "error"}:
                failures.append(f"{case.get('classname', '')}::{case.get('name', '')}")
            elif "skipped" in outcomes:
                skipped += 1
            else:
                passed += 1
    if not ok and not failures:
        failures.append(f"{name}: ended without naming a failed test")
    return Result(name, passed, len(failures), seconds, skipped, tuple(failures))


def summary(results: Iterable[Result]) -> tuple[list[str], int]:
    """Return the lines that end a test run, the last being ``N passed, N failed``, and the exit code."""
    results = list(results)
    failures = [failure for result in results for failure in result.failures]
    lines = [result.line() for result in results]
    lines += ["", "failed:", *(f"  {failure}" for failure in failures)] if failures else []
    passed = sum(result.passed for result in results)
    failed = sum(result.failed for result in results)
    return [*lines, "", f"{passed} passed, {failed} failed"], 1 if failed or not passed else 0
