# SPDX-License-Identifier: Apache-2.0
"""Settings below /sys, made now and at boot: CPU governor, transparent hugepages, PCI access control services.

The first two are lines of tmpfiles.d(5). Access control services send traffic between GPUs and network cards through the CPU's
root complex; the kernel has no parameter against that. On bare metal NVIDIA documents setpci on every bridge, again at each boot
(NCCL User Guide, Troubleshooting, "PCI Access Control Services (ACS)").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from .core import DRAIN, UNKNOWN, Change, Problem
from .host import Host
from .operations import RemoveFile, RunCommand, file_change

TMPFILES = "/etc/tmpfiles.d/90-bedplate-kernel.conf"
GOVERNOR = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
GOVERNORS = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_available_governors"
HUGEPAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
ACS_SCRIPT = "/usr/local/lib/bedplate/disable-acs"
ACS_UNIT = "bedplate-disable-acs.service"
ACS_UNIT_FILE = f"/etc/systemd/system/{ACS_UNIT}"
ACS_WANTED = f"/etc/systemd/system/multi-user.target.wants/{ACS_UNIT}"
ACS_PACKAGE = "pciutils"
ACS_SCRIPT_TEXT = """\
#!/bin/sh
# Written by Bedplate; changes are overwritten. Switches PCI access control services off on every bridge that has them on;
# with --list it only names those bridges and their control register.
for device in /sys/bus/pci/devices/*; do
    read -r class <"$device/class" || continue
    case "$class" in 0x0604*) ;; *) continue ;; esac
    address=${device##*/}
    control=$(setpci -s "$address" ECAP_ACS+6.w 2>/dev/null) || continue
    case "$control" in '' | 0000) continue ;; esac
    if [ "${1-}" = --list ]; then echo "$address $control"; else setpci -s "$address" ECAP_ACS+6.w=0000; fi
done
exit 0
"""
ACS_UNIT_TEXT = f"""\
# Written by Bedplate; changes are overwritten.
[Unit]
Description=Switch PCI access control services off for GPUDirect
Before=kubelet.service containerd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={ACS_SCRIPT}

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class TuningDesired:
    """governor, hugepages: the value wanted, "" to leave it. acs_off: switch access control services off."""

    governor: str = ""
    hugepages: str = ""
    acs_off: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """Return what is wanted of /sys: files (a pattern) and the value written to each."""
        return {pattern: value for pattern, value in ((GOVERNOR, self.governor), (HUGEPAGES, self.hugepages)) if value}


@dataclass(frozen=True)
class Tuning:
    """files: texts of our files. values: of each pattern wanted, what its files say. governors: those the CPUs know. acs: the
    bridges that have access control services on, asked only where they are to be off. acs_enabled: our unit is started at boot.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)
    governors: tuple[str, ...] = ()
    acs: tuple[str, ...] = ()
    acs_enabled: bool = False


def chosen(text: str) -> str:
    """Return the value a file of /sys shows: the one in brackets where it lists them all."""
    found = re.search(r"\[(\S+)\]", text)
    return found[1] if found else text.strip()


def observe_tuning(host: Host, desired: TuningDesired) -> Tuning:
    """Read files; one shell script where access control services are to be off."""
    acs: tuple[str, ...] = ()
    if desired.acs_off:
        acs = tuple(host.run(["sh", "-s", "--", "--list"], stdin=ACS_SCRIPT_TEXT, timeout_seconds=120).out.splitlines())
    return Tuning(
        {path: text for path in (TMPFILES, ACS_SCRIPT, ACS_UNIT_FILE) if (text := host.read(path)) is not None},
        {p: frozenset(chosen(t) for f in host.glob(p) if (t := host.read(f)) is not None) for p in desired.settings},
        tuple((host.read(GOVERNORS) or "").split()),
        acs,
        host.exists(ACS_WANTED),
    )


def plan_tuning(observed: Tuning, desired: TuningDesired, installing: bool) -> tuple[list[Change], list[Problem]]:
    """Plan the file of tmpfiles.d and what differs now, then access control services; installing: setpci comes by this run."""
    problems = []
    if desired.governor and observed.governors and desired.governor not in observed.governors:
        step = "choose one of these (kernel.cpu_governor)"
        problems.append(Problem("CPU governor", f"{', '.join(observed.governors)} to choose from", desired.governor, step))
    for what, pattern in (("CPU governor", GOVERNOR), ("transparent hugepages", HUGEPAGES)):
        if pattern in desired.settings and not observed.values[pattern]:
            step = "leave it out for hosts whose frequency or memory is set elsewhere (a hypervisor, the firmware)"
            problems.append(Problem(what, f"no {pattern}", desired.settings[pattern], step, "warning"))
    lines = "".join(f"w {pattern} - - - - {value}\n" for pattern, value in desired.settings.items())
    changes = _our_file(observed, TMPFILES, f"# Written by Bedplate; changes are overwritten.\n{lines}" if lines else None)
    apply = RunCommand(("systemd-tmpfiles", "--create", TMPFILES), "write the settings below /sys")
    for pattern, value in desired.settings.items():
        found = observed.values[pattern]
        if found and found != {value}:
            changes.append(Change(f"setting {pattern}", ", ".join(sorted(found)), value, operation=apply))
    return changes + _plan_acs(observed, desired.acs_off, installing), problems


def _plan_acs(observed: Tuning, off: bool, installing: bool) -> list[Change]:
    changes = _our_file(observed, ACS_SCRIPT, ACS_SCRIPT_TEXT if off else None, 0o755)
    changes += _our_file(observed, ACS_UNIT_FILE, ACS_UNIT_TEXT if off else None)
    if off != observed.acs_enabled:  # --no-reload: see the units of swap
        verb = "enable" if off else "disable"
        command = RunCommand(("systemctl", verb, "--no-reload", ACS_UNIT), f"{verb} {ACS_UNIT}")
        state = f"{verb}d"
        switch = Change(f"unit {ACS_UNIT}", "disabled" if off else "enabled", state, operation=command)
        changes = [*changes, switch] if off else [switch, *changes]
    if observed.acs or (off and installing):
        run = RunCommand((ACS_SCRIPT,), "switch PCI access control services off", 120)
        before = ", ".join(observed.acs) or UNKNOWN
        # Traffic between devices takes another way from one moment to the next.
        changes.append(Change("PCI access control services", before, "off", frozenset({DRAIN}), run))
    return changes


def _our_file(observed: Tuning, path: str, text: Optional[str], mode: int = 0o644) -> list[Change]:
    found = observed.files.get(path)
    if text is not None:
        return file_change(path, found, text, mode=mode)
    return [] if found is None else [Change(f"file {path}", found, None, operation=RemoveFile(path))]
