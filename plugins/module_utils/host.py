# SPDX-License-Identifier: Apache-2.0
"""The narrow door between components and a machine: files and commands, nothing else.

Everything a component reads or does goes through :class:`Host`, so tests can put a recorded host behind the same door
(tests/unit/recorded_host.py) and kill a run at every change boundary.
"""

from __future__ import annotations

import glob
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional, Protocol

DEFAULT_TIMEOUT_SECONDS = 30
TIMED_OUT = 124
"""Return code of a command that was killed at its time limit (as coreutils' timeout)."""
NOT_FOUND = 127


@dataclass(frozen=True)
class Result:
    """What a command answered: return code, standard output, standard error."""

    rc: int
    out: str = ""
    err: str = ""

    @property
    def ok(self) -> bool:
        """True for return code 0."""
        return self.rc == 0


class Host(Protocol):
    """What a component may do to a machine. Paths are absolute; text is UTF-8 with undecodable bytes replaced."""

    def read(self, path: str) -> Optional[str]:
        """Return a file's text, or None when there is no such file."""

    def read_bytes(self, path: str, size: int) -> Optional[bytes]:
        """Return the first bytes of a file that is no text, or None when there is no such file."""

    def mode(self, path: str) -> Optional[int]:
        """Return a file's permission bits (e.g. 0o600), or None when there is no such file."""

    def exists(self, path: str) -> bool:
        """Tell whether anything is at the path."""

    def glob(self, pattern: str) -> list[str]:
        """Return the sorted paths that match."""

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file whole or not at all, owned by root, making its directory; keeps a bind-mounted file's inode."""

    def remove(self, path: str) -> None:
        """Remove a file or a tree; nothing there is fine."""

    def run(
        self,
        argv: Sequence[str],
        stdin: Optional[str] = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        env: Optional[Mapping[str, str]] = None,
    ) -> Result:
        """Run a command without a shell, bounded in time; env is added to the environment. Never raises for its failure."""


class LocalHost:
    """The machine this code runs on."""

    def read(self, path: str) -> Optional[str]:
        """See :meth:`Host.read`."""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def read_bytes(self, path: str, size: int) -> Optional[bytes]:
        """See :meth:`Host.read_bytes`."""
        try:
            with open(path, "rb") as file:
                return file.read(size)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def mode(self, path: str) -> Optional[int]:
        """See :meth:`Host.mode`."""
        try:
            return os.stat(path).st_mode & 0o7777
        except (FileNotFoundError, NotADirectoryError):
            return None

    def exists(self, path: str) -> bool:
        """See :meth:`Host.exists`."""
        return os.path.lexists(path)

    def glob(self, pattern: str) -> list[str]:
        """See :meth:`Host.glob`."""
        return sorted(glob.glob(pattern))

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """See :meth:`Host.write`."""
        try:
            self._write(path, text, mode)
        except OSError as error:  # that of a full disk names no file, others the temporary one
            raise OSError(error.errno, error.strerror, path) from error

    @staticmethod
    def _write(path: str, text: str, mode: int) -> None:
        directory = os.path.dirname(path)
        os.makedirs(directory, exist_ok=True)
        if os.path.ismount(path):  # a file bind-mounted into a container cannot be replaced, only rewritten
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        handle, temporary = tempfile.mkstemp(dir=directory, prefix=".bedplate-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode)
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def remove(self, path: str) -> None:
        """See :meth:`Host.remove`."""
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    def run(
        self,
        argv: Sequence[str],
        stdin: Optional[str] = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
        env: Optional[Mapping[str, str]] = None,
    ) -> Result:
        """See :meth:`Host.run`. The whole process group is killed at the limit, also one that ignores TERM."""
        environment = {**os.environ, "LC_ALL": "C.UTF-8", **(env or {})}
        environment["PATH"] = environment.get("PATH", "") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
                text=True,
                errors="replace",
            )
        except OSError as error:
            return Result(NOT_FOUND, "", f"{argv[0]}: {error.strerror}")
        try:
            out, err = process.communicate(stdin, timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            try:
                process.communicate(timeout=2)
            except subprocess.TimeoutExpired:  # stuck in the kernel: leave it, answer in time
                pass
            return Result(TIMED_OUT, "", f"{argv[0]}: no answer within {timeout_seconds:g} s")
        return Result(process.returncode, out, err)
