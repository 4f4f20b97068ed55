# SPDX-License-Identifier: Apache-2.0
"""Checks of places for data on a host: checkpoints, a large read, small files, staging onto the local disk.

Everything is done in a directory of the check's own, which is removed afterwards; what a killed check left is removed by the
next. A check that fails is a result with its reason, and the others are done all the same. No step can hang: each has a process
of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Optional

from . import storage_fio as fio
from .bounded import bounded
from .errors import BedplateError
from .host import TIMED_OUT, Host
from .mounts import MOUNTINFO, mount_at, parse_mounts
from .operations import last_lines
from .storage_tree import Tree, listing, read_all, stage

ANSWER_SECONDS = 20
SHARE_OF_FREE = 4
"""The checks write at most this part of what is free."""
BYTES, FILES = "bytes/s", "files/s"
CHECKPOINT_WRITE, CHECKPOINT_RESTORE, LARGE_READ = "checkpoint-write", "checkpoint-restore", "large-read"
SMALL_MAKE, SMALL_READ, SMALL_REMOVE, STAGING = "small-make", "small-read", "small-remove", "staging"


@dataclass(frozen=True)
class Place:
    """A place for data: where it is mounted; of a share its server. sample: directory that is read where it is read-only."""

    name: str
    path: str
    kind: str = "local"
    server: str = ""
    read_only: bool = False
    sample: str = ""


@dataclass(frozen=True)
class Settings:
    """directory: of the check's own in each place. Sizes in bytes; limit_seconds: of each single check."""

    directory: str
    file_bytes: int
    files: int
    small_file_bytes: int
    limit_seconds: int

    @property
    def large_bytes(self) -> int:
        """Size of the large file, in whole blocks."""
        return max(self.file_bytes // fio.BLOCK_BYTES, 1) * fio.BLOCK_BYTES

    @property
    def written_bytes(self) -> int:
        """Most that is written to a place."""
        return self.large_bytes + self.files * self.small_file_bytes


@dataclass(frozen=True)
class Figure:
    """The result of one check. value: None where there is none. reason: why it failed. note: why it was left out."""

    place: str
    check: str
    value: Optional[float] = None
    unit: str = ""
    reason: str = ""
    note: str = ""

    def public(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return asdict(self)


def check_places(host: Host, places: list[Place], settings: Settings) -> list[Figure]:
    """Check place after place; shares are staged onto the first local one that answers."""
    figures: list[Figure] = []
    scratch: Optional[Place] = None
    for place in sorted(places, key=lambda one: one.kind != "local"):
        reason = unfit(host, place, settings)
        if reason:
            figures.append(Figure(place.name, "reach", reason=reason))
            continue
        if place.kind == "local" and scratch is None:
            scratch = place
        figures += _Checks(host, place, settings, scratch if place.kind != "local" else None).run()
    return figures


def unfit(host: Host, place: Place, settings: Settings) -> str:
    """Return why nothing can be checked at a place; "" for nothing. A directory that is not mounted is never written to."""
    if mount_at(parse_mounts(host.read(MOUNTINFO) or ""), place.path) is None:
        return f"nothing is mounted at {place.path}"
    answer = host.run(["stat", "-f", "-c", "%a %S", place.path], timeout_seconds=ANSWER_SECONDS)
    if answer.rc == TIMED_OUT:
        return f"{f'server {place.server}' if place.server else place.path} gave no answer within {ANSWER_SECONDS} s"
    words = answer.out.split()
    if not answer.ok or len(words) != 2:
        return last_lines(answer.err, 1) or f"stat answered {answer.rc}"
    free, wanted = int(words[0]) * int(words[1]), SHARE_OF_FREE * settings.written_bytes
    if free < wanted and not place.read_only:
        return f"{free} bytes free; wanted {SHARE_OF_FREE} times the {settings.written_bytes} bytes that are written"
    return ""


class _Checks:
    """The checks of one place. scratch: where a share is staged to."""

    def __init__(self, host: Host, place: Place, settings: Settings, scratch: Optional[Place]) -> None:
        self.host, self.place, self.settings, self.scratch = host, place, settings, scratch
        self.directory = f"{place.path}/{settings.directory}"
        self.target = f"{scratch.path}/{settings.directory}" if scratch else ""
        self.figures: list[Figure] = []

    def run(self) -> list[Figure]:
        """Remove what an earlier check left, check, and remove again."""
        if self.place.read_only and not self.place.sample:
            return [Figure(self.place.name, "read", note="read-only, and no sample is named to read")]
        try:
            self._clear()
            if self.place.read_only:
                self._sample()
            else:
                self._make(self.directory)
                self._large()
                self._small()
        except BedplateError as error:
            self.figures.append(Figure(self.place.name, "reach", reason=str(error)))
        finally:
            try:
                self._clear()
            except BedplateError as error:
                self.figures.append(Figure(self.place.name, "clear", reason=str(error)))
        return self.figures

    def _clear(self) -> None:
        for path in [*([] if self.place.read_only else [self.directory]), *([self.target] if self.target else [])]:
            self._command(["rm", "-rf", "--one-file-system", path], f"remove {path}")

    def _make(self, path: str) -> None:
        """Make a directory that is nobody else's: one that is there already, or a link, is refused."""
        self._command(["mkdir", "-m", "0700", path], f"make {path}")

    def _command(self, argv: list[str], purpose: str) -> None:
        result = self.host.run(argv, timeout_seconds=self.settings.limit_seconds)
        if not result.ok:
            raise BedplateError(f"cannot {purpose}: {last_lines(result.err, 1) or f'return code {result.rc}'}")

    def _large(self) -> None:
        path, size = f"{self.directory}/large", self.settings.large_bytes
        if not self._transfer(CHECKPOINT_WRITE, fio.WRITE, path, size):
            return
        self._transfer(CHECKPOINT_RESTORE, fio.RESTORE, path, size)
        self._transfer(LARGE_READ, fio.READ, path, size)

    def _small(self) -> None:
        tree = Tree(f"{self.directory}/small", self.settings.files, os.urandom(max(self.settings.small_file_bytes, 8)))
        if not self._timed(SMALL_MAKE, tree.make, tree.files, FILES):
            return
        files = [(tree.name(number), len(tree.block)) for number in range(tree.files)]
        self._stage(files)
        self._timed(SMALL_READ, tree.read, tree.files, FILES)
        self._timed(SMALL_REMOVE, tree.remove, tree.files, FILES)

    def _sample(self) -> None:
        path, settings = f"{self.place.path}/{self.place.sample}", self.settings
        try:
            found = bounded(lambda: listing(path, settings.files, settings.large_bytes), settings.limit_seconds)
        except TimeoutError as error:
            raise BedplateError(f"{path}: {error}") from None
        if not found:
            raise BedplateError(f"{path}: found no files; wanted some to read. Next: put some there, or name another sample")
        files = [(str(name), int(size)) for name, size in found]
        name, size = max(files, key=lambda file: file[1])
        if size >= fio.BLOCK_BYTES:
            self._transfer(LARGE_READ, fio.READ, name, size // fio.BLOCK_BYTES * fio.BLOCK_BYTES)
        self._stage(files)
        self._timed(SMALL_READ, lambda: read_all(files), len(files), FILES)

    def _stage(self, files: list[tuple[str, int]]) -> None:
        if self.target:
            self._make(self.target)
            self._timed(STAGING, lambda: stage(files, f"{self.target}/staged"), sum(size for _name, size in files), BYTES)

    def _transfer(self, check: str, job: tuple[str, ...], path: str, size: int) -> bool:
        def moved() -> float:
            return fio.run(self.host, job, path, size, self.settings.limit_seconds).bytes_per_second

        return self._figure(check, BYTES, moved)

    def _timed(self, check: str, work: Callable[[], float], amount: int, unit: str) -> bool:
        def rate() -> float:
            return amount / max(float(bounded(work, self.settings.limit_seconds)), 1e-6)

        return self._figure(check, unit, rate)

    def _figure(self, check: str, unit: str, work: Callable[[], float]) -> bool:
        """Add a check's figure, or the reason why it has none; tell whether it has one."""
        try:
            figure = Figure(self.place.name, check, round(work(), 1), unit)
        except (BedplateError, TimeoutError) as error:
            figure = Figure(self.place.name, check, unit=unit, reason=str(error))
        self.figures.append(figure)
        return not figure.reason
