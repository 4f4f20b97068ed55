# SPDX-License-Identifier: Apache-2.0
"""Where the controller keeps a kubeconfig during a run: memory, never a disk where one can tell the difference."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.bedplate.metal.plugins.module_utils.core import BedplateError


def runtime_directory(cluster: str, environment: Mapping[str, str] | None = None) -> Path:
    """Return (making it, mode 0700) this user's directory for a cluster.

    It is under XDG_RUNTIME_DIR, else /dev/shm, else the user's temporary directory. Raises :class:`BedplateError` when a
    directory of that name belongs to somebody else or is open to others.
    """
    environment = os.environ if environment is None else environment
    user = os.getuid()
    given = environment.get("XDG_RUNTIME_DIR")
    if given and os.access(given, os.W_OK):
        base = Path(given) / "bedplate"
    elif os.access("/dev/shm", os.W_OK):
        base = Path(f"/dev/shm/bedplate-{user}")
    else:
        base = Path(tempfile.gettempdir()) / f"bedplate-{user}"
    base.mkdir(mode=0o700, exist_ok=True)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or stat.S_IMODE(found.st_mode) & 0o077:
        raise BedplateError(
            f"directory {base}: found owner {found.st_uid}, mode {stat.S_IMODE(found.st_mode):04o}; wanted owner {user}, mode "
            "0700. Next: see who made it, remove it, and repeat"
        )
    directory = base / cluster
    directory.mkdir(mode=0o700, exist_ok=True)
    return directory


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(name, path)
