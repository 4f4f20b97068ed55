# SPDX-License-Identifier: Apache-2.0
"""The hosts' clock, kept by chrony from the site's own servers.

Installing chrony takes systemd-timesyncd and other time services off the host: all of them conflict as ``time-daemon``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from .core import UNKNOWN, Change
from .host import Host
from .operations import RunCommand, WriteFile, file_change

PACKAGE = "chrony"
CONFIGURATION = "/etc/chrony/chrony.conf"
SOURCES = "/etc/chrony/sources.d/bedplate.sources"
WANTED = "/etc/systemd/system/multi-user.target.wants/chrony.service"
MARKER = "# not used (Bedplate): "
RESTART = frozenset({"restart:chrony"})
OWN = re.compile(r"^\s*(pool|server|peer)\s", re.IGNORECASE)


@dataclass(frozen=True)
class Clock:
    """configuration: chrony's own, None where it is not installed. sources: our file. active, enabled: its service."""

    configuration: Optional[str] = None
    sources: Optional[str] = None
    active: bool = False
    enabled: bool = False


def without_sources(text: str) -> str:
    """Return chrony's configuration with the servers a distribution put there commented by :data:`MARKER`."""
    return "".join(MARKER + line if OWN.match(line) else line for line in text.splitlines(keepends=True))


def render_sources(servers: Sequence[str]) -> str:
    """Return our file of chrony.conf(5)'s directive sourcedir."""
    return "# Written by Bedplate; changes are overwritten.\n" + "".join(f"server {s} iburst\n" for s in servers)


def observe_clock(host: Host, servers: Sequence[str]) -> Clock:
    """Read chrony's files and ask systemd, where servers are given."""
    if not servers:
        return Clock()
    active = host.run(["systemctl", "is-active", PACKAGE]).ok
    return Clock(host.read(CONFIGURATION), host.read(SOURCES), active, host.exists(WANTED))


@dataclass(frozen=True)
class WithoutOwnSources:
    """Operation: comment the servers in the configuration that the package has brought by now."""

    def perform(self, host: Host) -> None:
        """Write it if there are any."""
        found = host.read(CONFIGURATION) or ""
        text = without_sources(found)
        if text != found:
            WriteFile(CONFIGURATION, text).perform(host)


def plan_clock(observed: Clock, servers: Sequence[str], installing: bool) -> list[Change]:
    """Plan chrony's files and service; installing: the package is a change of the same run.

    Without servers whatever keeps the clock stays as it is: taking it away helps nobody.
    """
    if not servers:
        return []
    changes = []
    needs = (f"package {PACKAGE}",) if installing else ()
    if observed.configuration is None or without_sources(observed.configuration) != observed.configuration:
        found = observed.configuration
        after = UNKNOWN if found is None else without_sources(found)
        changes.append(Change(f"file {CONFIGURATION}", found, after, RESTART, WithoutOwnSources(), needs))
    changes += file_change(SOURCES, observed.sources, render_sources(servers), effects=RESTART, needs=needs)
    if not observed.enabled:
        command = RunCommand(("systemctl", "enable", "--no-reload", PACKAGE), "enable chrony")
        changes.append(Change("service chrony at boot", "disabled", "enabled", operation=command, needs=needs))
    if not installing and not observed.active and not any(c.effects for c in changes):
        changes.append(Change("service chrony", "not running", "running", RESTART))
    return changes
