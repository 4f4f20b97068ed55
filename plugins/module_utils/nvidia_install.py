# SPDX-License-Identifier: Apache-2.0
"""How a driver gets onto a host: which package versions the repositories offer, one transaction, and the old driver put back when
it fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from .core import Problem
from .errors import BedplateError
from .host import Host
from .nvidia_boot import observe_built
from .nvidia_packages import PINNING, DriverPackage, upstream_version
from .nvidia_probe import LOADED
from .packages import AptInstall, PackageState, observe_packages
from .record import Record

NAME = "nvidia_driver"
INDEX_OLD = "as its package index says, which may be older than the repository"
"""How fresh the offers are while the index was not fetched in this run, as in check mode."""
INDEX_FETCHED = "as its package index says, fetched just now"
INDEX_UNREACHABLE = "as its package index says; fetching it again failed, apt-get update on the host says why"
HELD = "held"
"""Entry of the component's record: names of packages it has held, so that somebody else's hold is told apart."""
Offers = Mapping[str, Sequence[str]]


def observe_offers(host: Host, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the versions the repositories offer, newest first; packages no repository knows are left out."""
    wanted = sorted(set(names))
    found: dict[str, list[str]] = {}
    for line in host.run(["apt-cache", "madison", *wanted]).out.splitlines() if wanted else ():
        fields = [part.strip() for part in line.split("|")]
        if len(fields) >= 2 and fields[1] not in found.setdefault(fields[0], []):
            found[fields[0]].append(fields[1])
    return {name: tuple(versions) for name, versions in found.items()}


def matches(package: DriverPackage, version: str, package_version: Optional[str]) -> bool:
    """Tell whether a package version is the driver's version (any version for packages with versions of their own)."""
    if package_version is None:
        return False
    if package.version is not None and not package.of_driver:
        return package_version == package.version
    return not package.of_driver or upstream_version(package_version) == version


def resolve(package: DriverPackage, version: str, offers: Offers) -> Optional[str]:
    """Return the exact package version to install: the one NVIDIA's naming settles if it is offered, else the newest offered
    revision of the driver's version, else None.
    """
    offered = offers.get(package.name, ())
    if package.version in offered:
        return package.version
    return next((found for found in offered if matches(package, version, found)), None)


def offer_problems(
    packages: Sequence[DriverPackage], others: Sequence[str], version: str, offers: Offers, index: str = INDEX_OLD
) -> list[Problem]:
    """Return a problem for each package that cannot be had; none while no repository is known (a fresh host in check mode).

    index: how fresh what the repositories offer is.
    """
    if not offers:
        return []
    problems = []
    for package in packages:
        if resolve(package, version, offers) is None:
            found = f"versions {', '.join(offers[package.name])}" if package.name in offers else "it in no configured repository"
            exactly = f"{version}, exactly the driver's" if package.of_driver else package.version or "any version"
            step = "let the repository carry it, or choose a driver version it carries whole; nothing was changed"
            problems.append(Problem(f"package {package.name}", f"{found} ({index})", exactly, step))
    for name in others:
        if name not in offers:
            step = "let the repository carry it, or boot a kernel it has that for; nothing was changed"
            found = f"it in no configured repository ({index})"
            problems.append(Problem(f"package {name}", found, "what the kernel's modules need", step))
    return problems


def hold_problems(
    states: Mapping[str, PackageState],
    wanted: Iterable[DriverPackage],
    gone: Iterable[str],
    version: str,
    ours: frozenset[str],
) -> list[Problem]:
    """Return a problem for each package that somebody else holds at another version, or against its removal (gone)."""
    changing = {p.name: version for p in wanted if not matches(p, version, states[p.name].version)}
    changing.update(dict.fromkeys(gone, f"it removed for driver {version}"))
    problems = []
    for name, after in changing.items():
        state = states[name]
        if state.held and state.installed and name not in ours:
            step = f"apt-mark unhold {name} on the host, if that hold is not needed any more"
            problems.append(Problem(f"package {name}", f"held at {state.version}, not by this role", after, step))
    return problems


@dataclass
class InstallDriver:
    """Operation that all package changes of the driver share: one transaction, with a way back.

    NVIDIA's pinning package comes in an apt call before: apt reads its preferences only when it starts.
    packages: to be at the driver's version. others: names installed in whichever version (kernel headers). remove: packages of
    another kind, branch or flavour. previous: versions before, to be put back when the transaction fails. kernels: releases for
    which a module of that name must be there afterwards.
    """

    version: str
    packages: tuple[DriverPackage, ...]
    others: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    previous: Mapping[str, str] = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    module: str = "nvidia"
    lock_timeout_seconds: int = 300
    done: bool = field(default=False, compare=False)

    def perform(self, host: Host) -> None:
        """Install and hold; on failure put the previous packages back and raise :class:`BedplateError`."""
        if self.done:
            return
        names = tuple(p.name for p in self.packages)
        record = Record.load(host, NAME)
        held = sorted({*record.data.get(HELD, ()), *names})
        if held != record.data.get(HELD):
            record.remembering(**{HELD: held}).save(host)
        offers = observe_offers(host, names)
        exact = {p.name: resolve(p, self.version, offers) or p.version for p in self.packages}
        try:
            self._transact(host, {**exact, **dict.fromkeys(self.others)}, names, self.remove)
            self._verify(host)
        except BedplateError as error:
            raise BedplateError(f"{error}\n{self._put_back(host)}") from error
        self.done = True

    def _transact(
        self, host: Host, packages: Mapping[str, Optional[str]], hold: tuple[str, ...], remove: tuple[str, ...]
    ) -> None:
        for pins in (True, False):
            changing = {n: v for n, v in packages.items() if n.startswith(PINNING) == pins}
            going = tuple(n for n in remove if n.startswith(PINNING) == pins)
            if not changing and not going:
                continue
            AptInstall(
                changing,
                tuple(n for n in hold if n.startswith(PINNING) == pins),
                remove=going,
                allow_downgrades=True,  # refused beforehand where it is not permitted; a library may be newer than its driver
                lock_timeout_seconds=self.lock_timeout_seconds,
            ).perform(host)

    def _verify(self, host: Host) -> None:
        built = observe_built(host, self.kernels, self.module)
        wrong = {release: found for release, found in built.items() if found != self.version}
        if wrong:
            lines = ", ".join(f"{found or 'none'} for kernel {release}" for release, found in wrong.items())
            raise BedplateError(
                f"kernel module nvidia: found {lines} after the installation; wanted {self.version}. "
                "Next: read /var/lib/dkms/nvidia*/*/build/make.log on the host, or for precompiled modules choose the driver "
                "version they are for"
            )

    def _put_back(self, host: Host) -> str:
        touched = {*(p.name for p in self.packages), *self.remove}
        now = observe_packages(host, touched)
        before = {name: version for name, version in self.previous.items() if name in touched}
        if all(now[n].version == before.get(n) and not now[n].broken for n in touched):
            return "The installed packages are as they were."
        if not before:
            was = "There was no driver before" if any(p.part == "modules" for p in self.packages) else "The driver is as it was"
            return f"{was}; what is half-installed is finished by the next run."
        new = tuple(sorted(n for n in touched if n not in before and now[n].status))
        try:
            self._transact(host, before, tuple(before), new)
        except BedplateError as error:
            return f"Putting the previous driver back failed too: {error}"
        return f"Put back: driver packages {', '.join(sorted({upstream_version(v) for v in before.values()}))}."


@dataclass(frozen=True)
class LoadDriver:
    """Operation: load the module, which a package does only on some distributions."""

    version: str

    def perform(self, host: Host) -> None:
        """Run modprobe unless it is loaded by now; raise :class:`BedplateError` with the kernel's reason."""
        if host.exists(LOADED):
            return
        result = host.run(["modprobe", "nvidia"], timeout_seconds=120)
        if not result.ok:
            log = host.run(["journalctl", "-k", "-b", "--no-pager", "-o", "cat", "-g", "NVRM|nvidia", "-n", "5"]).out.strip()
            raise BedplateError(
                f"kernel module nvidia: found it not loadable ({result.err.strip() or result.rc}); wanted {self.version} loaded. "
                f"Next: reboot into a kernel the module was compiled for, or correct what the kernel says:\n{log}"
            )
