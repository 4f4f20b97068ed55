# SPDX-License-Identifier: Apache-2.0
"""Trees of small files: made, read, copied and removed, with what was read compared.

Every file leaves the page cache when it is closed, so that the next look is at the disk or the server. The machine's whole cache
is never dropped: it is other programs' as well. Files are made durable (fsync), or memory would be measured.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from .errors import BedplateError

PER_DIRECTORY = 100
CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Tree:
    """A tree below a directory: so many files of the same size, each with its number before the same block of bytes."""

    path: str
    files: int
    block: bytes

    def name(self, number: int) -> str:
        """Return the path of a file."""
        return f"{self.path}/d{number // PER_DIRECTORY:04d}/f{number % PER_DIRECTORY:02d}"

    def content(self, number: int) -> bytes:
        """Return what a file holds."""
        return number.to_bytes(8, "big") + self.block[8:]

    def make(self) -> float:
        """Make all files; return the seconds it took."""
        began = monotonic()
        for number in range(self.files):
            name = self.name(number)
            if number % PER_DIRECTORY == 0:
                os.makedirs(os.path.dirname(name))
            write_file(name, [self.content(number)])
        return monotonic() - began

    def read(self) -> float:
        """Stat, open, read and compare all files; return the seconds. Raises :class:`BedplateError` for one that differs."""
        began = monotonic()
        for number in range(self.files):
            name = self.name(number)
            wanted = self.content(number)
            if os.stat(name).st_size != len(wanted) or b"".join(read_file(name)) != wanted:
                raise BedplateError(f"{name}: what is read is not what was written")
        return monotonic() - began

    def remove(self) -> float:
        """Remove all files; return the seconds."""
        began = monotonic()
        shutil.rmtree(self.path)
        return monotonic() - began


def write_file(name: str, parts: Any) -> None:
    """Write a new file to the disk, and out of the page cache."""
    handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(handle, view) :]
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def read_file(name: str) -> Iterator[bytes]:
    """Yield a file in pieces; it leaves the page cache then."""
    handle = os.open(name, os.O_RDONLY)
    try:
        while part := os.read(handle, CHUNK_BYTES):
            yield part
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def listing(path: str, most_files: int, most_bytes: int) -> list[tuple[str, int]]:
    """Return regular files below a directory with their sizes, in the order of their names, as many as the limits let in."""
    found: list[tuple[str, int]] = []
    total = 0
    for directory, directories, files in os.walk(path):
        directories.sort()
        for name in sorted(files):
            full = os.path.join(directory, name)
            status = os.lstat(full)
            if not stat.S_ISREG(status.st_mode):
                continue
            if len(found) == most_files or total + status.st_size > most_bytes:
                return found
            found.append((full, status.st_size))
            total += status.st_size
    return found


def read_all(files: list[tuple[str, int]]) -> float:
    """Stat, open and read files; return the seconds."""
    began = monotonic()
    for name, _size in files:
        os.stat(name)
        for _part in read_file(name):
            pass
    return monotonic() - began


def stage(files: list[tuple[str, int]], target: str) -> float:
    """Copy files into a directory, read the copies back and compare; return the seconds that copying took.

    Raises :class:`BedplateError` for a copy that differs.
    """
    os.makedirs(target)
    began = monotonic()
    digests = [_copy(name, f"{target}/{number:06d}") for number, (name, _size) in enumerate(files)]
    seconds = monotonic() - began
    for number, (name, _size) in enumerate(files):
        digest = hashlib.sha256()
        for part in read_file(f"{target}/{number:06d}"):
            digest.update(part)
        if digest.hexdigest() != digests[number]:
            raise BedplateError(f"{name}: its copy in {target} is not what was read")
    return seconds


def _copy(source: str, target: str) -> str:
    digest = hashlib.sha256()

    def parts() -> Iterator[bytes]:
        for part in read_file(source):
            digest.update(part)
            yield part

    write_file(target, parts())
    return digest.hexdigest()
