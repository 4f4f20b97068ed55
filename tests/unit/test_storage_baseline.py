# SPDX-License-Identifier: Apache-2.0
"""Figures against baselines: what is recorded, what fails, and what may be compared at all."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.metal.plugins.plugin_utils.storage_baseline import Judgement, judge, parse, settings_of, table

SETTINGS = {"file_bytes": 2**30, "files": 2000, "small_file_bytes": 65536, "at_once": 1}
BASELINE = {
    "format": 1,
    "time": "2026-01-01T00:00:00Z",
    "settings": SETTINGS,
    "checks": {"data/large-read": {"value": 1e9, "unit": "bytes/s"}, "data/small-read": {"value": 900.0, "unit": "files/s"}},
}


def figure(check: str, value: float | None, unit: str = "bytes/s", reason: str = "", note: str = "") -> dict[str, Any]:
    return {"place": "data", "check": check, "value": value, "unit": unit, "reason": reason, "note": note}


def judged(*figures: dict[str, Any], baseline: Any = BASELINE, settings: Any = SETTINGS, record: bool = False) -> Judgement:
    time = "2026-02-02T00:00:00Z"
    return judge("w1", figures, baseline, settings, tolerance_percent=30, record=record, time=time)


def test_the_first_figures_are_the_baseline() -> None:
    one = judged(
        figure("large-read", 1e9), figure("staging", None, reason="x"), figure("read", None, note="left out"), baseline={}
    )
    assert one.changed and one.baseline["checks"] == {"data/large-read": {"value": 1e9, "unit": "bytes/s"}}
    assert one.baseline["settings"] == SETTINGS and one.message == "data staging: x"


def test_within_the_tolerance_nothing_is_written() -> None:
    one = judged(figure("large-read", 0.7e9), figure("small-read", 5000.0, "files/s"))
    assert not one.changed and one.message == "" and one.rows[0]["floor"] == 0.7e9 and one.baseline is BASELINE


def test_below_it_fails_with_found_and_wanted() -> None:
    one = judged(figure("large-read", 0.69e9), figure("small-read", 900.0, "files/s"))
    assert one.message.startswith(
        "data large-read: found 690.0 MB/s; wanted at least 700.0 MB/s, 30 % below the baseline of 2026-01-01T00:00:00Z. Next: "
    )
    assert not one.changed and [row["passed"] for row in one.rows] == [False, True]


def test_a_check_more_adds_to_the_baseline() -> None:
    one = judged(figure("large-read", 1e9), figure("staging", 5e8))
    assert set(one.baseline["checks"]) == {"data/large-read", "data/small-read", "data/staging"} and one.changed
    assert one.baseline["checks"]["data/large-read"]["value"] == 1e9


def test_recorded_anew_on_request() -> None:
    one = judged(figure("large-read", 1e8), figure("small-read", None, reason="broken"), record=True)
    assert one.baseline["checks"]["data/large-read"]["value"] == 1e8 and one.baseline["time"].startswith("2026-02")
    assert one.baseline["checks"]["data/small-read"]["value"] == 900.0, "what failed keeps the one it had"
    assert one.message == "data small-read: broken"


def test_a_baseline_of_other_sizes_is_not_compared_with() -> None:
    other = {**SETTINGS, "at_once": 8}
    one = judged(figure("large-read", 5e9), settings=other)
    assert "found a baseline of at_once 1, file_bytes" in one.message and "wanted one of at_once 8" in one.message
    assert not one.changed
    again = judged(figure("large-read", 5e9), settings=other, record=True)
    assert again.message == "" and again.baseline["settings"] == other


def test_a_host_that_was_not_measured_fails() -> None:
    one = judge("w1", None, BASELINE, SETTINGS, tolerance_percent=30, record=False, time="")
    assert "not measured: the host failed before" in one.message and not one.changed


def test_annotations_of_another_format_count_as_none() -> None:
    assert parse(None) == parse("{") == parse('{"format": 2}') == parse("[]") == {}
    assert parse('{"format": 1, "time": "t"}') == {"format": 1, "time": "t"}


def test_settings_are_those_that_change_figures() -> None:
    check = {"file_bytes": 1, "files": 2, "small_file_bytes": 3, "limit_seconds": 4, "tolerance_percent": 5}
    assert settings_of({"storage_check": check}, 8) == {"file_bytes": 1, "files": 2, "small_file_bytes": 3, "at_once": 8}


def test_the_table() -> None:
    rows = judged(figure("large-read", 0.69e9), figure("read", None, note="left out"), figure("staging", 5e8)).rows
    lines = table(rows)
    assert lines[0].split() == ["host", "place", "check", "found", "at", "least", "result"]
    assert "690.0 MB/s" in lines[1] and "700.0 MB/s" in lines[1]
    assert lines[2].endswith("left out") and lines[3].endswith("baseline recorded")
