# SPDX-License-Identifier: Apache-2.0
"""What running hosts change on the machine itself, remembered before the first boot and put back by `down`.

Privileged hosts share the machine's kernel: their systemd, their kubelet and the kernel role set sysctls that exist once.
Podman leaves empty firewall chains, empty cgroups and a mount behind when its last container goes.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bedplate_lab.run import run

SYSCTL = Path("/proc/sys")
SHARED = ("fs", "kernel", "vm")
"""Trees under /proc/sys that are, but for a few keys, the same for every container."""
VOLATILE = ("kernel/ns_last_pid", "kernel/random/", "kernel/keys/gc_delay", "fs/binfmt_misc/", "kernel/sched_domain/")
ALSO = ("net/ipv4/ip_forward",)
"""Podman switches it on for its bridge."""

RAISED = {"fs/inotify/max_user_instances": 8192, "fs/inotify/max_user_watches": 524288}
"""Least values the lab sets itself: every host runs systemd, kubelet and containerd, all under one user."""
MODULES = ("br_netfilter", "overlay")
"""Kernel modules that nothing loads by itself when hosts, which have no modules of their own, need them."""
CGROUPS = Path("/sys/fs/cgroup")
NETNS = "/run/netns"


def snapshot(root: Path = SYSCTL) -> dict[str, Any]:
    """The machine as it is now, for `restore`."""
    return {
        "boot": boot_id(),
        "sysctl": sysctls(root),
        "netns_mounted": _is_mounted(NETNS),
        "chains": "NETAVARK" in _iptables_save("filter") + _iptables_save("nat"),
        "modules_absent": [name for name in MODULES if not _loaded(name)],
        "cgroups": [str(path) for path in _podman_cgroups()],
    }


def boot_id() -> str:
    """Which boot of the machine this is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def sysctls(root: Path = SYSCTL) -> dict[str, str]:
    """Every sysctl that can be read and written, by path below /proc/sys."""
    found = {}
    for name in _names(root):
        try:
            found[name] = (root / name).read_text().rstrip("\n")
        except (OSError, UnicodeDecodeError):
            continue
    return found


def raise_limits(root: Path = SYSCTL) -> list[str]:
    """Raise the machine's limits to what the hosts need together; `name: before → after` for each one raised."""
    changed = []
    for name, least in RAISED.items():
        before = int((root / name).read_text())
        if before < least:
            (root / name).write_text(f"{least}\n")
            changed.append(f"{name.replace('/', '.')}: {before} → {least}")
    return changed


def load_modules(before: dict[str, Any]) -> list[str]:
    """Load the modules a machine with loadable ones lacks; a line for each one loaded, or that could not be.

    A module that is built in may show nowhere; where modprobe finds none, preflight checks on the hosts what counts.
    """
    lines = []
    for name in before.get("modules_absent", []):
        if _loaded(name) or not _has_loadable_modules():
            continue
        result = run(["modprobe", name], check=False)
        lines.append(f"module {name}: {'loaded' if result.returncode == 0 else result.stderr.strip()}")
    return lines


def restore(before: dict[str, Any], others: bool, root: Path = SYSCTL) -> list[str]:
    """Put back what differs from the snapshot; a line for each thing put back, or that could not be.

    `others` says that containers besides the lab's run: then forwarding and podman's own traces stay. After a boot of the
    machine there is nothing to put back.
    """
    if not before or before.get("boot") != boot_id():
        return []
    lines = []
    for name, value in sorted(before.get("sysctl", {}).items()):
        if others and name in ALSO:
            continue
        path = root / name
        try:
            now = path.read_text().rstrip("\n")
            if now != value:
                path.write_text(value + "\n")
                lines.append(f"{name.replace('/', '.')}: {now} → {value}")
        except OSError as error:
            lines.append(f"{name.replace('/', '.')}: could not be put back to {value}: {error.strerror}")
    if not others:
        lines += _remove_podman_traces(before)
    return lines


def _remove_podman_traces(before: dict[str, Any]) -> list[str]:
    lines = []
    for name in before.get("modules_absent", []):
        if _loaded(name) and run(["modprobe", "--remove", name], check=False).returncode == 0:
            lines.append(f"module {name}: unloaded")
    if not before.get("chains") and remove_chains():
        lines.append("podman's empty firewall chains: removed")
    known = set(before.get("cgroups", []))
    for directory in _podman_cgroups():
        if str(directory) not in known:
            try:
                directory.rmdir()
            except OSError:
                continue
    if not before.get("netns_mounted") and _is_mounted(NETNS) and not any(Path(NETNS).iterdir()):
        run(["umount", NETNS], check=False)
        Path(NETNS).rmdir()
    return lines


def remove_chains() -> bool:
    """Remove netavark's chains if none of them serves a network any more."""
    removed = False
    saved = {table: _iptables_save(table).splitlines() for table in ("nat", "filter")}
    rules = [line for lines in saved.values() for line in lines if line.startswith("-A ")]
    if any(line.startswith(("-A NETAVARK_FORWARD ", "-A NETAVARK-HOSTPORT-DNAT ")) for line in rules):
        return False
    for table, lines in saved.items():
        for line in lines:
            if line.startswith("-A ") and "NETAVARK" in line:
                run(["iptables", "--wait", "--table", table, "--delete", *shlex.split(line)[1:]], check=False)
                removed = True
        for line in lines:
            if line.startswith(":NETAVARK"):
                run(["iptables", "--wait", "--table", table, "--delete-chain", line[1:].split()[0]], check=False)
                removed = True
    return removed


def _iptables_save(table: str) -> str:
    return run(["iptables-save", "--table", table], check=False).stdout


def _is_mounted(target: str) -> bool:
    return any(line.split()[4] == target for line in Path("/proc/self/mountinfo").read_text().splitlines())


def _has_loadable_modules() -> bool:
    return Path("/lib/modules", os.uname().release).is_dir()


def _loaded(module: str) -> bool:
    return Path("/sys/module", module).exists()


def _podman_cgroups() -> list[Path]:
    """The cgroups podman's cgroupfs manager makes, deepest first; a host that was killed leaves its own behind."""
    found: list[Path] = []
    for parent in (*CGROUPS.glob("libpod_parent"), *CGROUPS.glob("*/libpod_parent")):
        found += [Path(directory) for directory, _, _ in os.walk(parent, topdown=False)]
    return found


def _names(root: Path) -> Iterable[str]:
    for tree in SHARED:
        for directory, _, files in os.walk(root / tree):
            for file in files:
                path = Path(directory, file)
                name = str(path.relative_to(root))
                if not name.startswith(VOLATILE) and _writable(path):
                    yield name
    yield from (name for name in ALSO if (root / name).exists())


def _writable(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IWUSR) and bool(mode & stat.S_IRUSR)
