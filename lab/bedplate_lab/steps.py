# SPDX-License-Identifier: Apache-2.0
"""The list of steps `up` prints: what is done, what is being done, and the time it took."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

from bedplate_lab.report import Report

PLAIN_COLUMNS = 200
"""Width of what is not a terminal: a log."""


@dataclass
class Step:
    """One step. `note` is what it is doing now, or what came of it."""

    title: str
    started: float = field(default_factory=time.monotonic)
    seconds: float | None = None
    failed: bool = False
    note: str = ""


class Steps:
    """Steps that may run side by side: a live table on a terminal, plain lines elsewhere. Thread-safe."""

    def __init__(self, console: Console | None = None, *, error_output: bool = False) -> None:
        """Print to `console`; without one to standard output, or to standard error if `error_output`."""
        self.console = console or Console(stderr=error_output, highlight=False, soft_wrap=True)
        if not self.console.is_terminal:
            self.console.width = PLAIN_COLUMNS
        self.started = time.monotonic()
        self._running: list[Step] = []
        self._lock = threading.RLock()
        self._spinner = Spinner("dots")

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Show running steps while the block lasts; other programs may write to the terminal only outside of it."""
        if not self.console.is_terminal:
            yield
            return
        with Live(console=self.console, get_renderable=self._table, refresh_per_second=8, transient=True):
            yield

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[Report]:
        """A step lasting as long as the block; the yielded report says what it is doing now."""
        step = Step(title)
        with self._lock:
            self._running.append(step)
        if not self.console.is_terminal:
            self._line("start", title)

        def report(text: str) -> None:
            with self._lock:
                step.note = text
            if not self.console.is_terminal:
                self._line("", f"{title}: {text}")

        try:
            yield report
        except BaseException:
            step.failed = True
            raise
        finally:
            step.seconds = time.monotonic() - step.started
            with self._lock:
                self._running.remove(step)
            self._finished(step)

    def _finished(self, step: Step) -> None:
        assert step.seconds is not None
        word = "failed" if step.failed else "done"
        if self.console.is_terminal:
            mark = "[red]✗[/red]" if step.failed else "[green]✓[/green]"
            note = f"  {escape(step.note)}" if step.note else ""
            self.console.print(f"{mark} {escape(step.title)} [dim]{duration(step.seconds)}{note}[/dim]")
        else:
            self._line(word, f"{step.title} ({duration(step.seconds)})")

    def _line(self, word: str, text: str) -> None:
        elapsed = time.monotonic() - self.started
        self.console.print(f"[{elapsed:7.1f} s] {word:6} {text}", markup=False)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for _ in range(3):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", style="dim")
        now = time.monotonic()
        with self._lock:
            for step in self._running:
                table.add_row(self._spinner, escape(step.title), f"[dim]{duration(now - step.started)}[/dim]", escape(step.note))
        return table


def duration(seconds: float) -> str:
    """Seconds as people read them: `4.2 s`, `3 min 05 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
