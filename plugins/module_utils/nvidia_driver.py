# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's driver on a host: packages at one version, modules for the kernels that boot, services, and what the GPUs say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from . import nvidia_services
from .apt import update_index
from .core import UNKNOWN, Change, Component, Plan, Problem
from .host import Host
from .kernel_headers import kernels_to_serve, observe_kernels
from .nvidia_boot import observe_boot, observe_built, plan_boot_files, plan_builds, plan_initramfs
from .nvidia_health import judge
from .nvidia_install import HELD, INDEX_FETCHED, INDEX_OLD, INDEX_UNREACHABLE, NAME, InstallDriver, observe_offers
from .nvidia_leftovers import observe_installed
from .nvidia_packages import DISTRIBUTIONS, DriverPackage, PackageChoiceError, module_file
from .nvidia_plan import (
    DISKS,
    MODULE,
    RUNFILE_UNINSTALLER,
    Desired,
    Observed,
    companions,
    differing_packages,
    fabric_wanted,
    gone_packages,
    plan_install,
    plan_loaded,
    wanted_packages,
)
from .nvidia_probe import WEDGED, Prober, observe_driver
from .nvidia_services import FABRIC_MANAGER, PERSISTENCE
from .packages import UNFINISHED, observe_packages
from .preflight_facts import parse_os_release
from .record import Record
from .secure_boot import observe_secure_boot


class NvidiaDriver(Component[Desired, Observed]):
    """See the module's docstring."""

    name: ClassVar[str] = NAME

    def __init__(self) -> None:
        self._ask = Prober()
        self._index = INDEX_OLD

    def observe(self, host: Host, desired: Desired) -> Observed:
        """Look at packages, modules, kernels, services and GPUs; everything is bounded in time."""
        distribution = parse_os_release(host.read("/etc/os-release") or "")
        kernels = observe_kernels(host, desired.kernels)
        seen = Observed(distribution, kernels=kernels, state=observe_driver(host, self._ask if desired.userspace else None))
        packages: tuple[DriverPackage, ...] = ()
        try:
            packages = wanted_packages(seen, desired)
            fabric_too = wanted_packages(seen, desired, fabric=True)
        except PackageChoiceError:  # the plan says so
            fabric_too = packages
        others = companions(seen, desired)
        states = observe_packages(host, [*(p.name for p in (*packages, *fabric_too)), *others])
        seen = replace(seen, packages={**observe_installed(host), **states})
        module = module_file(distribution, desired.source, desired.modules)
        builds = desired.headers or desired.build == "precompiled"
        built = observe_built(host, kernels_to_serve(kernels, desired.kernels), module) if builds else {}
        seen = replace(seen, built=built)
        differing = differing_packages(seen, desired, packages)
        differs = bool(differing or gone_packages(seen, desired, packages)) or any(not states[n].installed for n in others)
        services = {n: nvidia_services.observe_service(host, n) for n in nvidia_services.NAMES} if desired.userspace else {}
        fabric = fabric_wanted(seen, desired)
        return replace(
            seen,
            offers=observe_offers(host, [p.name for p in packages] + others) if differs else {},
            index=self._index,
            secure_boot=observe_secure_boot(host),
            boot=observe_boot(host),
            services=services,
            loaded_besides=frozenset(m for m in desired.load if host.exists(f"/sys/module/{m.replace('-', '_')}")),
            free_bytes=_free_bytes(host) if differs else 0,
            ours=frozenset(Record.load(host, NAME).data.get(HELD, ())),
            unfinished=host.exists(UNFINISHED),
            runfile=host.exists(RUNFILE_UNINSTALLER),
            judged=judge(
                seen.state, desired.expected, desired.version, services[FABRIC_MANAGER].active if fabric and services else None
            ),
        )

    def plan(self, observed: Observed, desired: Desired) -> Plan:
        """Compare: packages, what decides at boot, the loaded module, then services."""
        try:
            packages = wanted_packages(observed, desired)
        except PackageChoiceError as error:
            step = "correct the pool's driver in the site data"
            return Plan((), [Problem("driver packages", str(error), "a combination there are packages for", step)])
        if observed.distribution not in DISTRIBUTIONS:
            found, step = observed.distribution or "no os-release", "install one of these, or take the host out of its pool"
            return Plan((), [Problem("distribution", found, " or ".join(DISTRIBUTIONS), step)])
        changes, problems = plan_install(observed, desired, packages)
        installing = tuple(c.what for c in changes if c.what.startswith("package ") and not c.what.endswith(" held"))
        boot = plan_boot_files(observed.boot, desired.load)
        changes = boot + changes
        changes += [replace(c, needs=installing) for c in plan_initramfs(observed.boot, desired.version)]
        if not installing and desired.headers:
            changes += plan_builds(observed.built, desired.version)
        changes += plan_loaded(observed, desired, installing)
        changes += nvidia_services.plan_modules(desired.load, observed.loaded_besides, MODULE)
        changes += self._plan_services(observed, desired)
        return Plan(changes, problems + self._warnings(observed, desired, installing))

    def renew(self, host: Host, desired: Desired, errors: Sequence[Problem]) -> bool:
        """Fetch the package index once where a version is missing from it."""
        if not any(INDEX_OLD in problem.found for problem in errors):
            return False
        self._index = INDEX_FETCHED if update_index(host, desired.lock_timeout_seconds).ok else INDEX_UNREACHABLE
        return True

    def _plan_services(self, observed: Observed, desired: Desired) -> list[Change]:
        if not desired.userspace or (observed.state.loaded is None and not desired.load_now):
            return []
        stale = observed.state.loaded is not None and observed.state.loaded != desired.version
        start = not stale and observed.state.probe.state != WEDGED  # what asks a hung driver hangs too
        fabric = fabric_wanted(observed, desired)
        changes = []
        if desired.persistence:
            changes += nvidia_services.plan_service(PERSISTENCE, observed.services, (MODULE,), start=start)
        if fabric:
            changes += nvidia_services.plan_service(FABRIC_MANAGER, observed.services, (MODULE,), start=start)
        elif fabric is None:
            try:
                found = tuple(p for p in wanted_packages(observed, desired, fabric=True) if p.part == "fabric")
            except PackageChoiceError:  # a matter of the next run, if there are NVSwitches at all
                return changes
            install = InstallDriver(desired.version, found, lock_timeout_seconds=desired.lock_timeout_seconds)
            operation = nvidia_services.FabricIfSwitches(install)
            changes.append(Change("fabric manager", None, UNKNOWN, operation=operation, needs=(MODULE,)))
        return changes

    @staticmethod
    def _warnings(observed: Observed, desired: Desired, installing: tuple[str, ...]) -> list[Problem]:
        problems = []
        if observed.state.probe.state == WEDGED:
            problems.append(replace(observed.judged.findings[0], severity="warning"))
        loaded = observed.state.loaded
        if loaded and loaded != desired.version and not installing:
            step = "the rolling playbook drains and reboots the node; nothing is installed again until then"
            problems.append(
                Problem("reboot required", f"{loaded} loaded", f"{desired.version}, which is installed", step, "warning")
            )
        return problems


def _free_bytes(host: Host) -> int:
    lines = host.run(["df", "-B1", "--output=avail", *(d for d in DISKS if host.exists(d))]).out.splitlines()
    return min((int(line.split()[0]) for line in lines if line.split()[:1] and line.split()[0].isdigit()), default=0)
