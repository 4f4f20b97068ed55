# SPDX-License-Identifier: Apache-2.0
"""Where the lab keeps things: the cache (shared, rebuilt at will) and the state (what this lab made)."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPONENTS = ROOT / "lab" / "components"
PACKAGING = ROOT / "lab" / "packaging"


def cache(*parts: str) -> Path:
    """A path in the cache, `${XDG_CACHE_HOME:-~/.cache}/bedplate`; nothing is created."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "bedplate", *parts)


def state(*parts: str) -> Path:
    """A path in the lab's state directory, `.lab` at the root of the repository; nothing is created."""
    return ROOT.joinpath(".lab", *parts)


@contextmanager
def new_dir(target: Path) -> Iterator[Path]:
    """Yield an empty directory that becomes `target` when the block ends well, and vanishes when it does not.

    An existing `target` is replaced.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    temporary.chmod(0o755)
    try:
        yield temporary
        if target.exists():
            older = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            target.rename(older / "old")
            temporary.rename(target)
            shutil.rmtree(older)
        else:
            temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield a path that becomes the file `target` when the block ends well, and vanishes when it does not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    temporary.chmod(0o644)
    try:
        yield temporary
        temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the cache lock `name`; a second run waits for the first. It is released when the process ends."""
    path = cache("locks", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
