# SPDX-License-Identifier: Apache-2.0
"""fio(1) over one large file: how it is called, and what it says. Pure but for running it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .errors import BedplateError
from .host import NOT_FOUND, TIMED_OUT, Host
from .operations import last_lines

PACKAGE = "fio"
PROGRAM = "/usr/bin/fio"
BLOCK_BYTES = 1024 * 1024
GRACE_SECONDS = 30
"""What fio may take besides its limit: laying out, the last fsync."""
VERIFIED = ("--verify=xxhash", "--verify_fatal=1", "--verify_state_save=0")
WRITE = ("--rw=write", "--ioengine=psync", "--end_fsync=1", "--do_verify=0", *VERIFIED)
"""As programs write checkpoints: through the page cache, durable at the end; each block with its checksum."""
RESTORE = ("--rw=read", "--ioengine=libaio", "--iodepth=4", "--direct=1", "--readonly", *VERIFIED)
"""Past the page cache, each block compared with its checksum."""
READ = ("--rw=read", "--ioengine=libaio", "--iodepth=16", "--direct=1", "--readonly")


@dataclass(frozen=True)
class Transfer:
    """What a run of fio moved, and how fast."""

    bytes: int
    bytes_per_second: float


def argv(job: tuple[str, ...], path: str, size: int, limit_seconds: int) -> list[str]:
    """Return the command line of a job over a file, bounded in bytes and seconds."""
    name = path.replace(":", "\\:")  # a colon stands between several files
    bounds = [f"--filename={name}", f"--size={size}", f"--bs={BLOCK_BYTES}", f"--runtime={limit_seconds}"]
    # --thread: what is killed at its limit is one process
    return ["fio", "--name=bedplate", "--thread", "--output-format=json", *job, *bounds]


def parse(text: str) -> tuple[Transfer, int]:
    """Return what moved, and fio's error number; messages may stand around its JSON. Raises ValueError for anything else."""
    begin, end = text.find("{\n"), text.rfind("}")
    job = json.loads(text[begin : end + 1])["jobs"][0]
    moved = max((job["read"], job["write"]), key=lambda part: int(part["io_bytes"]))
    return Transfer(int(moved["io_bytes"]), float(moved["bw_bytes"])), int(job["error"])


def run(host: Host, job: tuple[str, ...], path: str, size: int, limit_seconds: int) -> Transfer:
    """Run a job; raise :class:`BedplateError` with fio's own words, and TimeoutError for one that was not done in time."""
    result = host.run(argv(job, path, size, limit_seconds), timeout_seconds=limit_seconds + GRACE_SECONDS)
    if result.rc == TIMED_OUT:
        raise TimeoutError(f"not done within {limit_seconds} s")
    if result.rc == NOT_FOUND:
        raise BedplateError(f"found no {PROGRAM}; wanted it. Next: install the package {PACKAGE}")
    try:
        moved, error = parse(result.out)
    except (ValueError, LookupError):
        raise BedplateError(f"fio: {last_lines(result.err or result.out, 3) or f'return code {result.rc}'}") from None
    if error or not result.ok:
        said = [line for line in f"{result.err}\n{result.out}".splitlines() if "verify" in line or line.startswith("fio:")]
        raise BedplateError(f"fio: {said[0].strip() if said else f'error {error}'}")
    if moved.bytes < size:
        raise TimeoutError(f"{moved.bytes} of {size} bytes within {limit_seconds} s")
    return moved
