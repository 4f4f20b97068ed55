# SPDX-License-Identifier: Apache-2.0
"""Kubelet and kubeadm on a host, up to the point where kubeadm can init or join: packages, drop-ins, flags, endpoint's name."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional

from . import endpoint_probe, rollback
from . import kubelet_config as config
from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import DRAIN, RESTART_KUBELET, Change, Component, Operation, Plan
from .errors import BedplateError
from .host import Host
from .hosts_file import HOSTS, RESOLV_CONF, UPSTREAM_RESOLV_CONF, choose_resolv_conf, contradictions, with_entry
from .kubeadm import API_PORT, CRI_SOCKET, KUBELET_CONF, KUBELET_CONFIG
from .operations import RemoveFile, RunCommand, WriteFile, file_change
from .packages import PackageState, observe_packages, package_problems, plan_packages
from .rollback import GuardedFile
from .service_dropin import has_credentials, proxy_environment, render_dropin

NAME = "kubelet"
FLAGS = "/etc/default/kubelet"
"""Read by the unit kubeadm's package installs (10-kubeadm.conf: EnvironmentFile=-/etc/default/kubelet)."""
CRICTL = "/etc/crictl.yaml"
UNIT_DROPIN = "/etc/systemd/system/kubelet.service.d/50-bedplate.conf"
RUNTIME_SERVICE = "containerd.service"
HEALTH_PORT = 10248
"""KubeletConfiguration.healthzPort's default."""
HEALTH_TIMEOUT_SECONDS = 60
_PROBE = (
    "import sys, urllib.request as r; sys.exit(r.build_opener(r.ProxyHandler({})).open(sys.argv[1], timeout=5).status != 200)"
)


@dataclass(frozen=True)
class Desired:
    """What is wanted.

    packages: name to exact version (or None), held. extra_packages: installed, neither exact nor held. endpoint_address: None
    when DNS answers for the name. dropins: file name to KubeletConfiguration fields.
    """

    packages: Mapping[str, Optional[str]]
    node_ip: str
    endpoint_name: str
    endpoint_address: Optional[str] = None
    endpoint_port: int = API_PORT
    dropins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    extra_args: Mapping[str, str] = field(default_factory=dict)
    extra_packages: tuple[str, ...] = ()
    proxy: Mapping[str, Any] = field(default_factory=dict)
    runtime_endpoint: str = CRI_SOCKET
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS

    def flags(self) -> str:
        """Return the text of /etc/default/kubelet."""
        arguments = {"config-dir": config.DIRECTORY, "node-ip": self.node_ip, **self.extra_args}
        line = " ".join(f"--{name}={value}" for name, value in sorted(arguments.items()))
        return f'# Written by bedplate.metal.kubelet; changes here are overwritten.\nKUBELET_EXTRA_ARGS="{line}"\n'

    def crictl(self) -> str:
        """Return the text of /etc/crictl.yaml."""
        return f"runtime-endpoint: {self.runtime_endpoint}\nimage-endpoint: {self.runtime_endpoint}\ntimeout: 10\ndebug: false\n"

    def unit_dropin(self) -> str:
        """Return the service's drop-in.

        At boot kubelet ends when it finds no runtime, and systemd tries again only ten seconds later: it starts after it.
        """
        return render_dropin("bedplate.metal.kubelet", proxy_environment(self.proxy), {}, after=RUNTIME_SERVICE)


@dataclass(frozen=True)
class Observed:
    """What is there.

    files: text of each single file this component owns or reads, None where there is none. dropins: texts by path. states: texts
    of the resource managers' state files. joined: kubelet has a configuration and a kubeconfig, so a restart means something.
    stale_unit: systemd has not loaded kubelet's newest unit files. wrong_endpoint: what answers instead of this cluster's API
    at the endpoint's new address, asked only on a member whose entry would change.
    """

    packages: Mapping[str, PackageState]
    files: Mapping[str, Optional[str]]
    dropins: Mapping[str, str]
    states: Mapping[str, Optional[str]]
    joined: bool
    enabled: bool
    stale_unit: bool
    wrong_endpoint: Optional[str] = None


@dataclass(frozen=True)
class ForgetState:
    """Operation: stop kubelet (running, it would write the file again) and remove a manager's state; the restart follows."""

    path: str

    def perform(self, host: Host) -> None:
        """Stop and remove."""
        RunCommand(("systemctl", "stop", "kubelet"), "stop kubelet").perform(host)
        host.remove(self.path)


@dataclass(frozen=True)
class WriteUnit:
    """Operation: write the unit's drop-in and have systemd load it."""

    file: Operation

    def perform(self, host: Host) -> None:
        """Write and reload."""
        self.file.perform(host)
        RunCommand(("systemctl", "daemon-reload"), "load kubelet's unit").perform(host)


class Kubelet(Component[Desired, Observed]):
    """See the module's docstring."""

    name: ClassVar[str] = NAME

    def observe(self, host: Host, desired: Desired) -> Observed:
        """Look at packages, files and the unit."""
        single = (FLAGS, HOSTS, RESOLV_CONF, UPSTREAM_RESOLV_CONF, CRICTL, UNIT_DROPIN, KUBELET_CONFIG)
        files = {path: host.read(path) for path in single}
        texts = {path: host.read(path) for path in host.glob(f"{config.DIRECTORY}/*.conf")}
        shown = host.run(["systemctl", "show", "kubelet", "-p", "UnitFileState", "-p", "NeedDaemonReload"]).out
        return Observed(
            packages=observe_packages(host, [*desired.packages, *desired.extra_packages]),
            files=files,
            dropins={path: text for path, text in texts.items() if text is not None},
            states={manager.state: host.read(manager.state) for manager in config.MANAGERS},
            joined=files[KUBELET_CONFIG] is not None and host.exists(KUBELET_CONF),
            enabled="UnitFileState=enabled" in shown,
            stale_unit="NeedDaemonReload=yes" in shown,
            wrong_endpoint=_wrong_endpoint(host, files[HOSTS] or "", desired),
        )

    def plan(self, observed: Observed, desired: Desired) -> Plan:
        """Compare. Before the host has joined, nothing has an effect: kubeadm starts kubelet."""
        restart = frozenset({RESTART_KUBELET}) if observed.joined else frozenset[str]()
        drain = restart | {DRAIN} if observed.joined else restart
        problems = package_problems(observed.packages, desired.packages)
        wait = desired.lock_timeout_seconds
        changes = plan_packages(observed.packages, desired.packages, True, drain, lock_timeout_seconds=wait)
        changes += plan_packages(observed.packages, dict.fromkeys(desired.extra_packages), lock_timeout_seconds=wait)

        hosts = observed.files[HOSTS] or ""
        problems += contradictions(hosts, desired.endpoint_name, desired.endpoint_address)
        wanted_hosts = with_entry(hosts, desired.endpoint_name, desired.endpoint_address)
        if observed.wrong_endpoint is not None:
            problems.append(endpoint_probe.problem(desired.endpoint_name, desired.endpoint_port, observed.wrong_endpoint))
        changes += file_change(HOSTS, observed.files[HOSTS], wanted_hosts) if hosts or wanted_hosts else []
        changes += file_change(CRICTL, observed.files[CRICTL], desired.crictl())

        resolv_conf, warnings = choose_resolv_conf(observed.files[RESOLV_CONF], observed.files[UPSTREAM_RESOLV_CONF])
        fragments = {config.HOST_DROPIN: {"resolvConf": resolv_conf} if resolv_conf else {}, **desired.dropins}
        own = any("resolvConf" in fragment for fragment in desired.dropins.values())
        problems += [] if own else warnings
        changes += _dropin_changes(observed, fragments, restart, drain)

        if observed.files[FLAGS] != desired.flags():
            operation = _write(FLAGS, desired.flags(), observed.joined)
            changes.append(Change(f"file {FLAGS}", observed.files[FLAGS], desired.flags(), restart, operation))
        changes += _unit_changes(observed, desired, drain)
        return Plan(changes, problems)

    def effect(self, host: Host, effect: str, desired: Desired) -> None:
        """Restart kubelet and wait for its health; put the old files back when it does not come up.

        There is no daemon-reload here: on a node in service it can take GPUs away from running containers.
        """
        if effect != RESTART_KUBELET:
            super().effect(host, effect, desired)
            return
        text = host.read(KUBELET_CONFIG)
        if text is None or not host.exists(KUBELET_CONF):
            return
        merged = config.merge(desired.dropins[name] for name in sorted(desired.dropins))
        match = re.search(r"^healthzPort:\s*(\d+)", text, re.MULTILINE)
        port = int(merged.get("healthzPort", match.group(1) if match else HEALTH_PORT) or 0)
        if _restarted(host, port):
            rollback.discard(host, NAME)
            return
        journal = host.run(["journalctl", "-u", "kubelet", "-n", "15", "--no-pager", "-o", "cat"]).out.strip()
        restored = rollback.restore(host, NAME)
        rollback.nothing_owed(host, NAME, effect)
        if UNIT_DROPIN in restored:
            host.run(["systemctl", "daemon-reload"])
        put_back = f"Put back: {', '.join(restored)}" if restored else "Nothing had to be put back"
        again = bool(restored) and _restarted(host, port)
        raise BedplateError(
            f"service kubelet: found no health on port {port} after a restart; wanted it within {HEALTH_TIMEOUT_SECONDS} s.\n"
            f"last journal lines:\n{journal}\n{put_back}; kubelet {'is healthy again' if again else 'is still not healthy'}. "
            "Next: correct what the journal names, then run this again"
        )


def _wrong_endpoint(host: Host, hosts: str, desired: Desired) -> Optional[str]:
    name, address = desired.endpoint_name, desired.endpoint_address
    if with_entry(hosts, name, address) == hosts or not endpoint_probe.is_member(host):
        return None
    return endpoint_probe.wrong_answer(host, name, address, desired.endpoint_port)


def _restarted(host: Host, port: int) -> bool:
    if not host.run(["systemctl", "restart", "kubelet"], timeout_seconds=120).ok:
        return False
    if port == 0:  # the health endpoint is switched off
        return host.run(["systemctl", "is-active", "kubelet"]).out.strip() == "active"
    probe = [sys.executable or "python3", "-c", _PROBE, f"http://127.0.0.1:{port}/healthz"]
    most = _automatic_restarts(host) + 1  # it may need one more start; after that, waiting on will not help
    rollback.wait_until(
        lambda: host.run(probe, timeout_seconds=10).ok or _automatic_restarts(host) > most, HEALTH_TIMEOUT_SECONDS
    )
    return host.run(probe, timeout_seconds=10).ok


def _automatic_restarts(host: Host) -> int:
    """Return how often systemd has started kubelet again by itself."""
    match = re.search(r"NRestarts=(\d+)", host.run(["systemctl", "show", "kubelet", "-p", "NRestarts"]).out)
    return int(match.group(1)) if match else 0


def _write(path: str, text: Optional[str], guarded: bool, mode: int = 0o644) -> Operation:
    """Return the operation for a file: guarded by a rollback where a restart proves it, plain otherwise."""
    if guarded:
        return GuardedFile(NAME, path, text, mode)
    return RemoveFile(path) if text is None else WriteFile(path, text, mode)


def _dropin_changes(
    observed: Observed, fragments: Mapping[str, Mapping[str, Any]], restart: frozenset[str], drain: frozenset[str]
) -> list[Change]:
    """Plan the drop-ins, and before them the state files that kubelet would refuse with the new settings."""
    base = config.base_policies(observed.files[KUBELET_CONFIG])
    ours = {
        path: fragment for path, fragment in ((p, config.parse(t)) for p, t in observed.dropins.items()) if fragment is not None
    }
    wanted = {f"{config.DIRECTORY}/{name}": fragment for name, fragment in fragments.items()}
    old = config.merge([base, *(ours[path] for path in sorted(ours))])
    new = config.merge([base, *(wanted[path] for path in sorted(wanted))])
    changes = [
        Change(f"state of the {m.name}", observed.states[m.state], None, drain, ForgetState(m.state))
        for m in (config.invalid_managers(old, new, observed.states) if observed.joined else ())
    ]
    disturbing = config.needs_drain(old, new)
    for path in sorted({*wanted, *ours}):
        text = config.render(wanted[path]) if path in wanted else None
        found = observed.dropins.get(path)
        if found == text:
            continue
        touches = config.touches_placement(ours.get(path, {}), wanted.get(path, {}))
        effects = drain if disturbing and touches else restart
        changes.append(Change(f"file {path}", found, text, effects, _write(path, text, observed.joined)))
    return changes


def _unit_changes(observed: Observed, desired: Desired, drain: frozenset[str]) -> list[Change]:
    changes = []
    text, found = desired.unit_dropin(), observed.files[UNIT_DROPIN]
    if found != text:
        secret = has_credentials(text) or has_credentials(found)
        operation: Operation = WriteUnit(_write(UNIT_DROPIN, text, observed.joined, 0o600 if secret else 0o644))
        changes.append(Change(f"file {UNIT_DROPIN}", found, text, drain, operation, secret=secret))
    elif observed.stale_unit:
        operation = RunCommand(("systemctl", "daemon-reload"), "load kubelet's unit")
        changes.append(Change("unit files of kubelet", "newer than what systemd has loaded", "loaded", drain, operation))
    if not observed.enabled:
        operation = RunCommand(("systemctl", "enable", "--no-reload", "kubelet"), "enable kubelet")
        changes.append(Change("service kubelet enabled", False, True, operation=operation))
    return changes
