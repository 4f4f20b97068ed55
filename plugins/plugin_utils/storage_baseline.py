# SPDX-License-Identifier: Apache-2.0
"""Figures of a host's storage against its baseline, and where the baseline is kept. Pure but for the Kubernetes API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.metal.plugins.plugin_utils import measurements
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, node_path

ANNOTATION = "bedplate.dev/storage-baseline"
"""JSON, format 1: time, settings (sizes, and hosts at once), checks (value and unit by place/check)."""
FORMAT = 1
RECORD_AGAIN = "-e bedplate_storage_record=true records it anew"
NOT_MEASURED = "not measured: the host failed before"

Row = dict[str, Any]


@dataclass(frozen=True)
class Judgement:
    """Rows of one host, and its baseline as it is afterwards; changed: it must be written."""

    rows: list[Row] = field(default_factory=list)
    baseline: Mapping[str, Any] = field(default_factory=dict)
    changed: bool = False

    @property
    def message(self) -> str:
        """What failed, one line each; "" for nothing."""
        return "\n".join(f"{row['place']} {row['check']}: {row['reason']}" for row in self.rows if not row["passed"])


def settings_of(bedplate: Mapping[str, Any], at_once: int) -> dict[str, int]:
    """Return what figures can only be compared under."""
    wanted = bedplate["storage_check"]
    return {**{key: int(wanted[key]) for key in ("file_bytes", "files", "small_file_bytes")}, "at_once": at_once}


def judge(
    host: str,
    figures: Sequence[Mapping[str, Any]] | None,
    baseline: Mapping[str, Any],
    settings: Mapping[str, int],
    *,
    tolerance_percent: int,
    record: bool,
    time: str,
) -> Judgement:
    """Compare a host's figures; a check without a baseline sets it, and with record every one does.

    figures: None where the host was not measured. baseline: {} for none.
    """
    if figures is None:
        return Judgement([_row(host, {"place": "-", "check": "-", "reason": NOT_MEASURED})], baseline)
    known: Mapping[str, Any] = baseline.get("checks") or {}
    used = baseline.get("settings") or settings
    other = "" if record or not known or used == settings else _other(used, settings)
    rows, checks = [], dict(known)
    for figure in figures:
        key = f"{figure['place']}/{figure['check']}"
        row = _row(host, figure)
        if not row["reason"] and figure["value"] is not None:
            if other or (key in known and not record):
                row["reason"] = other or _compare(row, known[key]["value"], tolerance_percent, baseline["time"])
            else:
                checks[key] = {"value": figure["value"], "unit": figure["unit"]}
                row["note"] = "baseline recorded"
        rows.append({**row, "passed": not row["reason"]})
    if checks == known:
        return Judgement(rows, baseline)
    return Judgement(rows, {"format": FORMAT, "time": time, "settings": dict(settings), "checks": checks}, True)


def _other(used: Mapping[str, int], settings: Mapping[str, int]) -> str:
    """Say that a baseline is one of other sizes."""
    before, now = (", ".join(f"{key} {some[key]}" for key in sorted(some)) for some in (used, settings))
    return f"found a baseline of {before}; wanted one of {now}. Next: use those again, or {RECORD_AGAIN}"


def _compare(row: Row, baseline: float, tolerance_percent: int, time: str) -> str:
    """Set the row's baseline and floor; return why it fails, "" where it does not."""
    row.update(baseline=baseline, floor=round(baseline * (100 - tolerance_percent) / 100, 1))
    if row["value"] >= row["floor"]:
        return ""
    found, floor = amount(row["value"], row["unit"]), amount(row["floor"], row["unit"])
    wanted = f"at least {floor}, {tolerance_percent} % below the baseline of {time}"
    step = f"look at what else uses the place, at its disks and links; where it is meant to be so, {RECORD_AGAIN}"
    return f"found {found}; wanted {wanted}. Next: {step}"


def _row(host: str, figure: Mapping[str, Any]) -> Row:
    empty = {"value": None, "unit": "", "reason": "", "note": "", "baseline": None, "floor": None}
    row = {**empty, **figure, "host": host}
    return {**row, "passed": not row["reason"]}


def amount(value: float | None, unit: str) -> str:
    """Return a figure for people."""
    if value is None:
        return "-"
    return f"{value / 1e6:.1f} MB/s" if unit == "bytes/s" else f"{value:.1f} {unit}"


def table(rows: Sequence[Row]) -> list[str]:
    """Return the rows as lines for a terminal."""
    header = ("host", "place", "check", "found", "at least", "result")
    return measurements.table(header, (_cells(row) for row in rows))


def _cells(row: Row) -> tuple[str, ...]:
    result = row["reason"] if not row["passed"] else row["note"] or "ok"
    figures = (amount(row["value"], row["unit"]), amount(row["floor"], row["unit"]))
    return (row["host"], row["place"], row["check"], *figures, result)


def read_nodes(api: Api) -> dict[str, dict[str, Any]]:
    """Return the baseline of every Node that there is; {} for one without."""
    return {node["metadata"]["name"]: parse((node["metadata"].get("annotations") or {}).get(ANNOTATION)) for node in api.nodes()}


def parse(text: str | None) -> dict[str, Any]:
    """Return a baseline out of an annotation; {} for none, and for one of another format."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) and found.get("format") == FORMAT else {}


def write_node(api: Api, name: str, baseline: Mapping[str, Any]) -> None:
    """Keep a baseline on a Node object."""
    annotations = {ANNOTATION: json.dumps(baseline, sort_keys=True)}
    api.patch(node_path(name), {"metadata": {"annotations": annotations}})
