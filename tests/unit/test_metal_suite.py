# SPDX-License-Identifier: Apache-2.0
"""The suite of the virtual machines: booted once, tests of one beside those of the other, nothing tried without them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from bedplate_tools.metal import MACHINES, TESTS, Metal
from bedplate_tools.result import Result, of_command

ROOT = Path(__file__).resolve().parents[2]


class Recorded:
    """What the suite ran; `beside` is met when the tests of all machines run at the same time."""

    def __init__(self, *, boots: bool = True) -> None:
        self.boots = boots
        self.ran: list[tuple[str, ...]] = []
        self.beside = threading.Barrier(len(MACHINES))

    def pytest(self, name: str, arguments: Sequence[str]) -> Result:
        if name.removeprefix("metal ") in MACHINES:
            self.beside.wait(10)
        self.ran.append((name, *arguments))
        return Result(name, 2, 1, 1.0, 0, (f"{name}::fails",))

    def command(self, name: str, argv: Sequence[str | Path]) -> Result:
        self.ran.append((name,))
        return of_command(name, name != "metal up" or self.boots, 0)


def results(recorded: Recorded, options: Sequence[str] = (), extra: Sequence[str] = ()) -> list[Result]:
    return [check() for check in Metal(recorded.pytest, recorded.command).checks(options, extra)]


def test_new_machines_each_beside_the_other_then_both() -> None:
    recorded = Recorded()
    found = results(recorded, ["--full"])
    names = [name for name, *_ in recorded.ran]
    assert names[:2] == ["metal down", "metal up"] and names[-2:] == ["metal", "metal down"]
    assert sorted(names[2:-2]) == [f"metal {name}" for name in MACHINES]
    assert all("--full" in arguments for _name, *arguments in recorded.ran if arguments)
    (both,) = [result for result in found if result.name == "metal m1 and metal m2"]
    assert (both.passed, both.failed, len(both.failures)) == (4, 2, 2)


def test_every_test_is_run_once() -> None:
    recorded = Recorded()
    results(recorded)
    runs = [arguments for _name, *arguments in recorded.ran if arguments]
    ran = [argument for arguments in runs for argument in arguments if argument.startswith(f"{TESTS}/")]
    (last,) = [arguments for arguments in runs if TESTS in arguments]
    assert sorted(ran) == [f"{TESTS}/{name}" for name in MACHINES]
    assert {argument.removeprefix("--ignore=") for argument in last if argument.startswith("--ignore=")} == set(ran)
    assert all((ROOT / path).exists() for path in ran)


def test_arguments_of_pytests_make_it_one_run() -> None:
    recorded = Recorded()
    results(recorded, extra=["-k", "fabric"])
    assert recorded.ran[2:-1] == [("metal", TESTS, "-k", "fabric", "-v")]


def test_nothing_is_tried_on_machines_that_did_not_come_up() -> None:
    recorded = Recorded(boots=False)
    found = results(recorded)
    assert [name for name, *_ in recorded.ran] == ["metal down", "metal up", "metal down"]
    assert sum(result.failed for result in found) == 4
