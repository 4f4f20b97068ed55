# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from bedplate_lab import machine
from bedplate_lab.errors import LabError
from bedplate_lab.report import silent
from bedplate_lab.run import CommandError

BOOKWORM = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'


@pytest.fixture
def os_release(tmp_path: Path) -> Path:
    path = tmp_path / "os-release"
    path.write_text(BOOKWORM)
    return path


def test_debian_12_as_root_is_fine(os_release: Path) -> None:
    machine.check(os_release, uid=0)


def test_a_user_is_told_to_be_root(os_release: Path) -> None:
    with pytest.raises(LabError, match=r"needs root.*found user 1000.*sudo scripts/lab"):
        machine.check(os_release, uid=1000)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('PRETTY_NAME="Ubuntu 24.04"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', "Ubuntu 24.04"),
        ('PRETTY_NAME="Debian GNU/Linux 11 (bullseye)"\nID=debian\nVERSION_ID="11"\n', "Debian GNU/Linux 11"),
        ('PRETTY_NAME="Debian GNU/Linux trixie/sid"\nID=debian\n', "trixie/sid"),
        ("", "no "),
    ],
)
def test_another_system_is_named(text: str, found: str, os_release: Path) -> None:
    os_release.write_text(text)
    with pytest.raises(LabError, match=r"Debian 12 or newer; found ") as error:
        machine.check(os_release, uid=0)
    assert found in str(error.value)


def test_missing_programs_become_packages() -> None:
    absent = {"podman", "ssh-keygen"}
    found = machine.missing(which=lambda program: None if program in absent else f"/usr/bin/{program}")
    assert {"podman", "openssh-client"} <= set(found)
    assert "gcc" not in found


def test_packages_that_cannot_be_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(argv: list[str], **_: object) -> CompletedProcess[str]:
        if "update" in argv:
            return CompletedProcess(argv, 100, "", "Could not resolve 'mirror.test'")
        raise CommandError(argv, "exit code 100", "E: Unable to locate package podman", 100)

    monkeypatch.setattr(machine, "run", run)
    with pytest.raises(LabError) as error:
        machine.install(["podman", "runc"], silent)
    for part in ("Unable to locate package podman", "Could not resolve 'mirror.test'", "next: install podman, runc"):
        assert part in str(error.value)


def test_the_older_network_stack_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "run", lambda argv: CompletedProcess(argv, 0, "cni\n", ""))
    with pytest.raises(LabError, match="'cni', wanted netavark"):
        machine.check_podman()


def test_a_full_disk_is_said_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 98, 2 * 1000**3))
    with pytest.raises(LabError, match=r"2\.0 GB free, wanted 10 GB.*cache prune"):
        machine.check_space()
