# SPDX-License-Identifier: Apache-2.0
"""The lab as a test run sees it: brought up beside the tests that need none, taken down if this run brought it up."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType

from bedplate_tools import ROOT
from bedplate_tools.command import say, started
from bedplate_tools.result import Check, Result, of_command

LAB = ROOT / "scripts" / "lab"


def runs() -> bool:
    """Tell whether any host of a lab runs."""
    answer = subprocess.run([LAB, "status", "--json"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if answer.returncode != 0:
        return False
    return any(host["state"] == "running" for host in json.loads(answer.stdout)["hosts"])


class Lab:
    """Brings the lab up in the background for the length of a ``with`` block and takes it down afterwards.

    A lab that ran before stays up, as does any lab with ``keep``. arguments: added to ``scripts/lab up``.
    """

    def __init__(self, *, keep: bool, arguments: Sequence[str] = ()) -> None:
        self._was_up = runs()
        self._keep = keep or self._was_up
        self._arguments = arguments
        self._ended = threading.Event()
        self._came_up = False
        self._stack = ExitStack()

    def __enter__(self) -> Lab:
        """Begin to bring it up and return at once."""
        self._up = self._stack.enter_context(started("lab up", [LAB, "up", *self._arguments], show=True))
        return self

    def ready(self) -> Result:
        """Wait until it is up; the result counts as one test."""
        try:
            self._came_up = self._up.wait()
        finally:
            self._ended.set()
        return of_command("lab up", self._came_up, self._up.seconds)

    def needed_by(self, suite: str, checks: Iterable[Check]) -> list[Check]:
        """Return checks that wait until `ready` has returned, and fail if the lab did not come up."""
        return [partial(self._checked, suite, check) for check in checks]

    def _checked(self, suite: str, check: Check) -> Result:
        self._ended.wait()
        return check() if self._came_up else of_command(f"{suite}: the lab did not come up", False, 0)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop a bring-up that is still going on, and take down what this run brought up."""
        self._stack.close()
        if self._keep:
            say("the lab stays up; scripts/lab down removes it")
        else:
            subprocess.run([LAB, "down"], cwd=ROOT, stdin=subprocess.DEVNULL)
