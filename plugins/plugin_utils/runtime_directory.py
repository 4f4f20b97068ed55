# SPDX-License-Identifier: Apache-2.0
"""Where the controller keeps a kubeconfig during a run: memory, never a disk where one can tell the difference.

Its name ends in the id of the run's process. The run removes it at its end (callback run_report); what a killed run left, the
next run removes.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.cluster_lock import process_runs

_OF_A_RUN = re.compile(r"\.?kubeconfig-[0-9a-f]+-(\d+)(?:\.new-\w+)?")


def runtime_directory(cluster: str, environment: Mapping[str, str] | None = None) -> Path:
    """Return (making it, mode 0700) this user's directory for a cluster.

    It is under XDG_RUNTIME_DIR, else /dev/shm, else the user's temporary directory. Raises :class:`BedplateError` when a
    directory of that name belongs to somebody else or is open to others.
    """
    user, base = os.getuid(), _base(os.environ if environment is None else environment)
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


def kubeconfig_path(cluster: str, ca_sha256: str, pid: int) -> Path:
    """Return where a run keeps the kubeconfig of a cluster, after removing those of runs that are no more.

    Names of clusters are the sites' own: two runs at a time for clusters of one name must not take each other's. pid: of the
    process that lives as long as the run. Raises :class:`BedplateError` as :func:`runtime_directory` does.
    """
    directory = runtime_directory(cluster)
    _remove(directory.parent, lambda owner: not process_runs(owner))
    return directory / f"kubeconfig-{ca_sha256[:16]}-{pid}"


def forget(pid: int) -> None:
    """Remove the kubeconfigs of a run that ends; nothing there is fine."""
    base = _base(os.environ)
    if os.getpid() == pid and base.is_dir() and base.stat().st_uid == os.getuid():
        _remove(base, lambda owner: owner == pid)


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600 whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.new-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(name, path)


def _base(environment: Mapping[str, str]) -> Path:
    given = environment.get("XDG_RUNTIME_DIR")
    if given and os.access(given, os.W_OK):
        return Path(given) / "bedplate"
    if os.access("/dev/shm", os.W_OK):
        return Path(f"/dev/shm/bedplate-{os.getuid()}")
    return Path(tempfile.gettempdir()) / f"bedplate-{os.getuid()}"


def _remove(base: Path, over: Callable[[int], bool]) -> None:
    for path in base.glob("*/*"):
        match = _OF_A_RUN.fullmatch(path.name)
        if match and over(int(match.group(1))):
            path.unlink(missing_ok=True)
