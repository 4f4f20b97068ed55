# SPDX-License-Identifier: Apache-2.0
"""The operating system below Kubernetes: base packages, kernel modules, sysctls, swap, limits, held-back automatic upgrades."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import Change, Component, Plan, Problem
from .fstab import FSTAB, swap_devices, without_swap
from .host import Host
from .kernel_state import (
    ZRAM_CONFIGURATION,
    ZRAM_DISABLED,
    LoadModule,
    SetSysctl,
    Swap,
    SwapSources,
    module_loaded,
    normal,
    observe_swap_sources,
    parse_swaps,
    sysctl_path,
)
from .operations import RemoveFile, RunCommand, WriteFile, file_change
from .packages import PackageState, observe_packages, plan_packages
from .preflight_facts import parse_memory

MODULES_FILE = "/etc/modules-load.d/90-bedplate.conf"
SYSCTL_FILE = "/etc/sysctl.d/99-zz-bedplate.conf"
"""Sorted after 99-sysctl.conf, so that a forgotten line of /etc/sysctl.conf does not win at boot."""
LIMITS_FILE = "/etc/security/limits.d/90-bedplate.conf"
UNATTENDED_FILE = "/etc/apt/apt.conf.d/90bedplate-unattended"
NEEDRESTART_FILE = "/etc/needrestart/conf.d/90-bedplate.conf"
OUR_FILES = (MODULES_FILE, SYSCTL_FILE, LIMITS_FILE, UNATTENDED_FILE, NEEDRESTART_FILE)
HEADER = "# Written by Bedplate; changes are overwritten.\n"


@dataclass(frozen=True)
class KernelDesired:
    """modules to load now and at boot; sysctl key to value; swap ``off`` or ``keep``; limits item to value (limits.conf(5));
    hold_unattended: package name patterns that automatic upgrades and automatic restarts leave alone; packages to have installed.
    """

    modules: tuple[str, ...] = ()
    sysctl: Mapping[str, str] = field(default_factory=dict)
    swap: str = "off"
    limits: Mapping[str, str] = field(default_factory=dict)
    hold_unattended: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS


@dataclass(frozen=True)
class KernelObserved:
    """What is there now. modprobe: whether kmod is installed; sysctl: current values, None for an absent key."""

    files: Mapping[str, str]
    loaded: frozenset[str] = frozenset()
    modprobe: bool = True
    sysctl: Mapping[str, str | None] = field(default_factory=dict)
    swaps: tuple[Swap, ...] = ()
    fstab: str | None = None
    swap_sources: SwapSources = field(default_factory=SwapSources)
    available_bytes: int = 0
    packages: Mapping[str, PackageState] = field(default_factory=dict)


class Kernel(Component[KernelDesired, KernelObserved]):
    """Everything applies at once without disturbing a pod; nothing here needs a restart or reboot."""

    name: ClassVar[str] = "kernel"

    def observe(self, host: Host, desired: KernelDesired) -> KernelObserved:
        """Read files under /etc, /proc and /sys; one dpkg-query where packages are wanted."""
        release = (host.read("/proc/sys/kernel/osrelease") or "").strip()
        builtin = host.read(f"/lib/modules/{release}/modules.builtin") or ""
        values = {key: host.read(sysctl_path(key)) for key in desired.sysctl}
        return KernelObserved(
            files={p: t for p in OUR_FILES if (t := host.read(p)) is not None},
            loaded=frozenset(m for m in desired.modules if module_loaded(host, m, builtin)),
            modprobe=host.exists("/usr/sbin/modprobe") or host.exists("/sbin/modprobe"),
            sysctl={key: None if value is None else normal(value) for key, value in values.items()},
            swaps=parse_swaps(host.read("/proc/swaps") or ""),
            fstab=host.read(FSTAB),
            swap_sources=observe_swap_sources(host),
            available_bytes=parse_memory(host.read("/proc/meminfo") or "", "MemAvailable"),
            packages=observe_packages(host, desired.packages),
        )

    def plan(self, observed: KernelObserved, desired: KernelDesired) -> Plan:
        """Packages first (they may bring modprobe), then modules, what makes them last, sysctls that need them, swap."""
        changes = plan_packages(
            observed.packages, dict.fromkeys(desired.packages), lock_timeout_seconds=desired.lock_timeout_seconds
        )
        modules, problems = plan_modules(observed, desired)
        changes += modules
        changes += plan_files(observed, desired)
        changes += plan_sysctl(observed, desired)
        if desired.swap == "off":
            swap_changes, swap_problems = plan_swap(observed)
            changes += swap_changes
            problems += swap_problems
        return Plan(changes, problems)


def plan_modules(observed: KernelObserved, desired: KernelDesired) -> tuple[list[Change], list[Problem]]:
    """Load what is missing."""
    missing = [m for m in desired.modules if m not in observed.loaded]
    if missing and not observed.modprobe and "kmod" not in desired.packages:
        step = "install kmod (add it to kernel.packages), or take the module from kernel.modules if this kernel needs none"
        found = "neither loaded nor built in, and no modprobe on the host"
        return [], [Problem(f"kernel module {m}", found, "loaded", step) for m in missing]
    return [Change(f"module {m}", "not loaded", "loaded", operation=LoadModule(m)) for m in missing], []


def wanted_files(desired: KernelDesired) -> dict[str, str]:
    """Return the texts of the files that keep things so after a reboot."""
    files = {}
    if desired.modules:
        files[MODULES_FILE] = HEADER + "".join(f"{m}\n" for m in desired.modules)
    if desired.sysctl:
        files[SYSCTL_FILE] = HEADER + "".join(f"{k} = {v}\n" for k, v in sorted(desired.sysctl.items()))
    if desired.limits:
        # "*" does not cover root, see limits.conf(5)
        lines = [f"{who} - {item} {value}\n" for item, value in sorted(desired.limits.items()) for who in ("*", "root")]
        files[LIMITS_FILE] = HEADER + "".join(lines)
    if desired.hold_unattended:
        patterns = "".join(f'    "{p}";\n' for p in desired.hold_unattended)
        files[UNATTENDED_FILE] = f"// {HEADER[2:]}Unattended-Upgrade::Package-Blacklist {{\n{patterns}}};\n"
        overrides = "".join(f"$nrconf{{override_rc}}{{qr(^{p})}} = 0;\n" for p in desired.hold_unattended)
        files[NEEDRESTART_FILE] = HEADER + overrides
    return files


def plan_files(observed: KernelObserved, desired: KernelDesired) -> list[Change]:
    """Write what is wanted, remove our files that are not."""
    wanted = wanted_files(desired)
    changes = [c for path, text in wanted.items() for c in file_change(path, observed.files.get(path), text)]
    gone = [p for p in observed.files if p not in wanted]
    return changes + [Change(f"file {p}", observed.files[p], None, operation=RemoveFile(p)) for p in gone]


def plan_sysctl(observed: KernelObserved, desired: KernelDesired) -> list[Change]:
    """Set what differs now."""
    wanted = {key: normal(value) for key, value in desired.sysctl.items()}
    return [
        Change(f"sysctl {key}", observed.sysctl.get(key), value, operation=SetSysctl(key, value))
        for key, value in sorted(wanted.items())
        if observed.sysctl.get(key) != value
    ]


def plan_swap(observed: KernelObserved) -> tuple[list[Change], list[Problem]]:
    """Switch swap off now and at boot: first what would bring it back, then the areas themselves."""
    used = sum(s.used_bytes for s in observed.swaps)
    if used > observed.available_bytes:
        step = "stop or drain what uses the memory, then run this again"
        found = f"{used // 1024**2} MiB swapped out and {observed.available_bytes // 1024**2} MiB of memory available"
        return [], [Problem("swap", found, "room in memory for what is swapped out", step)]
    sources = observed.swap_sources
    changes = []
    if observed.fstab is not None and swap_devices(observed.fstab):
        text = without_swap(observed.fstab)
        changes.append(Change(f"file {FSTAB}", observed.fstab, text, operation=WriteFile(FSTAB, text)))
    # --no-reload: a daemon-reload takes GPUs away from running containers on some set-ups, and nothing here needs one
    for unit in (*sources.units, *sources.zram_services):
        command = RunCommand(("systemctl", "disable", "--no-reload", unit), f"disable {unit}")
        changes.append(Change(f"unit {unit}", "enabled", "disabled", operation=command))
    for unit in sources.discovered:
        command = RunCommand(("systemctl", "mask", "--no-reload", unit), f"mask {unit}")
        changes.append(Change(f"unit {unit}", "discovered", "masked", operation=command))
    if sources.zram_generator:
        write = WriteFile(ZRAM_CONFIGURATION, ZRAM_DISABLED)
        changes.append(Change(f"file {ZRAM_CONFIGURATION}", "generates swap", ZRAM_DISABLED, operation=write))
    for swap in observed.swaps:
        off = RunCommand(("swapoff", swap.path), f"switch swap off on {swap.path}", 600, "free memory, then run this again")
        changes.append(Change(f"swap {swap.path}", "on", "off", operation=off))
    return changes, []


def check_name(kind: str, name: str) -> None:
    """Raise ValueError for a name that could not be written into a configuration file safely."""
    if not re.fullmatch(r"[A-Za-z0-9_*?.:/+^$\[\]|-]+", name):
        raise ValueError(f"{kind} {name!r}: found characters it cannot have; wanted a plain name. Next: correct the site data")
