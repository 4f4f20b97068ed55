# SPDX-License-Identifier: Apache-2.0
"""Hosts in containers: boot, wait for SSH, reboot, remove."""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bedplate_lab import labels, paths, ssh
from bedplate_lab.errors import LabError
from bedplate_lab.podman import Podman
from bedplate_lab.report import Report
from bedplate_lab.run import CommandError
from bedplate_lab.topology import DEPOT_ADDRESS, DEPOT_NAME, GATEWAY, NETWORK, Host

BOOT_SECONDS = 90
STOP_SECONDS = 10
"""What a host has to shut down before it is cut off, like one whose power button is held."""
BOOT_SCRIPT = Path(__file__).with_name("boot.sh")
KEY_LABEL = "bedplate.key"
MOST_LIMIT = 1048576
PID_MAX = Path("/proc/sys/kernel/pid_max")


def limit(kind: int) -> str:
    """`soft:hard` for podman's --ulimit: what this process may have itself, for a machine may refuse to raise it.

    `kind` is one of resource's RLIMIT constants. Podman lowers its own number of processes to the kernel's bound.
    """
    hard = resource.getrlimit(kind)[1]
    most = min(MOST_LIMIT, int(PID_MAX.read_text())) if kind == resource.RLIMIT_NPROC else MOST_LIMIT
    value = most if hard == resource.RLIM_INFINITY else min(hard, most)
    return f"{value}:{value}"


def fingerprint(public_key: str) -> str:
    """Short name of a public key, kept as a label: a host knows one key for life."""
    return hashlib.sha256(public_key.encode()).hexdigest()[:12]


def run_arguments(host: Host, image: str, public_key: str) -> list[str]:
    """podman's arguments that boot a host."""
    flags = ["rw", "exec", "nosuid", "nodev"]
    return [
        *("--runtime", "runc", "run", "--detach", "--name", host.container, "--hostname", host.name),
        *labels.arguments(),
        *("--label", f"{KEY_LABEL}={fingerprint(public_key)}"),
        *("--network", NETWORK, "--ip", host.address, "--mac-address", host.mac),
        # systemd as the first process needs these three; runc, because crun refuses the hybrid cgroup layout.
        *("--privileged", "--systemd=always", "--cgroupns=private"),
        *("--ulimit", f"nofile={limit(resource.RLIMIT_NOFILE)}", "--ulimit", f"nproc={limit(resource.RLIMIT_NPROC)}"),
        "--pids-limit=-1",
        *("--tmpfs", ",".join([f"/tmp:{flags[0]}", *flags[1:], "mode=1777"])),
        *("--tmpfs", ",".join([f"/run:{flags[0]}", *flags[1:], "mode=0755"])),
        *("--volume", f"{host.volume}:/var:exec,suid,dev"),
        # Both files are the host's own, as on a machine; boot.sh writes their first content.
        *("--no-hosts", "--dns=none"),
        *("--log-driver", "k8s-file", "--stop-signal", "SIGRTMIN+3"),
        image,
        *("/bin/sh", "-c", BOOT_SCRIPT.read_text(), "boot"),
        *(host.name, host.address, GATEWAY, public_key, f"{DEPOT_ADDRESS} {DEPOT_NAME}"),
    ]


def ensure(podman: Podman, hosts: Sequence[Host], image: str, public_key: str, report: Report) -> list[str]:
    """Make every host run and answer on SSH, side by side; names of those that had to be made or started.

    A host that runs is left alone; one that is switched off is started; one that cannot be started, or that knows
    another key, is replaced by a fresh one. Raises LabError naming each host that did not come up.
    """
    foreign = podman.foreign()
    for host in hosts:
        if host.container in foreign:
            raise LabError(
                f"container {host.container}: found one of another lab ({foreign[host.container]}), wanted none; "
                "one machine runs one lab: run scripts/lab down there first"
            )
    changed: list[str] = []

    def bring_up(host: Host) -> None:
        # Runs side by side may want the same host.
        with paths.lock(f"lab-host-{host.name}"):
            if _start(podman, host, image, public_key, report):
                changed.append(host.name)
        ready(podman, host)

    _side_by_side(hosts, bring_up)
    return sorted(changed)


def _start(podman: Podman, host: Host, image: str, public_key: str, report: Report) -> bool:
    """Make a host run, by the least it takes; False when it ran already."""
    container = podman.containers().get(host.container)
    if container is not None and container.labels.get(KEY_LABEL) != fingerprint(public_key):
        report(f"{host.name}: replace a host of an earlier lab, which knows another key")
    elif container is not None and container.running:
        return False
    elif container is not None and container.state in ("exited", "stopped"):
        report(f"{host.name}: switch it on")
        if podman("start", host.container, check=False).returncode == 0:
            return True
        report(f"{host.name}: replace it, it does not start any more")
    elif container is not None:
        report(f"{host.name}: replace what an earlier run left ({container.state})")
    create(podman, host, image, public_key)
    return True


def create(podman: Podman, host: Host, image: str, public_key: str) -> None:
    """Boot a fresh host, in the place of whatever has its name. Raises CommandError."""
    podman.remove_container(host.container)
    podman.create_volume(host.volume)
    ssh.forget(host.address)
    try:
        podman(*run_arguments(host, image, public_key))
    except CommandError as error:
        raise LabError(
            f"host {host.name}: podman could not boot it (exit code {error.code}): {error.output.strip()}\n"
            "  next: run the same command again; if it stays, scripts/lab down and up"
        ) from error


def ready(podman: Podman, host: Host) -> None:
    """Wait until a host answers on SSH. Raises LabError with the end of its console."""
    try:
        ssh.wait(host.address, BOOT_SECONDS, lambda: _runs(podman, host))
    except LabError as error:
        console = podman("logs", "--tail", "15", host.container, check=False)
        lines = "\n".join(f"    {line}" for line in (console.stdout + console.stderr).strip().splitlines())
        raise LabError(
            f"host {host.name} ({host.address}): {error}; its console ends with:\n{lines or '    (nothing)'}\n"
            f"  next: scripts/lab host reboot {host.name}, or scripts/lab down and up again"
        ) from error


def reboot(podman: Podman, hosts: Sequence[Host]) -> None:
    """Shut hosts down, start them again and wait for SSH. Raises LabError."""

    def restart(host: Host) -> None:
        ssh.close(host.address)
        podman("restart", "--time", str(STOP_SECONDS), host.container)
        ready(podman, host)

    _side_by_side(hosts, restart)


def remove(podman: Podman, hosts: Sequence[Host]) -> None:
    """Remove hosts with all they hold; those that are gone are fine. Raises CommandError."""

    def drop(host: Host) -> None:
        podman.remove_container(host.container)
        podman.remove_volume(host.volume)
        ssh.forget(host.address)

    _side_by_side(hosts, drop)


def _runs(podman: Podman, host: Host) -> bool:
    container = podman.containers().get(host.container)
    return container is not None and container.running


def _side_by_side(hosts: Sequence[Host], work: Callable[[Host], object]) -> None:
    if not hosts:
        return
    failures: list[str] = []
    with ThreadPoolExecutor(max_workers=8) as pool:
        tasks = [(host, pool.submit(work, host)) for host in hosts]
        for host, task in tasks:
            try:
                task.result()
            except CommandError as error:
                failures.append(f"host {host.name} ({host.address}): {error}")
            except LabError as error:
                failures.append(str(error))
    if failures:
        raise LabError("\n".join(failures))
