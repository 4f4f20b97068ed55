# SPDX-License-Identifier: Apache-2.0
"""Checks of places for data: real trees on this machine's disk, fio's own output, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import storage_fio as fio
from ansible_collections.bedplate.metal.plugins.module_utils.bounded import bounded
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.host import DEFAULT_TIMEOUT_SECONDS, TIMED_OUT, LocalHost, Result
from ansible_collections.bedplate.metal.plugins.module_utils.mounts import MOUNTINFO
from ansible_collections.bedplate.metal.plugins.module_utils.storage_check import Figure, Place, Settings, check_places
from ansible_collections.bedplate.metal.plugins.module_utils.storage_tree import Tree, listing, stage
from ansible_collections.bedplate.metal.plugins.modules.storage_check import alone

MIB = 1024**2
SETTINGS = Settings(".bedplate-check-w1", 4 * MIB, 250, 512, 30)
VERIFY_FAILED = "fio: pid=23434, err=84/file:io_u.c:2190, func=io_u_queued_complete, error=Invalid or incomplete multibyte\n"
CHECKSUM = "xxhash: verify failed at file /data/x offset 4194304, length 1048576 (requested block: offset=4194304)\n"


def answer(*, read: int = 0, write: int = 0, error: int = 0) -> str:
    """What fio 3.33 prints with --output-format=json, shortened; bytes moved in half a second."""
    moved = {"read": read, "write": write}
    job: dict[str, Any] = {kind: {"io_bytes": some, "bw_bytes": some * 2, "runtime": 500} for kind, some in moved.items()}
    return json.dumps({"fio version": "fio-3.33", "jobs": [{"jobname": "bedplate", "error": error, **job}]}, indent=2) + "\n"


class Disks(LocalHost):
    """This machine, with directories that count as mounted, and fio's answers by the kind of job."""

    def __init__(self, *mounted: Path, fio: Mapping[str, Result] | None = None) -> None:
        self.mounted, self.jobs = mounted, dict(fio or {})
        self.commands: list[list[str]] = []
        self.silent: str = ""

    def read(self, path: str) -> str | None:
        lines = [f"{40 + n} 22 0:{40 + n} / {directory} rw - xfs /dev/x{n} rw\n" for n, directory in enumerate(self.mounted)]
        return "".join(lines) if path == MOUNTINFO else super().read(path)

    def run(
        self,
        argv: Sequence[str],
        stdin: str | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        self.commands.append(list(argv))
        if self.silent and argv[0] == "stat":
            return Result(TIMED_OUT, "", self.silent)
        if argv[0] != "fio":
            return super().run(argv, stdin, timeout_seconds, env)
        job = fio.WRITE if "--rw=write" in argv else fio.RESTORE if "--verify=xxhash" in argv else fio.READ
        size = int(next(word for word in argv if word.startswith("--size=")).partition("=")[2])
        if job == fio.WRITE:
            Path(next(word for word in argv if word.startswith("--filename=")).partition("=")[2]).write_bytes(b"\0" * size)
        key = {fio.WRITE: "write", fio.RESTORE: "restore", fio.READ: "read"}[job]
        return self.jobs.get(key, Result(0, answer(**{"write" if job == fio.WRITE else "read": size})))


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


@pytest.fixture
def share(tmp_path: Path) -> Path:
    (tmp_path / "share").mkdir()
    return tmp_path / "share"


def by_check(figures: Sequence[Figure]) -> dict[str, Figure]:
    return {figure.check: figure for figure in figures}


LOCAL_CHECKS = ["checkpoint-write", "checkpoint-restore", "large-read", "small-make", "small-read", "small-remove"]


class TestChecks:
    def test_a_local_place_and_a_share_that_is_staged_onto_it(self, scratch: Path, share: Path) -> None:
        host = Disks(scratch, share)
        (scratch / "somebodys").write_text("kept")
        places = [Place("data", str(share), "nfs", "10.0.0.5"), Place("scratch", str(scratch))]
        figures = check_places(host, places, SETTINGS)
        found = {name: [f.check for f in figures if f.place == name] for name in ("scratch", "data")}
        assert found == {"scratch": LOCAL_CHECKS, "data": [*LOCAL_CHECKS[:4], "staging", *LOCAL_CHECKS[4:]]}
        assert not [f.reason for f in figures if f.reason] and all(f.value and f.value > 0 for f in figures)
        assert by_check(figures)["large-read"].value == 8 * MIB and by_check(figures)["staging"].unit == "bytes/s"
        assert os.listdir(share) == [] and os.listdir(scratch) == ["somebodys"], "nothing is left, and nothing else was touched"

    def test_fio_is_bounded_and_past_the_page_cache(self, scratch: Path) -> None:
        host = Disks(scratch)
        check_places(host, [Place("scratch", str(scratch))], SETTINGS)
        jobs = [argv for argv in host.commands if argv[0] == "fio"]
        assert all({f"--size={4 * MIB}", "--runtime=30", "--thread"} <= set(argv) for argv in jobs)
        assert "--end_fsync=1" in jobs[0] and "--direct=1" in jobs[1] and "--verify_fatal=1" in jobs[1]
        assert all("--readonly" in argv for argv in jobs[1:])

    def test_what_a_killed_check_left_goes_first(self, scratch: Path) -> None:
        left = scratch / SETTINGS.directory / "small" / "d0000"
        left.mkdir(parents=True)
        (left / "f00").write_text("old")
        other = scratch / ".bedplate-check-w2"
        other.mkdir()
        assert not [f.reason for f in check_places(Disks(scratch), [Place("s", str(scratch))], SETTINGS) if f.reason]
        assert os.listdir(scratch) == [".bedplate-check-w2"], "another host's is not touched"

    def test_a_link_in_its_place_is_removed_and_not_followed(self, scratch: Path, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.mkdir()
        (victim / "file").write_text("kept")
        (scratch / SETTINGS.directory).symlink_to(victim)
        check_places(Disks(scratch), [Place("s", str(scratch))], SETTINGS)
        assert os.listdir(victim) == ["file"] and os.listdir(scratch) == []

    def test_a_checkpoint_that_comes_back_different_fails_and_the_rest_is_done(self, scratch: Path) -> None:
        broken = Result(1, VERIFY_FAILED + answer(read=4 * MIB, error=84), CHECKSUM)
        figures = by_check(check_places(Disks(scratch, fio={"restore": broken}), [Place("s", str(scratch))], SETTINGS))
        assert "verify failed at file /data/x offset 4194304" in figures["checkpoint-restore"].reason
        assert figures["small-remove"].value and os.listdir(scratch) == []

    def test_one_that_is_not_done_in_time_fails(self, scratch: Path) -> None:
        slow = {"write": Result(0, answer(write=MIB))}
        figures = by_check(check_places(Disks(scratch, fio=slow), [Place("s", str(scratch))], SETTINGS))
        assert figures["checkpoint-write"].reason == f"{MIB} of {4 * MIB} bytes within 30 s"
        assert "checkpoint-restore" not in figures and figures["small-make"].value

    @pytest.mark.parametrize(
        ("result", "reason"),
        [
            (Result(TIMED_OUT, "", "fio: no answer within 60 s"), "not done within 30 s"),
            (Result(127, "", "fio: No such file or directory"), "found no /usr/bin/fio"),
            (Result(1, "fio: looks like your file system does not support direct=1\n"), "does not support direct=1"),
        ],
    )
    def test_fios_failures_are_reasons(self, scratch: Path, result: Result, reason: str) -> None:
        figures = by_check(check_places(Disks(scratch, fio={"read": result}), [Place("s", str(scratch))], SETTINGS))
        assert reason in figures["large-read"].reason

    def test_a_place_that_is_not_mounted_is_never_written_to(self, scratch: Path) -> None:
        host = Disks()
        (figure,) = check_places(host, [Place("s", str(scratch))], SETTINGS)
        assert figure.reason == f"nothing is mounted at {scratch}" and host.commands == []

    def test_a_server_that_does_not_answer_is_named_and_the_other_places_are_checked(self, scratch: Path, share: Path) -> None:
        host = Disks(share)
        host.silent = "stat: no answer within 20 s"
        places = [Place("data", str(share), "nfs", "10.0.0.5")]
        (figure,) = check_places(host, places, SETTINGS)
        assert figure.reason == "server 10.0.0.5 gave no answer within 20 s"
        assert [argv[0] for argv in host.commands] == ["stat"]

    def test_never_more_than_a_quarter_of_what_is_free(self, scratch: Path) -> None:
        large = Settings(SETTINGS.directory, 2**60, 10, 512, 30)
        (figure,) = check_places(Disks(scratch), [Place("s", str(scratch))], large)
        assert "bytes free; wanted 4 times the" in figure.reason and os.listdir(scratch) == []


class TestReadOnly:
    def test_a_sample_is_read_and_staged(self, scratch: Path, share: Path) -> None:
        (share / "some" / "deep").mkdir(parents=True)
        (share / "some" / "a").write_bytes(b"x" * 3 * MIB)
        (share / "some" / "deep" / "b").write_bytes(b"y" * 1000)
        places = [Place("s", str(scratch)), Place("d", str(share), "nfs", "h", read_only=True, sample="some")]
        host = Disks(scratch, share)
        figures = [f for f in check_places(host, places, SETTINGS) if f.place == "d"]
        assert [(f.check, f.reason) for f in figures] == [("large-read", ""), ("staging", ""), ("small-read", "")]
        assert [argv for argv in host.commands if f"--filename={share}/some/a" in argv] and os.listdir(scratch) == []
        assert not [argv for argv in host.commands if argv[0] in ("rm", "mkdir") and str(share) in argv[-1]]

    def test_without_a_sample_it_is_left_out_and_said(self, share: Path) -> None:
        (figure,) = check_places(Disks(share), [Place("d", str(share), "nfs", "h", read_only=True)], SETTINGS)
        assert figure.note == "read-only, and no sample is named to read" and not figure.reason

    def test_a_sample_that_is_not_there(self, share: Path) -> None:
        (figure,) = check_places(Disks(share), [Place("d", str(share), "nfs", "h", True, "no")], SETTINGS)
        assert f"{share}/no: found no files" in figure.reason

    def test_links_are_no_files(self, share: Path, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("x")
        (share / "link").symlink_to(tmp_path / "secret")
        (share / "f").write_text("12345")
        assert listing(str(share), 10, 100) == [(f"{share}/f", 5)]
        assert listing(str(share), 10, 4) == [] and listing(str(share), 0, 100) == []


class TestTrees:
    def test_content_that_differs_is_noticed(self, tmp_path: Path) -> None:
        tree = Tree(str(tmp_path / "t"), 120, os.urandom(64))
        tree.make()
        tree.read()
        with open(tree.name(117), "r+b") as file:
            file.write(b"\xff")
        with pytest.raises(BedplateError, match="d0001/f17: what is read is not what was written"):
            tree.read()

    def test_a_copy_that_differs_is_noticed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        source = tmp_path / "a"
        source.write_bytes(b"1" * 1000)
        original = os.fsync

        def corrupting(handle: int) -> None:
            os.pwrite(handle, b"2", 500)
            original(handle)

        monkeypatch.setattr(os, "fsync", corrupting)
        with pytest.raises(BedplateError, match=r"its copy in .* is not what was read"):
            stage([(str(source), 1000)], str(tmp_path / "copy"))


class TestBounds:
    def test_an_answer_larger_than_a_pipe(self) -> None:
        assert bounded(lambda: ["x" * 1000] * 500, 10) == ["x" * 1000] * 500

    def test_work_that_hangs_is_left_at_the_limit(self) -> None:
        began = monotonic()
        with pytest.raises(TimeoutError, match=r"not done within 0\.2 s"):
            bounded(signal.pause, 0.2)
        assert monotonic() - began < 5

    def test_failures_come_back(self, tmp_path: Path) -> None:
        with pytest.raises(BedplateError, match="no: No such file or directory"):
            bounded(lambda: os.listdir(tmp_path / "no"), 10)
        with pytest.raises(BedplateError, match="ended without an answer"):
            bounded(lambda: os.kill(os.getpid(), signal.SIGKILL), 10)

    def test_two_checks_of_one_host_do_not_run_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ansible_collections.bedplate.metal.plugins.modules.storage_check.LOCK", str(tmp_path / "lock"))
        with alone(), pytest.raises(BedplateError, match="another check of this host's storage"), alone():
            pass
        with alone():
            pass


def test_messages_around_fios_json_are_skipped() -> None:
    moved, error = fio.parse(VERIFY_FAILED + answer(read=100, error=84) + "\n")
    assert (moved.bytes, moved.bytes_per_second, error) == (100, 200.0, 84)
