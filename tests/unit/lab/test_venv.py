# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def bash(script: str, path: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `script` after sourcing venv.sh, with only `path` and `home` to find programs in."""
    return subprocess.run(
        ["bash", "-uc", f"source {ROOT}/scripts/lib/venv.sh\nBEDPLATE_PYTHON_PLACES=() BEDPLATE_GO_PLACES=()\n{script}"],
        env={"PATH": path, "HOME": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A PATH with what a fresh system has, and no Python and no Go."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("bash", "sh", "dirname", "cat", "sort", "head", "mkdir", "rm", "touch", "mktemp", "ln", "readlink", "sha256sum"):
        found = next(Path(part, name) for part in [*os.defpath.split(os.pathsep), "/usr/bin"] if Path(part, name).exists())
        (directory / name).symlink_to(found)
    return str(directory)


def test_an_interpreter_in_pyenv_is_found(bare: str, tmp_path: Path) -> None:
    python = tmp_path / "home/.pyenv/versions/3.12.9/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    result = bash("bedplate_find_python", bare, tmp_path / "home")
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).exists()


def test_an_older_interpreter_or_a_shim_that_fails_is_none(bare: str, tmp_path: Path) -> None:
    program(Path(bare, "python3.12"), 'echo "pyenv: python3.12: command not found" >&2; exit 127')
    program(Path(bare, "python3"), '[ "$1" = -V ] && echo Python 3.11.2; exit 1')
    result = bash("bedplate_find_python", bare, tmp_path)
    assert result.returncode == 1
    assert result.stdout == ""
    for part in ("no Python of 3.12 or newer", "found: python3 is Python 3.11.2", "next: install one", "BEDPLATE_PYTHON"):
        assert part in result.stderr


def test_a_named_interpreter_that_is_none_is_an_error(bare: str, tmp_path: Path) -> None:
    result = bash("bedplate_find_python", bare, tmp_path, BEDPLATE_PYTHON="/nowhere/python3")
    assert result.returncode == 1
    assert "BEDPLATE_PYTHON=/nowhere/python3" in result.stderr


@pytest.mark.parametrize(
    ("version", "new"),
    [("go1.26.0", True), ("go1.27rc1", True), ("go1.30.1", True), ("go1.25.9", False), ("go1.9", False), ("devel", False)],
)
def test_which_go_is_new_enough(version: str, new: bool, bare: str, tmp_path: Path) -> None:
    go = program(tmp_path / "go", f'[ "$GOTOOLCHAIN" = local ] && echo {version}')
    assert (bash(f"bedplate_go_is_new {go}", bare, tmp_path).returncode == 0) is new


def test_a_go_in_the_usual_places_comes_first_on_path(bare: str, tmp_path: Path) -> None:
    program(Path(bare, "go"), "echo go1.19.8")
    wanted = program(tmp_path / "sdk/go1.99.1/bin/go", "echo go1.99.1")
    result = bash("bedplate_go && command -v go", bare, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(wanted)
