# SPDX-License-Identifier: Apache-2.0
"""Run a command of the test suite, in its own process group, so that nothing it started is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bedplate_tools import REPORTS, ROOT

_printing = threading.Lock()
GRACE_SECONDS = 120
"""How long a command may take to clean up after a TERM (the lab removes containers then)."""


def say(text: str) -> None:
    """Print whole lines, also while other commands run side by side."""
    with _printing:
        print(text, flush=True)


class Stopped(Exception):
    """The test run is being ended; nothing new is started."""


class Running:
    """A command that was started; ``show`` streams its output to the terminal, and it always goes to a log under reports/test."""

    def __init__(self, name: str, argv: Sequence[str | Path], *, show: bool, env: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.log = REPORTS / "test" / f"{name.replace(' ', '-').replace('/', '-')}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._show = show
        self._started = time.monotonic()
        self.seconds = 0.0
        self._process = subprocess.Popen(
            [str(part) for part in argv],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self.log.open("w", encoding="utf-8") as log:
            for line in self._process.stdout:
                log.write(line)
                log.flush()
                if self._show:
                    say(line.rstrip("\n"))

    def wait(self) -> bool:
        """Wait for the end; tell whether the exit code was 0. The output of a quiet command is shown when it failed."""
        code = self._process.wait()
        self.seconds = time.monotonic() - self._started
        # What the command left running in the background may hold the pipe open; it does not hold up the tests.
        self._reader.join(timeout=5)
        if code != 0 and not self._show:
            say(f"--- {self.name}: exit code {code}\n{self.log.read_text(encoding='utf-8', errors='replace').rstrip()}\n---")
        return code == 0

    def stop(self) -> None:
        """End the command and what it started: TERM, then KILL after GRACE_SECONDS."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            os.killpg(self._process.pid, number)
            try:
                self._process.wait(timeout=GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                continue


_running: set[Running] = set()
_stopping = threading.Event()


@contextmanager
def started(
    name: str, argv: Sequence[str | Path], *, show: bool = False, env: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a command for the length of a block; it is stopped if the block ends first. Refused once `stop_all` was called."""
    if _stopping.is_set():
        raise Stopped(name)
    running = Running(name, argv, show=show, env=env)
    _running.add(running)
    try:
        yield running
    finally:
        running.stop()
        _running.discard(running)


def stop_all() -> None:
    """Stop every command that is still running, also those of other threads, and let none begin."""
    _stopping.set()
    for running in list(_running):
        running.stop()
