# SPDX-License-Identifier: Apache-2.0
"""The operating system below Kubernetes: the kernel and how it boots, modules, sysctls, swap, limits, clock, held-back upgrades.

Its subjects are the files kernel_*.py beside this one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import Change, Component, Plan, Problem, restart_service
from .fstab import FSTAB, swap_devices, without_swap
from .host import Host
from .kernel_blacklist import Blacklist, observe_blacklist, plan_blacklist
from .kernel_command_line import CommandLine, observe_command_line, plan_command_line
from .kernel_image import Image, ImageDesired, next_headers, observe_image, plan_image, wanted_image_packages
from .kernel_reboot import observe_required, plan_required
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
from .kernel_time import PACKAGE as CHRONY
from .kernel_time import Clock, observe_clock, plan_clock
from .kernel_tuning import ACS_PACKAGE, Tuning, TuningDesired, observe_tuning, plan_tuning
from .operations import RemoveFile, RunCommand, WriteFile, file_change
from .packages import PackageState, observe_packages, plan_packages
from .preflight_facts import parse_memory

MODULES_FILE = "/etc/modules-load.d/90-bedplate.conf"
SYSCTL_FILE = "/etc/sysctl.d/99-zz-bedplate.conf"
"""Sorted after 99-sysctl.conf, so that a forgotten line of /etc/sysctl.conf does not win at boot."""
LIMITS_FILE = "/etc/security/limits.d/90-bedplate.conf"
UNATTENDED_FILE = "/etc/apt/apt.conf.d/90bedplate-unattended"
NEEDRESTART_FILE = "/etc/needrestart/conf.d/90-bedplate.conf"
JOURNAL_FILE = "/etc/systemd/journald.conf.d/90-bedplate.conf"
OUR_FILES = (MODULES_FILE, SYSCTL_FILE, LIMITS_FILE, UNATTENDED_FILE, NEEDRESTART_FILE, JOURNAL_FILE)
HEADER = "# Written by Bedplate; changes are overwritten.\n"


@dataclass(frozen=True)
class KernelDesired:
    """modules to load now and at boot; sysctl key to value; swap ``off`` or ``keep``; limits item to value (limits.conf(5));
    hold_unattended: package name patterns that automatic upgrades and automatic restarts leave alone; packages to have installed;
    command_line: parameters; blacklist: modules kept away; time_servers: of chrony, () leaves the clock to others;
    journal_max_size: of journald.conf(5), "" leaves it.
    """

    modules: tuple[str, ...] = ()
    sysctl: Mapping[str, str] = field(default_factory=dict)
    swap: str = "off"
    limits: Mapping[str, str] = field(default_factory=dict)
    hold_unattended: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    image: ImageDesired = field(default_factory=ImageDesired)
    command_line: tuple[str, ...] = ()
    blacklist: tuple[str, ...] = ()
    tuning: TuningDesired = field(default_factory=TuningDesired)
    time_servers: tuple[str, ...] = ()
    journal_max_size: str = ""
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS

    @property
    def all_packages(self) -> tuple[str, ...]:
        """Return the packages wanted in whatever version."""
        own = [*([CHRONY] if self.time_servers else []), *([ACS_PACKAGE] if self.tuning.acs_off else [])]
        return tuple(dict.fromkeys([*self.packages, *own]))


@dataclass(frozen=True)
class KernelObserved:
    """What is there now. modprobe: whether kmod is installed; sysctl: current values, None for an absent key; required: packages
    that ask for a reboot, None for none.
    """

    files: Mapping[str, str]
    loaded: frozenset[str] = frozenset()
    modprobe: bool = True
    sysctl: Mapping[str, str | None] = field(default_factory=dict)
    swaps: tuple[Swap, ...] = ()
    fstab: str | None = None
    swap_sources: SwapSources = field(default_factory=SwapSources)
    available_bytes: int = 0
    packages: Mapping[str, PackageState] = field(default_factory=dict)
    image: Image = field(default_factory=Image)
    command_line: CommandLine = field(default_factory=CommandLine)
    blacklist: Blacklist = field(default_factory=Blacklist)
    tuning: Tuning = field(default_factory=Tuning)
    clock: Clock = field(default_factory=Clock)
    required: str | None = None


class Kernel(Component[KernelDesired, KernelObserved]):
    """What applies at once disturbs no pod; what a boot decides is applied only where a reboot is allowed."""

    name: ClassVar[str] = "kernel"

    def observe(self, host: Host, desired: KernelDesired) -> KernelObserved:
        """Read files under /etc, /proc, /sys and /boot; a dpkg-query or two where packages are wanted."""
        release = (host.read("/proc/sys/kernel/osrelease") or "").strip()
        builtin = host.read(f"/lib/modules/{release}/modules.builtin") or ""
        values = {key: host.read(sysctl_path(key)) for key in desired.sysctl}
        image = observe_image(host, desired.image)
        headers = next_headers(image, desired.image)
        packages = [*desired.all_packages, *wanted_image_packages(image, desired.image), *([headers] if headers else [])]
        return KernelObserved(
            files={p: t for p in OUR_FILES if (t := host.read(p)) is not None},
            loaded=frozenset(m for m in desired.modules if module_loaded(host, m, builtin)),
            modprobe=host.exists("/usr/sbin/modprobe") or host.exists("/sbin/modprobe"),
            sysctl={key: None if value is None else normal(value) for key, value in values.items()},
            swaps=parse_swaps(host.read("/proc/swaps") or ""),
            fstab=host.read(FSTAB),
            swap_sources=observe_swap_sources(host),
            available_bytes=parse_memory(host.read("/proc/meminfo") or "", "MemAvailable"),
            packages=observe_packages(host, packages),
            image=image,
            command_line=observe_command_line(host),
            blacklist=observe_blacklist(host, desired.blacklist),
            tuning=observe_tuning(host, desired.tuning),
            clock=observe_clock(host, desired.time_servers),
            required=observe_required(host),
        )

    def plan(self, observed: KernelObserved, desired: KernelDesired) -> Plan:
        """Packages first (they may bring modprobe), then modules, what makes them last, sysctls that need them, swap, the rest of
        what applies at once, and last what the next boot decides.
        """
        changes = plan_packages(
            observed.packages, dict.fromkeys(desired.all_packages), lock_timeout_seconds=desired.lock_timeout_seconds
        )
        installing = {c.what.removeprefix("package ") for c in changes}
        modules, problems = plan_modules(observed, desired)
        changes += modules
        changes += plan_files(observed, desired)
        changes += plan_sysctl(observed, desired)
        parts = [
            plan_swap(observed) if desired.swap == "off" else ([], []),
            plan_tuning(observed.tuning, desired.tuning, ACS_PACKAGE in installing),
            (plan_clock(observed.clock, desired.time_servers, CHRONY in installing), []),
            plan_image(observed.image, observed.packages, desired.image),
            plan_blacklist(observed.blacklist, desired.blacklist),
            plan_command_line(observed.command_line, desired.command_line),
            (plan_required(observed.required), []),
        ]
        for part, found in parts:
            changes += part
            problems += found
        return Plan(changes, problems)

    def effect(self, host: Host, effect: str, desired: KernelDesired) -> None:
        """Restart a service without reading units again: nothing here makes one that runs."""
        restart_service(host, effect.partition(":")[2], reload=False)


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
    if desired.journal_max_size:
        files[JOURNAL_FILE] = f"{HEADER}[Journal]\nSystemMaxUse={desired.journal_max_size}\n"
    return files


def plan_files(observed: KernelObserved, desired: KernelDesired) -> list[Change]:
    """Write what is wanted, remove our files that are not."""
    wanted = wanted_files(desired)
    effects = {JOURNAL_FILE: frozenset({"restart:systemd-journald"})}
    changes = [
        change
        for path, text in wanted.items()
        for change in file_change(path, observed.files.get(path), text, effects=effects.get(path, frozenset()))
    ]
    gone = [p for p in observed.files if p not in wanted]
    removed = [Change(f"file {p}", observed.files[p], None, effects.get(p, frozenset()), RemoveFile(p)) for p in gone]
    return changes + removed


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
