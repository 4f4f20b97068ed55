# SPDX-License-Identifier: Apache-2.0
"""The report on a terminal: all hosts in one table, then what is not ok, host by host."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .document import machine_line, summary, when
from .row import DIFFERS, OK, UNKNOWN

STYLES = {OK: "green", DIFFERS: "bold red", UNKNOWN: "yellow"}
NARROWEST = 60
IN_A_FILE = 120
"""Columns where there is no terminal to ask."""


def terminal(report: Mapping[str, Any], *, width: int = IN_A_FILE, colour: bool = False, everything: bool = False) -> str:
    """Return the report as text. width: columns; everything: also rows that are ok. Text of hosts is never taken as markup."""
    out = io.StringIO()
    console = Console(file=out, width=max(width, NARROWEST), force_terminal=colour, color_system="standard" if colour else None)
    console.print(overview(report))
    for name, entry in report["hosts"].items():
        rows = [row for row in entry["rows"] if everything or row["verdict"] != OK]
        if rows:
            console.print()
            console.print(details(name, entry, rows))
    return out.getvalue().rstrip("\n")


def overview(report: Mapping[str, Any]) -> Table:
    """Return the table of all hosts."""
    shown, all_hosts = len(report["hosts"]), report["hosts_of_the_site"]
    partly = f" ({shown} of {all_hosts} hosts)" if shown != all_hosts else ""
    table = Table(title=Text(f"{report['cluster']}{partly}, {when(report['made_at'])}"), title_justify="left", expand=True)
    for column in ("host", "pool", "machine", "declared against found"):
        table.add_column(column, overflow="fold")
    for name, entry in report["hosts"].items():
        verdict = Text(summary(entry), style=STYLES[entry["verdict"]])
        table.add_row(Text(name), Text(entry["pool"]), Text(machine_line(entry)), verdict)
    return table


def details(name: str, entry: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> Table:
    """Return the table of one host."""
    table = Table(title=Text(f"{name} ({entry['pool']})"), title_justify="left", show_lines=True, expand=True)
    for column, share in (("what", 3), ("declared", 3), ("found", 5), ("verdict", None), ("next step", 5)):
        table.add_column(column, ratio=share, overflow="fold", no_wrap=share is None, min_width=7 if share is None else None)
    for row in rows:
        verdict = Text(row["verdict"], style=STYLES[row["verdict"]])
        table.add_row(*(Text(row[key]) for key in ("what", "declared", "found")), verdict, Text(row["next_step"]))
    return table
