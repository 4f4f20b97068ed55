# SPDX-License-Identifier: Apache-2.0
"""Services and modules beside the driver: persistence daemon, fabric manager, modules for RDMA and NVLink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .core import Change
from .errors import BedplateError
from .host import Host
from .kernel_state import LoadModule
from .nvidia_install import InstallDriver
from .nvidia_probe import NVSWITCHES
from .operations import last_lines

PERSISTENCE = "nvidia-persistenced"
FABRIC_MANAGER = "nvidia-fabricmanager"
NAMES = (PERSISTENCE, FABRIC_MANAGER)
STARTS_AT_BOOT = ("enabled", "static", "alias", "indirect", "generated")
"""Unit file states that need no enabling (Ubuntu's persistence daemon is started by udev)."""


@dataclass(frozen=True)
class Service:
    """A unit as systemd shows it: ActiveState and UnitFileState, "" for one it does not know."""

    active: str = "inactive"
    enabled: str = ""


def observe_service(host: Host, name: str) -> Service:
    """Ask systemd."""
    shown = host.run(["systemctl", "show", name, "-p", "ActiveState", "-p", "UnitFileState"]).out
    values = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    return Service(values.get("ActiveState", "inactive"), values.get("UnitFileState", ""))


def plan_service(name: str, services: Mapping[str, Service], needs: tuple[str, ...], *, start: bool) -> list[Change]:
    """Plan a service that runs now (start; not with another driver loaded, which it would refuse) and at boot."""
    found = services.get(name, Service())
    changes = []
    if found.enabled not in STARTS_AT_BOOT:
        changes.append(Change(f"service {name} enabled", False, True, operation=Enable(name)))
    if start and found.active not in ("active", "activating"):
        changes.append(Change(f"service {name}", found.active, "active", operation=Start(name), needs=needs))
    return changes


def plan_modules(wanted: Sequence[str], loaded: Iterable[str], driver: str) -> list[Change]:
    """Load modules that belong beside the driver (at boot a file under modules-load.d does)."""
    missing = [m for m in wanted if m not in set(loaded)]
    return [Change(f"kernel module {m}", "not loaded", "loaded", operation=LoadModule(m), needs=(driver,)) for m in missing]


@dataclass(frozen=True)
class Enable:
    """Operation: let a service start at boot; no daemon-reload, which takes GPUs from running containers on some hosts."""

    name: str

    def perform(self, host: Host) -> None:
        """Enable it."""
        result = host.run(["systemctl", "enable", "--no-reload", self.name])
        if not result.ok:
            raise BedplateError(
                f"service {self.name}: cannot be enabled: {last_lines(result.err)}. Next: systemctl status {self.name}"
            )


@dataclass(frozen=True)
class Start:
    """Operation: start a service that must be active afterwards."""

    name: str

    def perform(self, host: Host) -> None:
        """Start it; raise :class:`BedplateError` with the journal's last lines when it does not stay up."""
        result = host.run(["systemctl", "start", self.name], timeout_seconds=120)
        state = host.run(["systemctl", "is-active", self.name]).out.strip()
        if not result.ok or state not in ("active", "activating"):
            journal = host.run(["journalctl", "-u", self.name, "-n", "10", "--no-pager", "-o", "cat"]).out.strip()
            raise BedplateError(
                f"service {self.name}: found {state or 'no answer'} after a start; wanted active. "
                f"Next: correct what its journal says:\n{journal}"
            )


@dataclass(frozen=True)
class FabricIfSwitches:
    """Operation for a machine whose NVSwitches show only once the driver is loaded: fabric manager if there are any."""

    install: InstallDriver

    def perform(self, host: Host) -> None:
        """Look, install, enable and start."""
        if not host.glob(NVSWITCHES):
            return
        self.install.perform(host)
        Enable(FABRIC_MANAGER).perform(host)
        Start(FABRIC_MANAGER).perform(host)
