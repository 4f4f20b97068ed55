# SPDX-License-Identifier: Apache-2.0
"""Ubuntu's archive: its key is known by its checksum, and an archive that does not answer is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bedplate_lab import http, paths, ubuntu
from bedplate_lab.errors import LabError
from bedplate_lab.metal import image, plan
from bedplate_lab.report import silent


class Answer:
    """A server's answer."""

    def __init__(self, status: int, body: bytes = b"") -> None:
        self.status, self.body = status, body

    def request(self, *_: object, **__: object) -> Answer:
        return self

    def stream(self, _: int) -> list[bytes]:
        return [self.body]

    def release_conn(self) -> None:
        pass


def answer(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes = b"") -> None:
    monkeypatch.setattr(http, "pool", lambda _: Answer(status, body))


def test_a_package_of_another_checksum_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, 200, b"somebody else's keys")
    with pytest.raises(LabError, match=rf"found SHA-256 \w+, wanted {ubuntu.KEYRING_SHA256}; it is not used"):
        ubuntu.keyring(silent)
    assert not [path for path in paths.cache("metal").iterdir() if path.is_file()]


def test_an_archive_without_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, 404)
    with pytest.raises(LabError, match=r"found HTTP status 404, wanted 200; .*BEDPLATE_UBUNTU_MIRROR"):
        ubuntu.keyring(silent)


def test_sources_hold_updates_and_security_and_the_key_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = tmp_path / "root" / ubuntu.KEYRING_FILE
    ring.parent.mkdir(parents=True)
    ring.write_bytes(b"keys")
    (tmp_path / "root" / "DEBIAN").mkdir()
    (tmp_path / "root" / "DEBIAN" / "control").write_text(
        "Package: ubuntu-keyring\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: keys\n"
    )
    package = tmp_path / "keyring.deb"
    subprocess.run(["dpkg-deb", "--build", str(tmp_path / "root"), str(package)], check=True, capture_output=True)
    monkeypatch.setattr(ubuntu, "_fetch", lambda _, target: target.write_bytes(package.read_bytes()))
    archive = ubuntu.archive("noble", silent)
    assert ubuntu.keyring_path().read_bytes() == b"keys"
    lines = archive.sources.splitlines()
    assert [line.split()[3] for line in lines] == ["noble", "noble-updates", "noble-security"]
    assert all(f"[signed-by={ubuntu.keyring_path()}]" in line for line in lines)


def test_each_suite_has_the_kernel_and_the_signed_files_of_its_distribution() -> None:
    assert {image.distribution(one.suite) for one in plan.MACHINES} == {"debian", "ubuntu"}
    for one in plan.MACHINES:
        assert sum(package.startswith("linux-image") for package in image.packages(one.suite)) == 1
        assert "EFI/BOOT/BOOTX64.EFI" in image.ESP_FILES[image.distribution(one.suite)].values()


def test_a_machine_on_demand_comes_when_it_is_named() -> None:
    assert [one.name for one in plan.chosen([])] == ["m1", "m2"]
    assert [one.name for one in plan.chosen(["u1"])] == ["u1"]
