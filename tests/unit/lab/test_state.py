# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bedplate_lab import paths, state
from bedplate_lab.errors import LabError
from bedplate_lab.state import State
from bedplate_lab.topology import free_extra_address


def test_no_record_is_an_empty_one() -> None:
    assert state.load() == State()


def test_a_record_survives() -> None:
    record = State(
        control_planes=1, workers=2, extra={"m1": "10.87.0.51"}, machine={"boot": "x", "sysctl": {"kernel/panic": "0"}}
    )
    state.save(record)
    assert state.load() == record


def test_a_write_that_fails_leaves_the_old_record_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    state.save(State(workers=2))

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space"):
            state.save(State(workers=9))
    assert state.load().workers == 2
    assert [entry.name for entry in paths.state().iterdir()] == ["state.json"]


def test_an_update_that_fails_changes_nothing() -> None:
    state.save(State(workers=2))
    with pytest.raises(RuntimeError), state.update() as record:
        record.workers = 5
        raise RuntimeError
    assert state.load().workers == 2


def test_updates_side_by_side_lose_nothing() -> None:
    def add(index: int) -> None:
        with state.update() as record:
            record.extra[f"m{index}"] = free_extra_address(record.extra.values())

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(add, range(24)))
    extra = state.load().extra
    assert len(extra) == 24
    assert len(set(extra.values())) == 24


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1, "colour": "red"}'])
def test_a_damaged_record_is_named(text: str) -> None:
    state.path().parent.mkdir(parents=True)
    state.path().write_text(text)
    with pytest.raises(LabError, match=r"state\.json.*scripts/lab down"):
        state.load()


def test_a_record_of_another_format_is_refused() -> None:
    state.path().parent.mkdir(parents=True)
    state.path().write_text(json.dumps({"format": 7}))
    with pytest.raises(LabError, match="format 7, wanted 1"):
        state.load()
