# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's container toolkit: packages at one version, and a device specification that follows the driver.

containerd's configuration is not touched here: the runtime handler and CDI are settings of the component container_runtime, its
only owner. The specification is made by the toolkit's own service, at boot before containerd, when the driver changes, and here
when it is stale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

from . import toml_text
from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .cdi_spec import PATH, SECOND, CdiSpec, difference, parse_list, parse_spec, wanted_uuids
from .core import DRAIN, Change, Component, Plan, Problem
from .errors import BedplateError
from .host import Host
from .nvidia_probe import LOADED, PROBE_TIMEOUT_SECONDS, Probe, Prober, parse_loaded
from .nvidia_services import STARTS_AT_BOOT, Enable, Service, observe_service
from .operations import RunCommand, file_change, last_lines
from .packages import PackageState, observe_packages, package_problems, plan_packages

NAME = "nvidia_container_toolkit"
REFRESH = "nvidia-cdi-refresh.service"
UNITS = (REFRESH, "nvidia-cdi-refresh.path")
FIRST_WITH_REFRESH = (1, 18)
"""Changelog of the toolkit: v1.18.0 added nvidia-cdi-refresh."""
DROPIN = f"/etc/systemd/system/{REFRESH}.d/50-bedplate.conf"
CONFIG = "/etc/nvidia-container-runtime/config.toml"
ENVVAR_KEY = "accept-nvidia-visible-devices-envvar-when-unprivileged"
REFRESH_TIMEOUT_SECONDS = 60
DRIVER_THERE = f"/bin/sh -c 'test -e {LOADED} || grep -qE \"/nvidia(-current)?(-open)?[.]ko\" /lib/modules/%v/modules.dep'"
"""When the service runs. Its own condition (deployments/systemd in the toolkit's sources) looks for nvidia.ko alone up to 1.18,
later for nvidia-current.ko too, and never for Debian's nvidia-current-open.ko."""
MODES = ("auto", "nvml")


@dataclass(frozen=True)
class Desired:
    """What is wanted.

    packages: name to exact version or None. mode: how devices are discovered, one of :data:`MODES`. probe: ask nvidia-smi, which
    is known to answer. envvar: containers without
    privileges may ask for GPUs by NVIDIA_VISIBLE_DEVICES under the handler nvidia, past Kubernetes' accounts.
    """

    packages: Mapping[str, Optional[str]]
    mode: str = "auto"
    probe: bool = True
    envvar: bool = True
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS

    def dropin(self) -> str:
        """Return the drop-in of the refresh service: containerd waits for it at boot, and must not wait for a hung nvidia-smi."""
        mode = f"Environment=NVIDIA_CTK_CDI_GENERATE_MODE={self.mode}\n" if self.mode != "auto" else ""
        return (
            "# Written by bedplate.metal.nvidia_container_toolkit; changes are overwritten.\n"
            f"[Service]\nExecCondition=\nExecCondition={DRIVER_THERE}\nTimeoutStartSec=30s\nTimeoutStopSec=3s\n{mode}"
        )


@dataclass(frozen=True)
class Observed:
    """What is there. spec: the device specification, None if there is none. listed: MIG devices per GPU, where MIG is on."""

    packages: Mapping[str, PackageState] = field(default_factory=dict)
    units: Mapping[str, Service] = field(default_factory=dict)
    dropin: Optional[str] = None
    config: Optional[str] = None
    spec: Optional[CdiSpec] = None
    second: bool = False
    loaded: Optional[str] = None
    probe: Probe = field(default_factory=Probe)
    listed: dict[str, list[str]] = field(default_factory=dict)


class NvidiaContainerToolkit(Component[Desired, Observed]):
    """See the module's docstring."""

    name: ClassVar[str] = NAME

    def __init__(self) -> None:
        self._ask = Prober()

    def observe(self, host: Host, desired: Desired) -> Observed:
        """Look at packages, units, files and, where a driver is loaded, devices."""
        loaded, _open = parse_loaded(host.read(LOADED) or "")
        probe = self._ask(host) if loaded and desired.probe else Probe()
        mig = any(g.mig == "Enabled" for g in probe.gpus)
        listing = host.run(["nvidia-smi", "-L"], timeout_seconds=PROBE_TIMEOUT_SECONDS).out if mig else ""
        text = host.read(PATH)
        return Observed(
            packages=observe_packages(host, desired.packages),
            units={unit: observe_service(host, unit) for unit in UNITS},
            dropin=host.read(DROPIN),
            config=host.read(CONFIG),
            spec=None if text is None else parse_spec(text),
            second=host.exists(SECOND),
            loaded=loaded,
            probe=probe,
            listed=parse_list(listing),
        )

    def plan(self, observed: Observed, desired: Desired) -> Plan:
        """The drop-in comes before the package whose unit reads it, so that no daemon-reload is needed."""
        problems = package_problems(observed.packages, desired.packages) + _version_problems(observed, desired)
        changes = file_change(DROPIN, observed.dropin, desired.dropin())
        changes += plan_packages(
            observed.packages,
            desired.packages,
            True,
            frozenset({DRAIN}),
            lock_timeout_seconds=desired.lock_timeout_seconds,
        )
        installing = tuple(c.what for c in changes if c.what.startswith("package ") and not c.what.endswith(" held"))
        units = [unit for unit in UNITS if observed.units.get(unit, Service()).enabled not in STARTS_AT_BOOT]
        for unit in units:
            operation = EnableAndRefresh(unit, self._ask if desired.probe else None) if unit == REFRESH else Enable(unit)
            changes.append(Change(f"unit {unit} enabled", False, True, operation=operation, needs=installing))
        changes += _plan_config(observed, desired, installing)
        if REFRESH not in units:
            changes += _plan_spec(observed, installing)
        return Plan(changes, problems + _warnings(observed))

    def facts(self, observed: Observed) -> dict[str, Any]:
        """Return what the specification names."""
        spec = observed.spec or CdiSpec()
        return {"versions": sorted(spec.versions), "devices": sorted(spec.uuids)}


@dataclass(frozen=True)
class Refresh:
    """Operation: have the specification made again; the running containers keep what they have."""

    def perform(self, host: Host) -> None:
        """Run the toolkit's service; raise :class:`BedplateError` with its journal when it fails."""
        result = host.run(["systemctl", "restart", REFRESH], timeout_seconds=REFRESH_TIMEOUT_SECONDS)
        if not result.ok:
            journal = host.run(["journalctl", "-u", REFRESH, "-n", "10", "--no-pager", "-o", "cat"]).out
            raise BedplateError(
                f"CDI specification {PATH}: found {REFRESH} failing; wanted it made. Next: correct what its journal says:\n"
                f"{last_lines(journal or result.err)}"
            )


@dataclass(frozen=True)
class EnableAndRefresh:
    """Operation: enable the service and, where a driver is loaded by now, have it make the specification.

    One change for both: before the driver is there nobody can tell (check mode least of all) that a specification will differ.
    """

    unit: str
    ask: Optional[Prober]

    def perform(self, host: Host) -> None:
        """Enable, then run the service if there is something to describe. Raises :class:`BedplateError`."""
        Enable(self.unit).perform(host)
        if self.ask is not None and host.read(LOADED) and self.ask(host).state == "ok":
            Refresh().perform(host)


def _plan_spec(observed: Observed, installing: tuple[str, ...]) -> list[Change]:
    if observed.loaded is None or observed.probe.state != "ok":
        return []  # nothing to describe, or nothing that answers; the driver's own findings say so
    uuids = wanted_uuids(observed.probe.gpus, observed.listed)
    found = difference(observed.spec, observed.loaded, uuids)
    if found is None:
        return []
    after = f"driver {observed.loaded}, {len(uuids)} devices"
    return [Change(f"CDI specification {PATH}", found, after, operation=Refresh(), needs=installing)]


def _plan_config(observed: Observed, desired: Desired, installing: tuple[str, ...]) -> list[Change]:
    found = envvar_accepted(observed.config or "")
    if found == desired.envvar:
        return []
    value = "true" if desired.envvar else "false"
    argv = ("nvidia-ctk", "--quiet", "config", f"--config-file={CONFIG}", "--in-place", "--set", f"{ENVVAR_KEY}={value}")
    return [
        Change(f"{CONFIG}: {ENVVAR_KEY}", found, desired.envvar, operation=RunCommand(argv, f"edit {CONFIG}"), needs=installing)
    ]


def envvar_accepted(text: str) -> bool:
    """Return the setting in the runtime's configuration; it is on where the file does not say."""
    entry = toml_text.find(text, (ENVVAR_KEY,))
    return True if entry is None else toml_text.decode(text[slice(*entry.value)]) is not False


def _version_problems(observed: Observed, desired: Desired) -> list[Problem]:
    problems = []
    for name, wanted in desired.packages.items():
        version = wanted or observed.packages.get(name, PackageState()).version or ""
        match = re.match(r"(?:\d+:)?(\d+)\.(\d+)", version)
        if match and (int(match.group(1)), int(match.group(2))) < FIRST_WITH_REFRESH:
            least = ".".join(map(str, FIRST_WITH_REFRESH))
            step = "choose such a version, and let the repository carry it"
            problems.append(Problem(f"package {name}", version, f"{least} or newer, which keeps the specification fresh", step))
    return problems


def _warnings(observed: Observed) -> list[Problem]:
    if not observed.second:
        return []
    step = f"remove it: {PATH} is kept fresh, and a container that asks for a device only this file names would fail"
    return [Problem(f"CDI specification {SECOND}", "a second one, made by hand", f"only {PATH}", step, "warning")]
