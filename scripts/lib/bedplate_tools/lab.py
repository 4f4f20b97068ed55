# SPDX-License-Identifier: Apache-2.0
"""The lab as a test run sees it: brought up beside the tests that need none, taken down if this run brought it up."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from types import TracebackType

from bedplate_tools import ROOT
from bedplate_tools.command import Running, say
from bedplate_tools.result import Result, of_command

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
        self._up: Running | None = None

    def __enter__(self) -> Lab:
        """Begin to bring it up and return at once."""
        self._up = Running("lab up", [LAB, "up", *self._arguments], show=True)
        return self

    def ready(self) -> Result:
        """Wait until it is up; the result counts as one test."""
        assert self._up is not None
        return of_command("lab up", self._up.wait(), self._up.seconds)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop a bring-up that is still going on, and take down what this run brought up."""
        if self._up is not None:
            self._up.stop()
        if self._keep:
            say("the lab stays up; scripts/lab down removes it")
        else:
            subprocess.run([LAB, "down"], cwd=ROOT, stdin=subprocess.DEVNULL)
