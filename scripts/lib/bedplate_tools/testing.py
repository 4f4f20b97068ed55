# SPDX-License-Identifier: Apache-2.0
"""``scripts/test``: runs suites, side by side where they allow it, and ends with ``N passed, N failed``."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from bedplate_tools import suites
from bedplate_tools.command import say, stop_all
from bedplate_tools.lab import Lab
from bedplate_tools.result import Check, Result, summary

SUITES = ("unit", "lint", "e2e", "molecule", "metal")
BY_DEFAULT = SUITES[:-1]
"""The virtual machines are named to be tested: emulated, they take long."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suites named on the command line and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    extra: list[str] = []
    if "--" in arguments:
        extra = arguments[arguments.index("--") + 1 :]
        arguments = arguments[: arguments.index("--")]
    parser = argparse.ArgumentParser(
        prog="scripts/test",
        description="Run the tests. Logs and JUnit files go to reports/test. What follows -- is pytest's (unit, e2e, metal).",
    )
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="|".join(SUITES), help="default: all but metal")
    parser.add_argument("--keep", action="store_true", help="leave the lab up afterwards")
    parser.add_argument("--full", action="store_true", help="metal: also what takes long on emulated processors")
    options = parser.parse_args(arguments)
    wanted = [suite for suite in SUITES if suite in (options.suites or BY_DEFAULT)]

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        results = run(wanted, extra, keep=options.keep, full=options.full)
    except Interrupted as interrupted:
        return 128 + interrupted.number
    lines, code = summary(results)
    say("\n".join(["", *lines]))
    return code


class Interrupted(BaseException):
    """A signal asked for the end. Raised where the main thread stands, so that what is waited for there can be ended as well."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _interrupt(number: int, _frame: object) -> None:
    for again in (signal.SIGINT, signal.SIGTERM):
        signal.signal(again, signal.SIG_IGN)
    say("interrupted: ending what was started")
    raise Interrupted(number)


def run(wanted: Sequence[str], extra: Sequence[str] = (), *, keep: bool = False, full: bool = False) -> list[Result]:
    """Run suites and return their results: in one lane the lab and its cluster's tests, in the other all that need no cluster."""
    alone = [*(suites.unit(extra, show=len(wanted) == 1) if "unit" in wanted else [])]
    alone += suites.lint() if "lint" in wanted else []
    if not {"e2e", "molecule", "metal"} & set(wanted):
        return _side_by_side(*([check] for check in alone))
    # Molecule's hosts need the depot alone; the cluster is for the e2e tests, and a virtual machine joins it.
    with Lab(keep=keep, arguments=() if {"e2e", "metal"} & set(wanted) else ("--no-site",)) as lab:
        cluster = suites.e2e(extra) if "e2e" in wanted else []
        hosts = suites.molecule() if "molecule" in wanted else []
        hosts += suites.e2e_apart(extra) if "e2e" in wanted else []
        machines = suites.metal(extra, full=full) if "metal" in wanted else []
        return _side_by_side(
            [lab.ready, *lab.needed_by("e2e", cluster), *lab.needed_by("metal", machines)],
            [*alone, *lab.needed_by("molecule or e2e-apart", hosts)],
        )


def _side_by_side(*lanes: Sequence[Check]) -> list[Result]:
    """Run lanes of checks, two at a time; the checks of a lane run one after the other."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            return [result for lane in pool.map(_in_order, lanes) for result in lane]
        except BaseException:
            stop_all()  # or leaving the pool would wait for them
            raise


def _in_order(checks: Sequence[Check]) -> list[Result]:
    return [_told(check) for check in checks]


def _told(check: Check) -> Result:
    result = check()
    say(result.line())
    return result


if __name__ == "__main__":
    sys.exit(main())
