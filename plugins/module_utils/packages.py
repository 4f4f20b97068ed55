# SPDX-License-Identifier: Apache-2.0
"""apt packages: observed by one dpkg-query, planned purely, installed by one transaction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Optional

from .core import BedplateError, Change, Problem
from .host import TIMED_OUT, Host, Result

DEFAULT_LOCK_TIMEOUT_SECONDS = 300
TRANSACTION_TIMEOUT_SECONDS = 1800
APT_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
    "LC_ALL": "C.UTF-8",
}
LOCK_FILES = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock")


@dataclass(frozen=True)
class PackageState:
    """What dpkg knows of a package: version (None when not installed), held back or not, and its status words.

    status is dpkg's own, e.g. ``install ok installed``, ``install ok half-configured``; "" for an unknown package.
    """

    version: Optional[str] = None
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


def observe_packages(host: Host, names: Iterable[str]) -> dict[str, PackageState]:
    """Return the state of each named package; packages dpkg has never heard of are absent-looking states, not errors."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    result = host.run(["dpkg-query", "-W", "-f", "${Package}\\t${Version}\\t${Status}\\n", *wanted])
    known = parse_packages(result.out)  # answers 1 when some names are unknown; the others are still printed
    return {name: known.get(name, PackageState()) for name in wanted}


@dataclass
class AptInstall:
    """One apt-get transaction for all package changes of a component; the changes share this object.

    packages: name to exact version, or None for the repository's candidate. hold: names to hold afterwards. The first
    ``perform`` does the work, later ones (of the other changes) nothing.
    """

    packages: dict[str, Optional[str]]
    hold: tuple[str, ...] = ()
    unhold: tuple[str, ...] = ()
    allow_downgrades: bool = False
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS
    done: bool = field(default=False, compare=False)

    def perform(self, host: Host) -> None:
        """Install and hold; raise :class:`BedplateError` that names the cause and the next step."""
        if self.done:
            return
        if self.packages:
            result = host.run(self.argv(), timeout_seconds=TRANSACTION_TIMEOUT_SECONDS, env=APT_ENVIRONMENT)
            if not result.ok:
                raise BedplateError(explain_apt(host, result, self.packages))
        for verb, names in (("hold", self.hold), ("unhold", self.unhold)):
            if names:
                result = host.run(["apt-mark", verb, *names])
                if not result.ok:
                    raise BedplateError(f"cannot {verb} packages {' '.join(names)}: {(result.err or result.out).strip()}")
        self.done = True

    def argv(self) -> list[str]:
        """Return the apt-get command line."""
        exact = [name if version is None else f"{name}={version}" for name, version in sorted(self.packages.items())]
        options = ["--allow-change-held-packages", *(["--allow-downgrades"] if self.allow_downgrades else [])]
        return [*apt_get(self.lock_timeout_seconds), "install", "--yes", "--no-install-recommends", *options, *exact]


def apt_get(lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS) -> list[str]:
    """Return the start of every apt-get command: waits for locks a bounded time, keeps our configuration files."""
    return [
        "apt-get",
        "-q",
        "-o",
        f"DPkg::Lock::Timeout={lock_timeout_seconds}",
        "-o",
        "Dpkg::Options::=--force-confdef",
        "-o",
        "Dpkg::Options::=--force-confold",
    ]


def plan_packages(
    observed: Mapping[str, PackageState],
    wanted: Mapping[str, Optional[str]],
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
    install: dict[str, Optional[str]] = {}
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
    observed: Mapping[str, PackageState], wanted: Mapping[str, Optional[str]], allow_downgrades: bool = False
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


def compare_versions(left: str, right: str) -> int:
    """Order two Debian versions as dpkg does (deb-version(7)): negative, zero or positive."""
    (left_epoch, left_up, left_rev), (right_epoch, right_up, right_rev) = _split_version(left), _split_version(right)
    if left_epoch != right_epoch:
        return left_epoch - right_epoch
    return _compare_part(left_up, right_up) or _compare_part(left_rev, right_rev)


def _split_version(version: str) -> tuple[int, str, str]:
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, _dash, revision = rest.rpartition("-")
    if not upstream:
        upstream, revision = rest, "0"
    return int(epoch) if epoch.isdigit() else 0, upstream, revision


def _order(character: str) -> int:
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256


def _compare_part(left: str, right: str) -> int:
    while left or right:
        left_text, right_text = _lead(left, r"\D*"), _lead(right, r"\D*")
        for index in range(max(len(left_text), len(right_text))):
            left_order = _order(left_text[index]) if index < len(left_text) else 0
            right_order = _order(right_text[index]) if index < len(right_text) else 0
            if left_order != right_order:
                return left_order - right_order
        left, right = left[len(left_text) :], right[len(right_text) :]
        left_digits, right_digits = _lead(left, r"\d*"), _lead(right, r"\d*")
        difference = int(left_digits or 0) - int(right_digits or 0)
        if difference:
            return difference
        left, right = left[len(left_digits) :], right[len(right_digits) :]
    return 0


def _lead(text: str, pattern: str) -> str:
    match = re.match(pattern, text)
    return match.group(0) if match else ""


def explain_apt(host: Host, result: Result, packages: Mapping[str, Optional[str]]) -> str:
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
        return f"apt-get: found no end within {TRANSACTION_TIMEOUT_SECONDS} s; wanted packages {_names(packages)}. Next: run it by hand"
    return explain_common(host, text) or (
        f"apt-get answered {result.rc} for packages {_names(packages)}:\n{_tail(text)}\n"
        "Next: repair it on the host (dpkg --audit; apt-get --fix-broken install), then run this again"
    )


def explain_common(host: Host, text: str) -> Optional[str]:
    """Explain a failure that any apt command can have: lock, full disk, bad hash or signature, unreachable repository."""
    if re.search(r"Could not get lock|Unable to acquire the dpkg frontend lock|Unable to lock directory", text):
        match = re.search(r"held by process (\d+)(?: \(([^)]*)\))?", text)
        holder = lock_holder(host, match.group(1)) if match else "a process apt did not name"
        return (
            f"package lock: found it held by {holder} to the end of the wait; wanted it free. "
            "Next: let that process end (or end it), then run this again; the lock file itself is never removed"
        )
    if re.search(r"No space left on device|You don't have enough free space", text):
        return f"disk: found no space left ({_line(text, 'space')}); wanted room for the packages. Next: free space, then run this again"
    if "Hash Sum mismatch" in text or "File has unexpected size" in text:
        return (
            f"repository: found a file whose checksum is not the one its signed index states ({_line(text, 'https?://|Hash')}); "
            "wanted them equal. Next: sync the mirror again, then run this again"
        )
    signature = re.search(r"(GPG error|is not signed|NO_PUBKEY|BADSIG|EXPKEYSIG|KEYEXPIRED|signatures were invalid)", text)
    if signature:
        return (
            f"repository signature: found {_line(text, re.escape(signature.group(1)))}; wanted an index signed by the configured "
            "signing_key. Next: correct signing_key of that repository, or have the repository signed again"
        )
    unreachable = re.search(
        r"Could not resolve|Could not connect|Connection refused|Failed to fetch|Certificate verification", text
    )
    if unreachable:
        return (
            f"repository: found {_line(text, re.escape(unreachable.group(0)))}; wanted it reachable. "
            "Next: check its address, the authority of its certificate and the proxy in the site data"
        )
    return None


def lock_holder(host: Host, pid: str) -> str:
    """Name a process: ``process PID (its command line)``."""
    command = (host.read(f"/proc/{pid}/cmdline") or "").replace("\0", " ").strip()
    return f"process {pid} ({command or (host.read(f'/proc/{pid}/comm') or 'ended meanwhile').strip()})"


def _offered(host: Host, name: str) -> str:
    found = [line.split("|")[1].strip() for line in host.run(["apt-cache", "madison", name]).out.splitlines() if "|" in line]
    return "versions " + ", ".join(dict.fromkeys(found)) if found else "no such package in any configured repository"


def _names(packages: Mapping[str, Optional[str]]) -> str:
    return ", ".join(n if v is None else f"{n}={v}" for n, v in sorted(packages.items()))


def _tail(text: str) -> str:
    return "\n".join([line for line in text.strip().splitlines() if line.strip()][-8:])


def _line(text: str, pattern: str) -> str:
    for line in text.splitlines():
        if re.search(pattern, line):
            return re.sub(r"^[EW]: ", "", line.strip())
    return _tail(text)
