# SPDX-License-Identifier: Apache-2.0
"""Files that are put back when the service reading them does not come up.

What a file said before is kept in ``/var/lib/bedplate/<component>.rollback.json`` from the first guarded write until the service
has proven the new files, also across an interrupted run.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Callable, Optional

from .errors import BedplateError
from .host import Host
from .record import RECORD_DIRECTORY, Record


@dataclass(frozen=True)
class GuardedFile:
    """Operation: keep what the file says now, then write it, or remove it when ``text`` is None."""

    component: str
    path: str
    text: Optional[str]
    mode: int = 0o644

    def perform(self, host: Host) -> None:
        """Keep and write; raise :class:`BedplateError` when the host refuses."""
        try:
            keep(host, self.component, self.path)
            if self.text is None:
                host.remove(self.path)
            else:
                host.write(self.path, self.text, self.mode)
        except OSError as error:
            raise BedplateError(
                f"file {self.path}: cannot be written: {error.strerror}. Next: free space, then repeat"
            ) from error


def rollback_path(component: str) -> str:
    """Return where the texts are kept."""
    return f"{RECORD_DIRECTORY}/{component}.rollback.json"


def keep(host: Host, component: str, path: str) -> None:
    """Remember a file's present text and mode, unless an older, still unproven change remembers it already."""
    kept = _load(host, component)
    if path not in kept:
        text = host.read(path)
        kept[path] = None if text is None else {"text": text, "mode": host.mode(path)}
        host.write(rollback_path(component), json.dumps(kept, indent=2, sort_keys=True) + "\n", 0o600)


def discard(host: Host, component: str) -> None:
    """Forget what was kept: the new files have proven good."""
    if host.exists(rollback_path(component)):
        host.remove(rollback_path(component))


def restore(host: Host, component: str) -> list[str]:
    """Put the kept files back; returns their paths, none when nothing was kept."""
    kept = _load(host, component)
    for path, before in kept.items():
        if before is None:
            host.remove(path)
        else:
            host.write(path, before["text"], before["mode"])
    discard(host, component)
    return sorted(kept)


def nothing_owed(host: Host, component: str, effect: str) -> None:
    """Strike an effect off the component's record: the files it was owed for are gone."""
    Record.load(host, component).paid(effect).save(host)


def wait_until(probe: Callable[[], bool], seconds: float, pause: Callable[[float], None] = time.sleep) -> bool:
    """Ask until the probe says yes or the time is over; returns its last answer."""
    deadline = time.monotonic() + seconds
    delay = 0.1
    while not probe():
        if time.monotonic() >= deadline:
            return False
        pause(delay)
        delay = min(delay * 1.5, 1.0)
    return True


def _load(host: Host, component: str) -> dict[str, Any]:
    text = host.read(rollback_path(component))
    try:
        return dict(json.loads(text)) if text else {}
    except ValueError:  # cut short by a full disk: nothing was written after it
        return {}
