# SPDX-License-Identifier: Apache-2.0
"""The container runtime: containerd and runc by exact version, its configuration, registries, proxy and limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

from . import rollback
from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .containerd_check import CRI_OK, check_configuration, cri_status
from .containerd_config import DROPIN, MAIN, REGISTRY_DIRECTORY, Settings, Wanted, import_patterns, wanted_files
from .core import UNKNOWN, Change, Component, Plan, Problem, restart_service
from .errors import BedplateError
from .host import Host
from .operations import RemoveFile, RunCommand, file_change
from .packages import PackageState, observe_packages, package_problems, plan_packages
from .registry_hosts import MARK, HostsFile, Registry, hosts_files
from .rollback import GuardedFile
from .service_dropin import has_credentials, proxy_environment, render_dropin
from .toml_text import TomlError

NAME = "container_runtime"
SERVICE = "containerd"
RESTART = frozenset({f"restart:{SERVICE}"})
UNIT_DROPIN = f"/etc/systemd/system/{SERVICE}.service.d/50-bedplate.conf"
ORIGINAL = f"{MAIN}.before-bedplate"
"""The main file as it was before this component first edited it; kept for good."""

CRI_TIMEOUT_SECONDS = 60
OLDEST_MAJOR = 2
"""Kubernetes 1.35 is the last release that supports containerd 1 (its release notes)."""


@dataclass(frozen=True)
class Desired:
    """What is wanted.

    packages: name to exact version or None. memlock: locked memory of the service and what it starts, ``infinity`` or bytes as
    text; None leaves the packaged unit's. proxy: {http, https, no_proxy: [...]}.
    """

    package: str
    packages: Mapping[str, Optional[str]]
    settings: Settings = field(default_factory=Settings)
    registries: tuple[Registry, ...] = ()
    proxy: Mapping[str, Any] = field(default_factory=dict)
    memlock: Optional[str] = None
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS

    def unit_dropin(self) -> str:
        """Return the service's drop-in, "" for none."""
        limits = {"LimitMEMLOCK": self.memlock} if self.memlock else {}
        return render_dropin("bedplate.metal.container_runtime", proxy_environment(self.proxy), limits)


@dataclass(frozen=True)
class Observed:
    """What is there.

    files: text of the main file and everything it may import. registry_files: text and mode of files under certs.d that are
    wanted, or were written by this component. active, enabled: as systemctl says. cri: status of the CRI plugin. memlock: of
    the running process, None when it does not run.
    """

    packages: Mapping[str, PackageState]
    files: Mapping[str, str]
    registry_files: Mapping[str, tuple[str, Optional[int]]]
    unit_dropin: Optional[str]
    original_kept: bool
    active: str
    enabled: str
    cri: str
    memlock: Optional[str]


class ConfigureInstalled:
    """Operation for a fresh host: the package may bring a configuration of its own, so it is read after the installation."""

    def __init__(self, desired: Desired) -> None:
        """Remember what is wanted."""
        self.desired = desired

    def perform(self, host: Host) -> None:
        """Plan the files from what is there now, and write them."""
        files = observe_files(host)
        wanted = wanted_files(files, self.desired.settings)
        if wanted.problems:
            raise BedplateError("\n".join(str(p) for p in wanted.problems))
        for change in _configuration_changes(files, wanted, host.exists(ORIGINAL)):
            change.operation.perform(host)


class ContainerRuntime(Component[Desired, Observed]):
    """See the module's docstring."""

    name: ClassVar[str] = NAME

    def observe(self, host: Host, desired: Desired) -> Observed:
        """Look at packages, files, the service and the running process."""
        packages = observe_packages(host, desired.packages)
        state = _service_state(host)
        active = state.get("ActiveState") or "inactive"
        return Observed(
            packages=packages,
            files=observe_files(host),
            registry_files=_observe_registry_files(host, desired),
            unit_dropin=host.read(UNIT_DROPIN),
            original_kept=host.exists(ORIGINAL),
            active=active,
            enabled=state.get("UnitFileState") or "",
            cri=cri_status(host) if active == "active" else "no answer",
            memlock=running_memlock(host, state),
        )

    def plan(self, observed: Observed, desired: Desired) -> Plan:
        """Compare; files come before the restart that reads them, and hosts.toml files need none."""
        problems = package_problems(observed.packages, desired.packages) + _version_problems(observed, desired)
        wait = desired.lock_timeout_seconds
        changes = plan_packages(observed.packages, desired.packages, True, RESTART, lock_timeout_seconds=wait)
        fresh = not observed.packages.get(desired.package, PackageState()).installed  # absent, or its installation did not end
        if fresh:
            unknown = Change(f"file {DROPIN}", observed.files.get(DROPIN), UNKNOWN, RESTART, ConfigureInstalled(desired))
            changes.append(unknown)
        else:
            wanted = wanted_files(observed.files, desired.settings)
            problems.extend(wanted.problems)
            changes.extend(_configuration_changes(observed.files, wanted, observed.original_kept))
        changes.extend(_unit_changes(observed, desired))
        changes.extend(_registry_changes(observed, hosts_files(desired.registries)))
        changes.extend(_service_changes(observed, desired, bool(RESTART & {e for c in changes for e in c.effects}), fresh))
        return Plan(changes, problems)

    def effect(self, host: Host, effect: str, desired: Desired) -> None:
        """Restart containerd once its files parse and say what they should; put the old files back when it does not come up."""
        if effect not in RESTART:
            super().effect(host, effect, desired)
            return
        wanted = wanted_files(observe_files(host), desired.settings)
        complaints = check_configuration(host, wanted.settings)
        if complaints:
            restored = rollback.restore(host, NAME)
            rollback.nothing_owed(host, NAME, effect)
            raise BedplateError(
                f"configuration of containerd: found {'; '.join(complaints)}; wanted one it accepts. {_put_back(restored)}; "
                "containerd was not restarted. Next: correct the site data (or the file named), then run this again"
            )
        failure = _restarted(host)
        if failure is not None:
            restored = rollback.restore(host, NAME)
            again = _restarted(host) if restored else failure
            rollback.nothing_owed(host, NAME, effect)
            now = "containerd runs again" if again is None else "containerd does not run"
            raise BedplateError(f"{failure}\n{_put_back(restored)}; {now}. Next: correct what the journal names, then repeat")
        rollback.discard(host, NAME)
        found = running_memlock(host)
        if desired.memlock and found != desired.memlock:
            raise BedplateError(
                f"locked memory of the running containerd: found {found}; wanted {desired.memlock}. Next: look for another "
                f"drop-in (systemctl cat {SERVICE}) or a limit of the machine itself (a host in a container cannot raise it)"
            )


def observe_files(host: Host) -> dict[str, str]:
    """Return the text of containerd's main file and of every file it imports or would import."""
    main = host.read(MAIN)
    files = {} if main is None else {MAIN: main}
    try:
        patterns = import_patterns(main)
    except TomlError:
        patterns = import_patterns(None)
    for pattern in patterns:
        for path in host.glob(pattern):
            text = host.read(path)
            if text is not None:
                files[path] = text
    return files


def running_memlock(host: Host, state: Optional[Mapping[str, str]] = None) -> Optional[str]:
    """Return the limit of locked memory of the running containerd; None when it does not run."""
    pid = (state or _service_state(host)).get("MainPID", "0")
    return None if pid == "0" else parse_memlock(host.read(f"/proc/{pid}/limits") or "")


def _service_state(host: Host) -> dict[str, str]:
    shown = host.run(["systemctl", "show", SERVICE, "-p", "ActiveState", "-p", "UnitFileState", "-p", "MainPID"]).out
    return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)


def parse_memlock(limits: str) -> Optional[str]:
    """Return the soft limit of locked memory from /proc/PID/limits: ``infinity`` or bytes; None when it is not there."""
    match = re.search(r"^Max locked memory\s+(\S+)", limits, re.MULTILINE)
    return None if match is None else "infinity" if match.group(1) == "unlimited" else match.group(1)


def _version_problems(observed: Observed, desired: Desired) -> list[Problem]:
    version = desired.packages.get(desired.package) or observed.packages.get(desired.package, PackageState()).version
    match = re.match(r"(?:\d+:)?(\d+)\.", version or "")
    if match is None or int(match.group(1)) >= OLDEST_MAJOR:
        return []
    wanted = f"{OLDEST_MAJOR}.0 or newer, which Kubernetes 1.36 needs"
    next_step = "set container_runtime_version to such a version, and let the repository carry it"
    return [Problem(f"package {desired.package}", str(version), wanted, next_step)]


def _configuration_changes(found: Mapping[str, str], wanted: Wanted, original_kept: bool) -> list[Change]:
    changes = []
    for path, text in wanted.files.items():
        if found.get(path) == text:
            continue
        if path == MAIN and path in found and not original_kept:
            changes.extend(file_change(ORIGINAL, None, found[MAIN]))
        changes.append(Change(f"file {path}", found.get(path), text, RESTART, GuardedFile(NAME, path, text)))
    return changes


def _unit_changes(observed: Observed, desired: Desired) -> list[Change]:
    text = desired.unit_dropin() or None
    if observed.unit_dropin == text:
        return []
    secret = has_credentials(text) or has_credentials(observed.unit_dropin)
    operation = GuardedFile(NAME, UNIT_DROPIN, text, 0o600 if secret else 0o644)
    return [Change(f"file {UNIT_DROPIN}", observed.unit_dropin, text, RESTART, operation, secret=secret)]


def _observe_registry_files(host: Host, desired: Desired) -> dict[str, tuple[str, Optional[int]]]:
    ours = {path for path in host.glob(f"{REGISTRY_DIRECTORY}/*/hosts.toml") if (host.read(path) or "").startswith(MARK)}
    ours |= set(host.glob(f"{REGISTRY_DIRECTORY}/*/bedplate-*.crt"))
    texts = {path: (host.read(path), host.mode(path)) for path in sorted(ours | set(hosts_files(desired.registries)))}
    return {path: (text, mode) for path, (text, mode) in texts.items() if text is not None}


def _registry_changes(observed: Observed, wanted: Mapping[str, HostsFile]) -> list[Change]:
    changes: list[Change] = []
    for path, file in wanted.items():
        found, mode = observed.registry_files.get(path, (None, None))
        secret = file.secret or "Authorization" in (found or "")
        changes.extend(file_change(path, found, file.text, mode=file.mode, found_mode=mode, secret=secret))
    for path, (text, _mode) in observed.registry_files.items():
        if path not in wanted:
            changes.append(Change(f"file {path}", text, None, operation=RemoveFile(path), secret="Authorization" in text))
    return changes


def _service_changes(observed: Observed, desired: Desired, restarts: bool, fresh: bool) -> list[Change]:
    changes = []
    if observed.enabled != "enabled":
        enable = RunCommand(("systemctl", "enable", "--no-reload", SERVICE), f"enable {SERVICE}")
        changes.append(Change(f"service {SERVICE} enabled", False, True, operation=enable))
    if fresh:
        return changes
    if observed.active != "active":
        changes.append(Change(f"service {SERVICE}", observed.active, "active", operation=_Start(must=not restarts)))
    elif not restarts and observed.cri != CRI_OK:
        changes.append(Change("CRI of containerd", observed.cri, CRI_OK, RESTART))
    elif not restarts and desired.memlock and observed.memlock not in (None, desired.memlock):
        changes.append(Change("locked memory of the running containerd", observed.memlock, desired.memlock, RESTART))
    return changes


@dataclass(frozen=True)
class _Start:
    """Operation: start a stopped containerd, which disturbs nothing, also where a restart has to wait for the rolling playbook.

    must: failing is an error; otherwise the restart that follows says what is wrong and rolls back.
    """

    must: bool

    def perform(self, host: Host) -> None:
        result = host.run(["systemctl", "start", SERVICE], timeout_seconds=120)
        if self.must and not result.ok:
            raise BedplateError(f"service {SERVICE}: cannot be started: {result.err.strip()}. Next: journalctl -u {SERVICE}")


def _restarted(host: Host) -> Optional[str]:
    """Restart containerd and wait for CRI; returns what failed, or None."""
    try:
        restart_service(host, SERVICE)
    except BedplateError as error:
        return str(error)
    if rollback.wait_until(lambda: cri_status(host) != "no answer", CRI_TIMEOUT_SECONDS) and cri_status(host) == CRI_OK:
        return None
    journal = host.run(["journalctl", "-u", SERVICE, "-n", "300", "--no-pager", "-o", "cat"]).out
    lines = journal.rpartition("starting containerd")[2].splitlines()  # since the last start
    reasons = [line for line in lines if "failed to load plugin" in line or "level=fatal" in line]
    tail = "\n".join(reasons[:2] or lines[-5:])  # the first is the cause, the others depend on it
    return f"CRI of containerd: found {cri_status(host)} within {CRI_TIMEOUT_SECONDS} s of a restart; wanted {CRI_OK}.\n{tail}"


def _put_back(paths: list[str]) -> str:
    return f"Put back: {', '.join(paths)}" if paths else "Nothing had to be put back"
