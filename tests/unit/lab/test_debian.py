# SPDX-License-Identifier: Apache-2.0
"""A Debian mirror that does not answer: the error names it and the way out, and nothing is left in the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from bedplate_lab import debian, hostimage, paths
from bedplate_lab.errors import LabError
from bedplate_lab.report import silent
from bedplate_lab.run import CommandError


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(argv: list[str], **_: object) -> None:
        raise CommandError(argv, "exit code 25", "E: apt-get update failed", 25)

    monkeypatch.setattr(debian, "run", fails)
    monkeypatch.setattr(debian, "MIRROR", "http://mirror.test")


@pytest.mark.usefixtures("dead")
def test_the_base_host_image_names_the_mirror() -> None:
    with pytest.raises(LabError, match=r"(?s)http://mirror\.test; .*BEDPLATE_DEBIAN_MIRROR.*mmdebstrap.*apt-get update failed"):
        hostimage.build(silent)
    assert list(paths.cache("host").iterdir()) == []


@pytest.mark.usefixtures("dead")
def test_mirrored_packages_name_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian, "_dpkg_status", lambda _: b"")
    with pytest.raises(LabError, match=r"(?s)mirrored from http://mirror\.test; .*BEDPLATE_DEBIAN_MIRROR"):
        debian.mirror(tmp_path / "base.tar", silent)
    assert list(paths.cache("debs").iterdir()) == []


def test_sources_hold_updates_and_security() -> None:
    lines = debian.sources().splitlines()
    assert [line.split()[3] for line in lines] == ["bookworm", "bookworm-updates", "bookworm-security"]
    assert all(f"[signed-by={debian.KEYRING}]" in line for line in lines)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sources.list", "# deb http://old.test/debian sid main\ndeb [arch=amd64] http://mirror.test/debian sid main\n"),
        ("sources.list.d/debian.sources", "Types: deb\n# http://old.test/debian/\nURIs: http://mirror.test/debian\n"),
    ],
)
def test_the_mirror_is_the_one_the_machine_itself_uses(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(text)
    assert debian.machines_mirror(tmp_path) == "http://mirror.test"


def test_a_machine_without_debian_sources_names_no_mirror(tmp_path: Path) -> None:
    assert debian.machines_mirror(tmp_path) == ""
