# SPDX-License-Identifier: Apache-2.0
"""apt packages: observed by one dpkg-query, planned purely, installed by one transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .apt import APT_ENVIRONMENT, DEFAULT_LOCK_TIMEOUT_SECONDS, apt_get, explain_common, require_locks_free, update_index
from .core import Change, Problem
from .debian_version import compare_versions
from .errors import BedplateError
from .host import TIMED_OUT, Host, Result
from .operations import last_lines
from .record import RECORD_DIRECTORY, RECORD_FORMAT

TRANSACTION_TIMEOUT_SECONDS = 1800
CONFIGURE = ("dpkg", "--configure", "-a", "--force-confdef", "--force-confold")
FORMAT = "${Package}\\t${Version}\\t${Status}\\n"
UNFINISHED = f"{RECORD_DIRECTORY}/apt.json"
"""Exists while a transaction of ours runs; left by a killed one, whose half-configured packages are then ours to finish."""


@dataclass(frozen=True)
class PackageState:
    """What dpkg knows of a package: version (None when not installed), held back or not, and its status words.

    status is dpkg's own, e.g. ``install ok installed``, ``install ok half-configured``; "" for an unknown package.
    """

    version: str | None = None
    held: bool = False
    status: str = ""

    @property
    def installed(self) -> bool:
        """True when fully installed and configured."""
        return self.status.endswith(" ok installed")

    @property
    def broken(self) -> bool:
        """True when an earlier dpkg run did not end (half-installed, half-configured, unpacked, triggers pending)."""
        return bool(self.status) and self.status.split()[-1] not in ("installed", "config-files", "not-installed")


def parse_packages(text: str) -> dict[str, PackageState]:
    """Parse ``dpkg-query -W -f '${Package}\\t${Version}\\t${Status}\\n'``; removed packages have version None."""
    states: dict[str, PackageState] = {}
    for line in text.splitlines():
        name, _tab, rest = line.partition("\t")
        version, _tab, status = rest.partition("\t")
        gone = not status or status.split()[-1] in ("config-files", "not-installed")
        state = PackageState(None if gone else version or None, status.startswith("hold "), status)
        known = states.get(name)
        if known is None or known.version is None:  # of several architectures the installed one counts
            states[name] = state
    return states


def find_packages(host: Host, *patterns: str) -> dict[str, PackageState]:
    """Return the packages dpkg knows whose names match one of the patterns (as of a shell), by one dpkg-query."""
    return parse_packages(host.run(["dpkg-query", "-W", "-f", FORMAT, *patterns]).out)


def observe_packages(host: Host, names: Iterable[str]) -> dict[str, PackageState]:
    """Return the state of each named package; packages dpkg has never heard of are absent-looking states, not errors."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    result = host.run(["dpkg-query", "-W", "-f", FORMAT, *wanted])
    known = parse_packages(result.out)  # answers 1 when some names are unknown; the others are still printed
    return {name: known.get(name, PackageState()) for name in wanted}


@dataclass(frozen=True)
class FinishInterrupted:
    """Operation: finish what a killed transaction left, as far as it goes by itself; apt completes or reports the rest.

    A package killed while its files were unpacked must be unpacked again (dpkg's "reinstreq") before anything that needs it can
    be configured, which neither dpkg nor apt's --fix-broken does.
    """

    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS

    def perform(self, host: Host) -> None:
        """Configure, unpack again, and so configure the rest."""
        host.run(CONFIGURE, timeout_seconds=TRANSACTION_TIMEOUT_SECONDS, env=APT_ENVIRONMENT)
        states = sorted(find_packages(host, "*").items())
        cut = [f"{n}={s.version}" if s.version else n for n, s in states if " reinstreq " in s.status]
        if cut:
            argv = [*apt_get(self.lock_timeout_seconds), "install", "--yes", "--reinstall", "--allow-change-held-packages", *cut]
            host.run(argv, timeout_seconds=TRANSACTION_TIMEOUT_SECONDS, env=APT_ENVIRONMENT)


@dataclass
class AptInstall:
    """One apt-get transaction for all package changes of a component; the changes share this object.

    packages: name to exact version, or None for the repository's candidate. hold: names to hold afterwards. remove: packages to
    remove in the same transaction. The first ``perform`` does the work, later ones (of the other changes) nothing.
    """

    packages: dict[str, str | None]
    hold: tuple[str, ...] = ()
    unhold: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    allow_downgrades: bool = False
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS
    done: bool = field(default=False, compare=False)

    def perform(self, host: Host) -> None:
        """Install and hold; raise :class:`BedplateError` that names the cause and the next step."""
        if self.done:
            return
        if self.packages or self.remove:
            self._install(host)
        for verb, names in (("hold", self.hold), ("unhold", self.unhold)):
            if names:
                result = host.run(["apt-mark", verb, *names])
                if not result.ok:
                    said = (result.err or result.out).strip()
                    raise BedplateError(
                        f"cannot {verb} packages {' '.join(names)}: {said}. Next: repair dpkg on the host, then repeat"
                    )
        host.remove(UNFINISHED)
        self.done = True

    def _install(self, host: Host) -> None:
        require_locks_free(host, self.lock_timeout_seconds)
        if host.exists(UNFINISHED):
            FinishInterrupted(self.lock_timeout_seconds).perform(host)
        raw = {"format": RECORD_FORMAT, "component": "apt", "packages": sorted(self.packages)}
        host.write(UNFINISHED, json.dumps(raw, indent=2, sort_keys=True) + "\n", mode=0o600)
        result = self._apt(host, self.argv())
        if not result.ok and is_missing(result):  # the index may be older than the repository
            update_index(host, self.lock_timeout_seconds)
            result = self._apt(host, self.argv())
        if not result.ok:
            message = explain_apt(host, result, self.packages)
            if is_missing(result):  # apt refused before touching anything
                host.remove(UNFINISHED)
            raise BedplateError(message)

    @staticmethod
    def _apt(host: Host, argv: list[str]) -> Result:
        return host.run(argv, timeout_seconds=TRANSACTION_TIMEOUT_SECONDS, env=APT_ENVIRONMENT)

    def argv(self) -> list[str]:
        """Return the apt-get command line."""
        exact = [name if version is None else f"{name}={version}" for name, version in sorted(self.packages.items())]
        options = ["--allow-change-held-packages", *(["--allow-downgrades"] if self.allow_downgrades else [])]
        gone = [f"{name}-" for name in sorted(self.remove)]
        return [*apt_get(self.lock_timeout_seconds), "install", "--yes", "--no-install-recommends", *options, *exact, *gone]


def plan_packages(
    observed: Mapping[str, PackageState],
    wanted: Mapping[str, str | None],
    hold: bool = False,
    effects: frozenset[str] = frozenset(),
    *,
    allow_downgrades: bool = False,
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS,
) -> list[Change]:
    """Plan packages: wanted maps names to exact versions, or to None for "installed, whichever version".

    Each differing package is a change ``package NAME``, with the effects if it is installed already (a new package disturbs
    nothing), sharing one :class:`AptInstall`; a missing hold is a change ``package NAME held`` without effects. Changes that are
    permitted and deferred must not share a transaction: call this once per group of packages that have the same effects.
    Use :func:`package_problems` for the downgrades this refuses.
    """
    install: dict[str, str | None] = {}
    for name, version in wanted.items():
        state = observed.get(name, PackageState())
        if not state.installed or (version is not None and state.version != version):
            install[name] = version
    to_hold = tuple(sorted(n for n in wanted if hold and not observed.get(n, PackageState()).held))
    fresh = {n: v for n, v in install.items() if observed.get(n, PackageState()).version is None}
    present = {n: v for n, v in install.items() if n not in fresh}
    changes: list[Change] = []
    for group, group_effects in ((fresh, frozenset[str]()), (present, effects)):
        operation = AptInstall(
            dict(group),
            tuple(n for n in wanted if hold and n in group),
            allow_downgrades=allow_downgrades,
            lock_timeout_seconds=lock_timeout_seconds,
        )
        for name in sorted(group):
            state = observed.get(name, PackageState())
            before = state.version if state.installed or state.version is None else f"{state.version} ({state.status})"
            changes.append(Change(f"package {name}", before, group[name] or "installed", group_effects, operation))
    holding = AptInstall({}, tuple(n for n in to_hold if n not in install))
    changes.extend(Change(f"package {name} held", False, True, frozenset(), holding) for name in holding.hold)
    return changes


def package_problems(
    observed: Mapping[str, PackageState], wanted: Mapping[str, str | None], allow_downgrades: bool = False
) -> list[Problem]:
    """Return a problem for each package that would be downgraded without permission."""
    problems = []
    for name, version in wanted.items():
        found = observed.get(name, PackageState()).version
        if version is not None and found is not None and not allow_downgrades and compare_versions(found, version) > 0:
            problems.append(
                Problem(f"package {name}", found, version, "raise the version in the site data, or permit the downgrade by name")
            )
    return problems


def is_missing(result: Result) -> bool:
    """Tell whether apt refused because a package or a version is in no repository it knows."""
    return bool(re.search(r"Unable to locate package|has no installation candidate|was not found", result.err + result.out))


def explain_apt(host: Host, result: Result, packages: Mapping[str, str | None]) -> str:
    """Turn apt's failure into found, wanted, next step; asks apt-cache what the repositories offer where that helps."""
    text = f"{result.out}\n{result.err}"
    missing = re.findall(r"Unable to locate package (\S+)", text)
    missing += [n for n in re.findall(r"Package '?([^\s']+)'? has no installation candidate", text) if n not in missing]
    versions = re.findall(r"Version '([^']+)' for '([^']+)' was not found", text)
    if missing or versions:
        names = list(dict.fromkeys([*missing, *(name for _version, name in versions)]))
        lines = [f"package {n}: found {_offered(host, n)}; wanted {packages.get(n) or 'any version'}" for n in names]
        lines.append("Next: add the package to the repository, or correct its version in the site data; nothing was installed")
        return "\n".join(lines)
    if result.rc == TIMED_OUT:
        limit = f"no end within {TRANSACTION_TIMEOUT_SECONDS} s"
        return f"apt-get: found {limit}; wanted packages {_names(packages)}. Next: run it by hand on the host to see why"
    return explain_common(host, text) or (
        f"apt-get answered {result.rc} for packages {_names(packages)}:\n{last_lines(text)}\n"
        "Next: repair it on the host (dpkg --audit; apt-get --fix-broken install), then run this again"
    )


def _offered(host: Host, name: str) -> str:
    found = [line.split("|")[1].strip() for line in host.run(["apt-cache", "madison", name]).out.splitlines() if "|" in line]
    return "versions " + ", ".join(dict.fromkeys(found)) if found else "no such package in any configured repository"


def _names(packages: Mapping[str, str | None]) -> str:
    return ", ".join(n if v is None else f"{n}={v}" for n, v in sorted(packages.items()))
