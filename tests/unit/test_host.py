# SPDX-License-Identifier: Apache-2.0
"""The machine's own errors: each names the file it is about."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.host import LocalHost


def test_a_full_disk_names_the_file_and_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "record.json"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        LocalHost().write(str(path), "new")
    assert caught.value.filename == str(path)
    assert [(file.name, file.read_text(encoding="utf-8")) for file in tmp_path.iterdir()] == [("record.json", "old")]


def test_a_directory_that_cannot_be_made_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    path = tmp_path / "file" / "below" / "record.json"
    with pytest.raises(OSError, match="Not a directory") as caught:
        LocalHost().write(str(path), "new")
    assert caught.value.filename == str(path)
