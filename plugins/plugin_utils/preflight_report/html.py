# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML file: no script, nothing loaded, every text escaped by the template engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .document import machine_line, summary, when
from .facts import system_facts, tables
from .row import VERDICTS


def html(report: Mapping[str, Any]) -> str:
    """Return the page."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    shown, all_hosts = len(report["hosts"]), report["hosts_of_the_site"]
    partly = f"{shown} of the site's {all_hosts} hosts" if shown != all_hosts else f"all {shown} hosts"
    hosts = [host(number, name, entry) for number, (name, entry) in enumerate(report["hosts"].items(), 1)]
    return environment.get_template("report.html.j2").render(
        report=report, made_at=when(report["made_at"]), partly=partly, hosts=hosts
    )


def host(number: int, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the template shows of a host: worst rows first, each in the order of the report."""
    place = [f"pool {entry['pool']}", entry["kind"], *([f"rack {entry['rack']}"] if entry["rack"] else [])]
    return {
        "name": name,
        "anchor": f"host-{number}",
        "entry": entry,
        "summary": summary(entry),
        "machine": machine_line(entry),
        "place": ", ".join(place),
        "rows": sorted(entry["rows"], key=lambda row: VERDICTS.index(row["verdict"])),
        "system": system_facts(entry["facts"]),
        "tables": tables(name, entry["facts"]),
    }
