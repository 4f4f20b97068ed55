# SPDX-License-Identifier: Apache-2.0
"""What a host waits for a reboot for, and why."""

from __future__ import annotations

from .core import REBOOT, UNKNOWN, Change, Nothing, Outcome
from .host import Host
from .kernel_command_line import BOOT

REQUIRED = "/run/reboot-required"
"""Left by packages that take effect by a reboot; their names are in the file with .pkgs behind its name."""


def observe_required(host: Host) -> str | None:
    """Return the packages that ask for a reboot; None when nothing does."""
    if not host.exists(REQUIRED):
        return None
    return ", ".join(sorted(set((host.read(f"{REQUIRED}.pkgs") or "").split()))) or "a package it does not name"


def plan_required(packages: str | None) -> list[Change]:
    """Plan the reboot that packages ask for."""
    return [] if packages is None else [Change("reboot required", f"by {packages}", "rebooted", BOOT)]


def reasons(outcome: Outcome) -> list[str]:
    """Return why the host is to be rebooted, also where that is left for later: one line for each thing."""
    waiting = [c for c in (*outcome.changes, *outcome.deferred) if REBOOT in c.effects and isinstance(c.operation, Nothing)]
    lines = []
    for change in waiting:
        after = "that of the package to be installed" if change.after == UNKNOWN else change.after or "none of it"
        lines.append(f"{change.what}: found {change.before or 'none of it'}, wanted {after}")
    return lines
