# SPDX-License-Identifier: Apache-2.0
"""Work that may hang, as any look at a file over NFS: done in a process of its own, which is left behind when its time is up."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable
from time import monotonic
from typing import Any

from .errors import BedplateError


def bounded(work: Callable[[], Any], seconds: float) -> Any:
    """Return what the work returns (JSON types); raise :class:`BedplateError` for its failure, and TimeoutError at the limit."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _child(work, writer)
    os.close(writer)
    answer, until = b"", monotonic() + seconds
    try:
        while select.select([reader], [], [], max(0.0, until - monotonic()))[0]:
            part = os.read(reader, 65536)
            if not part:
                break
            answer += part
        else:
            raise TimeoutError(f"not done within {seconds:g} s")
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, os.WNOHANG)  # one that hangs in the kernel is not waited for
    if not answer:
        raise BedplateError("found its process ended without an answer; wanted one. Next: dmesg on the host may say why")
    outcome, value = json.loads(answer)
    if outcome == "failed":
        raise BedplateError(value)
    return value


def _child(work: Callable[[], Any], writer: int) -> None:
    """Do the work, write the answer and end; nothing of the parent's runs here a second time."""
    try:
        answer = ["done", work()]
    except OSError as error:
        answer = ["failed", f"{error.filename or 'file system'}: {error.strerror or error}"]
    except BaseException as error:  # whatever it is, it must not go on as a second parent
        answer = ["failed", f"{type(error).__name__}: {error}"]
    try:
        data = json.dumps(answer).encode()
        while data:
            data = data[os.write(writer, data) :]
    finally:
        os._exit(0)
