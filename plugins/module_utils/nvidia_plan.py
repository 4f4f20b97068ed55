# SPDX-License-Identifier: Apache-2.0
"""What a driver needs of a host, given what is there: packages in one transaction, and the loaded module. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Optional

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import DRAIN, REBOOT, UNKNOWN, Change, Problem
from .kernel_headers import Kernels, header_packages, kernels_to_serve, module_packages
from .nvidia_boot import BootState
from .nvidia_health import Expected, Judged
from .nvidia_install import INDEX_OLD, InstallDriver, LoadDriver, hold_problems, matches, offer_problems, resolve
from .nvidia_leftovers import leftovers, newest_version
from .nvidia_packages import (
    DISTRIBUTIONS,
    DriverPackage,
    PackageChoiceError,
    branch_of,
    driver_packages,
    module_file,
    parse_version,
    precompiled,
    upstream_version,
)
from .nvidia_probe import DriverState
from .nvidia_services import Service
from .packages import AptInstall, PackageState
from .secure_boot import SecureBoot, unsigned_problem

MODULE = "kernel module nvidia"
RUNFILE_UNINSTALLER = "/usr/bin/nvidia-uninstall"
"""Left by NVIDIA's .run installer, whose files dpkg knows nothing of."""
BUILD_BYTES = 3 * 1024**3
"""Sources, objects and modules of a DKMS build plus unpacked libraries and firmware, with room to spare."""
DISKS = ("/usr", "/var/lib", "/lib/modules")


@dataclass(frozen=True)
class Desired:
    """What is wanted.

    version: the driver's. modules: open or proprietary. source, build: see nvidia_packages.driver_packages. fabric_manager: auto
    (where NVSwitches are found), required or none. nvlsm: with the NVLink subnet manager, at package version nvlsm_version.
    headers: modules are compiled on the host; kernels: for these releases, () for the running one and the next. userspace: also
    libraries and tools. load: modules loaded at boot besides (nvidia-peermem, ib_umad).
    """

    version: str
    modules: str = "open"
    source: str = "nvidia"
    build: str = "dkms"
    fabric_manager: str = "auto"
    nvlsm: bool = False
    nvlsm_version: Optional[str] = None
    headers: bool = True
    kernels: tuple[str, ...] = ()
    userspace: bool = True
    load: tuple[str, ...] = ()
    load_now: bool = True
    persistence: bool = True
    allow_downgrade: bool = False
    expected: Expected = field(default_factory=Expected)
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS


@dataclass(frozen=True)
class Observed:
    """What is there. packages: the wanted ones and every installed one of a driver. offers: versions in the repositories, asked
    only when a package differs; index: how fresh they are. built: module version on disk per kernel to serve. ours: packages this
    role has held.
    """

    distribution: str = ""
    packages: Mapping[str, PackageState] = field(default_factory=dict)
    offers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    index: str = INDEX_OLD
    state: DriverState = field(default_factory=DriverState)
    secure_boot: SecureBoot = field(default_factory=SecureBoot)
    kernels: Kernels = field(default_factory=Kernels)
    built: Mapping[str, Optional[str]] = field(default_factory=dict)
    boot: BootState = field(default_factory=lambda: BootState({}))
    services: Mapping[str, Service] = field(default_factory=dict)
    loaded_besides: frozenset[str] = frozenset()
    free_bytes: int = 0
    ours: frozenset[str] = frozenset()
    unfinished: bool = False
    runfile: bool = False
    judged: Judged = field(default_factory=Judged)

    @property
    def switches(self) -> Optional[bool]:
        """Whether the machine has NVSwitches; None as long as no driver could tell."""
        return None if self.state.switches is None else self.state.switches > 0


def wanted_packages(observed: Observed, desired: Desired, fabric: Optional[bool] = None) -> tuple[DriverPackage, ...]:
    """Return the packages for this host; raises :class:`PackageChoiceError`. fabric None: decided by the NVSwitches found."""
    with_fabric = bool(fabric_wanted(observed, desired)) if fabric is None else fabric
    releases = kernels_to_serve(observed.kernels, desired.kernels) if desired.build == "precompiled" else [""]
    found: dict[str, DriverPackage] = {}
    for release in releases:
        for package in driver_packages(
            observed.distribution if observed.distribution in DISTRIBUTIONS else DISTRIBUTIONS[0],
            desired.version,
            desired.modules,
            fabric=with_fabric and desired.fabric_manager != "none",
            nvlsm=desired.nvlsm,
            source=desired.source,
            build=desired.build,
            kernel=release,
            userspace=desired.userspace,
        ):
            named = package.name == "nvlsm" and desired.nvlsm_version
            found.setdefault(package.name, replace(package, version=desired.nvlsm_version) if named else package)
    return tuple(found.values())


def gone_packages(observed: Observed, desired: Desired, packages: tuple[DriverPackage, ...]) -> tuple[str, ...]:
    """Return the installed driver packages that must go; a fabric manager of this driver stays, wanted or not."""
    try:
        fabric = wanted_packages(observed, desired, fabric=True)
    except PackageChoiceError:
        fabric = ()
    return leftovers(observed.packages, (*packages, *fabric), desired.modules)


def companions(observed: Observed, desired: Desired) -> list[str]:
    """Return the packages wanted in whichever version: kernel headers, or what brings precompiled modules for later kernels."""
    if desired.headers:
        return header_packages(observed.kernels, desired.kernels)
    if desired.build == "precompiled" and not desired.kernels:
        return module_packages(observed.kernels, precompiled(branch_of(desired.version), desired.modules))
    return []


def differing_packages(observed: Observed, desired: Desired, packages: tuple[DriverPackage, ...]) -> list[DriverPackage]:
    """Return the packages that are not there as wanted; precompiled modules tell their driver's version on disk only."""
    stale = {r for r, found in observed.built.items() if found != desired.version} if desired.build == "precompiled" else set()
    states = observed.packages
    return [
        p
        for p in packages
        if not states[p.name].installed
        or not matches(p, desired.version, states[p.name].version)
        or any(p.name == precompiled(branch_of(desired.version), desired.modules) + release for release in stale)
    ]


def fabric_wanted(observed: Observed, desired: Desired) -> Optional[bool]:
    """Tell whether this machine needs a fabric manager; None as long as no driver could tell whether there are NVSwitches."""
    if not desired.userspace or desired.fabric_manager == "none":
        return False
    return True if desired.fabric_manager == "required" else observed.switches


def plan_install(observed: Observed, desired: Desired, packages: tuple[DriverPackage, ...]) -> tuple[list[Change], list[Problem]]:
    """Plan the one transaction, and everything that must be right before it may begin."""
    version, states = desired.version, observed.packages
    differing = differing_packages(observed, desired, packages)
    others = companions(observed, desired)
    missing = [name for name in others if not states[name].installed]
    gone = gone_packages(observed, desired, packages)
    unheld = tuple(p.name for p in packages if p not in differing and not states[p.name].held)
    holding = AptInstall({}, unheld)
    holds = [Change(f"package {name} held", False, True, operation=holding) for name in unheld]
    if not differing and not missing and not gone:
        return holds, []
    problems = offer_problems(differing, missing, version, observed.offers, observed.index)
    problems += hold_problems(states, differing, gone, version, observed.ours)
    problems += _state_problems(observed, desired, differing)
    operation = InstallDriver(
        version,
        packages,
        tuple(missing if desired.headers else others),  # precompiled modules follow the driver, also where they are there
        gone,
        working_before(observed, packages, gone),
        tuple(observed.built),
        module_file(observed.distribution, desired.source, desired.modules),
        desired.lock_timeout_seconds,
    )
    disturbs = observed.state.loaded is not None and (bool(gone) or any(p.part != "fabric" for p in differing))
    effects = frozenset({DRAIN, REBOOT}) if disturbs else frozenset()  # without the reboot, library and module would not match
    changes = [Change(f"package {n}", states[n].version, None, effects, operation) for n in gone]
    changes += [Change(f"package {n}", None, "installed", effects, operation) for n in missing]
    for package in differing:
        state = states[package.name]
        before = state.version if state.installed or state.version is None else f"{state.version} ({state.status})"
        after = resolve(package, version, observed.offers) or package.version or UNKNOWN
        changes.append(Change(f"package {package.name}", before, after, effects, operation))
    return changes + holds, problems


def working_before(observed: Observed, packages: tuple[DriverPackage, ...], gone: tuple[str, ...]) -> dict[str, str]:
    """Return the installed packages to go back to when the new ones fail: those of a whole driver, else none."""
    states = {n: observed.packages[n] for n in {*(p.name for p in packages), *gone}}
    present = {n: v for n, state in states.items() if (v := state.version) is not None}
    of_driver = {p.name for p in packages if p.of_driver} | {n for n in gone if not n.startswith("linux-")}
    versions = {upstream_version(v) for n, v in present.items() if n in of_driver}
    whole = (
        len(versions) == 1 and not any(states[n].broken for n in states) and any("dkms" in n or "modules" in n for n in present)
    )
    return present if whole else {}


def plan_loaded(observed: Observed, desired: Desired, installing: tuple[str, ...]) -> list[Change]:
    """Plan the loaded module: loaded at once where there is none, by a reboot where there is another."""
    state = observed.state
    if not desired.load_now and state.loaded is None:
        return []
    kind = None if state.open is None else "open" if state.open else "proprietary"
    if state.loaded == desired.version and kind == desired.modules:
        return []
    after = f"{desired.version} ({desired.modules})"
    if state.loaded is not None:
        return [Change(MODULE, f"{state.loaded} ({kind})", after, frozenset({DRAIN, REBOOT}), needs=installing)]
    if state.nouveau:
        return [Change(MODULE, "nouveau loaded in its place", after, frozenset({DRAIN, REBOOT}), needs=installing)]
    return [Change(MODULE, None, after, operation=LoadDriver(desired.version), needs=installing)]


def _state_problems(observed: Observed, desired: Desired, differing: list[DriverPackage]) -> list[Problem]:
    problems = []
    unsigned = unsigned_problem(observed.secure_boot, desired.build)
    if unsigned is not None:
        problems.append(unsigned)
    if observed.runfile:
        step = f"drain the node and run {RUNFILE_UNINSTALLER} on it"
        problems.append(Problem("GPU driver", "one installed by NVIDIA's .run file", "packages only", step))
    if observed.free_bytes and observed.free_bytes < BUILD_BYTES:
        found = f"{observed.free_bytes // 1024**2} MiB free on {', '.join(DISKS)}"
        problems.append(Problem("disk", found, f"{BUILD_BYTES // 1024**2} MiB for the driver", "free space; nothing was changed"))
    for package in differing:
        state = observed.packages[package.name]
        if state.broken and not observed.unfinished:
            step = "repair it on the host (dpkg --configure -a; apt-get --fix-broken install); nothing was changed"
            problems.append(Problem(f"package {package.name}", state.status, "a package whose installation ended", step))
    newest = newest_version(observed.packages, observed.state.loaded) if any(p.part != "fabric" for p in differing) else None
    if newest is not None and not desired.allow_downgrade and _newer(newest, desired.version):
        step = "raise the version in the site data, or permit the downgrade (allow_downgrade)"
        problems.append(Problem("GPU driver", f"{newest} loaded or installed", desired.version, step))
    return problems


def _newer(found: str, version: str) -> bool:
    try:
        return parse_version(found) > parse_version(version)
    except ValueError:
        return False
