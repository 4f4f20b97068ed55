# SPDX-License-Identifier: Apache-2.0
"""Division of a host's GPUs by MIG: the same instances on every GPU, now and after a boot.

GPUs since Hopper forget MIG mode at a boot, and all forget their instances (MIG User Guide, "Persistence of MIG mode"). So a unit
makes them before kubelet starts; what is there now is compared and changed only where no work can be disturbed. A program that
holds a GPU (DCGM's host engine) keeps it from changing: then the unit divides the GPUs, or makes them whole, at the next boot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional

from .core import DRAIN, RESTART_KUBELET, Change, Component, Plan, Problem
from .errors import BedplateError, RebootNeededError
from .host import Host
from .nvidia_probe import LOADED, PROBE_TIMEOUT_SECONDS
from .operations import RemoveFile, file_change, last_lines

UNIT = "bedplate-mig"
UNIT_FILE = f"/etc/systemd/system/{UNIT}.service"
WANTED_BY = f"/etc/systemd/system/multi-user.target.wants/{UNIT}.service"
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
QUERY = ("nvidia-smi", "--query-gpu=index,mig.mode.current,mig.mode.pending", "--format=csv,noheader,nounits")
LIST = ("nvidia-smi", "mig", "-lgi")
NOTHING_THERE, IN_USE = 6, 19
"""nvidia-smi's return codes for no instances ("a query to find an object was unsuccessful", nvidia-smi(1), "RETURN VALUE") and
for a GPU that another client holds (NVML_ERROR_IN_USE of nvml.h, which it hands through)."""
SET_MODE = ("nvidia-smi", "-mig")
JUDGED = ("ok", "absent")
"""Answers of nvidia_driver's probe after which nvidia-smi's words on MIG mean something (absent: nothing is loaded yet)."""
CHANGE_TIMEOUT_SECONDS = 120.0
GEOMETRY = "GPUs divided by MIG"

Geometry = Mapping[str, int]


@dataclass(frozen=True)
class SharingDesired:
    """mig: instances per GPU by profile; empty: whole GPUs. probe: what nvidia_driver's probe found of this host."""

    mig: Geometry = field(default_factory=dict)
    probe: str = "ok"

    @property
    def profiles(self) -> str:
        """The instances as nvidia-smi takes them, the largest first: then every set that fits has a place."""
        order = sorted(self.mig, key=lambda name: (-int(name.partition("g")[0]), name))
        return ",".join(name for name in order for _instance in range(self.mig[name]))


@dataclass(frozen=True)
class GpuMig:
    """A GPU's division. mode, pending: Enabled, Disabled, or "" where it has no MIG. instances: by profile."""

    mode: str
    pending: str
    instances: Geometry = field(default_factory=dict)


@dataclass(frozen=True)
class SharingObserved:
    """driver: loaded. gpus: by index; problem: why they could not be asked. unit: text of the unit file; enabled: at boot.

    kubelet: configured, so that it must be told of other devices.
    """

    driver: bool
    gpus: Mapping[int, GpuMig]
    problem: str
    unit: Optional[str]
    enabled: bool
    kubelet: bool


class GpuSharing(Component[SharingDesired, SharingObserved]):
    """See the module docstring."""

    name = "gpu_sharing"

    def observe(self, host: Host, desired: SharingDesired) -> SharingObserved:
        """Ask nvidia-smi where a driver is loaded and answered before, each question bounded in time."""
        driver = host.exists(LOADED)
        gpus: dict[int, GpuMig] = {}
        problem = "" if desired.probe in JUDGED else f"GPUs whose driver's probe says {desired.probe}"
        if driver and not problem:
            gpus, problem = observe_mig(host)
        return SharingObserved(
            driver=driver,
            gpus=gpus,
            problem=problem,
            unit=host.read(UNIT_FILE),
            enabled=host.exists(WANTED_BY),
            kubelet=host.exists(KUBELET_CONFIG),
        )

    def plan(self, observed: SharingObserved, desired: SharingDesired) -> Plan:
        """Compare instances and unit. Where no driver is loaded instances wait: the unit makes them at the boot that loads it.

        GPUs that cannot be asked are no error here: a driver that waits for its reboot gets it, and the gate judges sick ones.
        """
        if observed.problem:
            step = "reboot the node where its driver waits for that, else look at its GPUs (the gate's findings name them)"
            wanted = "every GPU's MIG mode and instances; nothing was changed"
            return Plan([], [Problem("MIG", observed.problem, wanted, step, "warning")])
        changes = plan_unit(observed, desired)
        if not observed.driver:
            return Plan(changes)
        incapable = [index for index, gpu in observed.gpus.items() if not gpu.mode]
        if desired.mig and incapable:
            shown = ", ".join(map(str, incapable))
            step = "put the node into a pool that shares its GPUs otherwise"
            return Plan([], [Problem("MIG", f"GPUs without MIG (index {shown})", "GPUs that MIG can divide", step)])
        before = {str(i): shown_gpu(gpu) for i, gpu in observed.gpus.items() if not divided(gpu, desired)}
        if before:
            effects = frozenset({DRAIN, RESTART_KUBELET} if observed.kubelet else {DRAIN})
            after = dict(desired.mig) or "whole"
            changes.append(Change(GEOMETRY, before, dict.fromkeys(before, after), effects, Divide(desired)))
        return Plan(changes)


def observe_mig(host: Host) -> tuple[dict[int, GpuMig], str]:
    """Return each GPU's division and, instead, why it could not be told."""
    modes = host.run(QUERY, timeout_seconds=PROBE_TIMEOUT_SECONDS)
    if not modes.ok:
        return {}, f"nvidia-smi answered {modes.rc}: {last_lines(modes.err or modes.out, 1)}"
    parsed = parse_modes(modes.out)
    if not any("Enabled" in pair for pair in parsed.values()):
        return {index: GpuMig(*pair) for index, pair in parsed.items()}, ""
    listed = host.run(LIST, timeout_seconds=PROBE_TIMEOUT_SECONDS)
    if not listed.ok and listed.rc != NOTHING_THERE:
        return {}, f"nvidia-smi mig -lgi answered {listed.rc}: {last_lines(listed.err or listed.out, 1)}"
    instances = parse_instances(listed.out)
    return {index: GpuMig(*pair, instances.get(index, {})) for index, pair in parsed.items()}, ""


def parse_modes(text: str) -> dict[int, tuple[str, str]]:
    """Parse ``0, Enabled, Enabled``; ``[N/A]`` is a GPU without MIG."""
    found = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 3 and parts[0].isdigit():
            mode, pending = (part if part in ("Enabled", "Disabled") else "" for part in parts[1:])
            found[int(parts[0])] = (mode, pending)
    return found


def parse_instances(text: str) -> dict[int, dict[str, int]]:
    """Count the instances of ``nvidia-smi mig -lgi`` by GPU and profile: ``|   0  MIG 1g.10gb   19   7   4:1  |``."""
    found: dict[int, dict[str, int]] = {}
    for gpu, profile in re.findall(r"^\|\s+(\d+)\s+MIG (\S+)\s", text, re.MULTILINE):
        counts = found.setdefault(int(gpu), {})
        counts[profile] = counts.get(profile, 0) + 1
    return found


def divided(gpu: GpuMig, desired: SharingDesired) -> bool:
    """Tell whether a GPU is divided as desired."""
    if desired.mig:
        return gpu.mode == "Enabled" and dict(gpu.instances) == dict(desired.mig)
    return gpu.mode != "Enabled" and gpu.pending != "Enabled"


def shown_gpu(gpu: GpuMig) -> object:
    """Return a GPU's division for a change: instances, "whole", or MIG without instances."""
    if gpu.mode != "Enabled":
        return "whole"
    return dict(gpu.instances) or "no instances"


def plan_unit(observed: SharingObserved, desired: SharingDesired) -> list[Change]:
    """Plan the unit that divides the GPUs at boot; it goes once whole GPUs are wanted and seen: a boot completes a change."""
    if observed.driver:
        wanted = bool(desired.mig) or not all(divided(gpu, desired) for gpu in observed.gpus.values())
    else:
        wanted = bool(desired.mig) or observed.unit is not None
    if wanted:
        changes = file_change(UNIT_FILE, observed.unit, unit_text(desired))
        if not observed.enabled:
            changes.append(Change(f"service {UNIT} enabled", False, True, operation=EnableUnit()))
        return changes
    changes = []
    if observed.enabled:
        changes.append(Change(f"service {UNIT} enabled", True, False, operation=RemoveFile(WANTED_BY)))
    if observed.unit is not None:
        changes.append(Change(f"file {UNIT_FILE}", observed.unit, None, operation=RemoveFile(UNIT_FILE)))
    return changes


def unit_text(desired: SharingDesired) -> str:
    """Return the unit. It runs after the driver's services, and before anything that holds GPUs or looks at them.

    It loads the module itself: nothing else need have done so by then, and nvidia-smi fails without it.
    """
    lines = [f"ExecStart={'-' if may_fail else ''}/usr/bin/{' '.join(argv)}" for argv, may_fail in commands(desired)]
    return "\n".join(
        [
            "# Written by Bedplate; changes are overwritten.",
            "[Unit]",
            "Description=Divide the GPUs by MIG",
            "After=nvidia-persistenced.service nvidia-fabricmanager.service",
            "Before=nvidia-dcgm.service nvidia-cdi-refresh.service containerd.service kubelet.service",
            "ConditionPathExists=/usr/bin/nvidia-smi",
            "",
            "[Service]",
            "Type=oneshot",
            "RemainAfterExit=yes",
            f"TimeoutStartSec={CHANGE_TIMEOUT_SECONDS:g}",
            "ExecStartPre=/sbin/modprobe nvidia",
            *lines,
            "",
            "[Install]",
            "WantedBy=multi-user.target",
            "",
        ]
    )


def commands(desired: SharingDesired) -> list[tuple[tuple[str, ...], bool]]:
    """Return the commands that divide all GPUs, each with whether it may fail: there may be nothing to take away."""
    away = [(("nvidia-smi", "mig", "-dci"), True), (("nvidia-smi", "mig", "-dgi"), True)]
    if not desired.mig:
        return [*away, ((*SET_MODE, "0"), False)]
    make = ("nvidia-smi", "mig", "-cgi", desired.profiles, "-C")
    return [((*SET_MODE, "1"), False), *away, (make, False)]


@dataclass(frozen=True)
class EnableUnit:
    """Operation: start the unit at every boot; no daemon-reload, which takes GPUs from running containers on some hosts."""

    def perform(self, host: Host) -> None:
        """Enable it."""
        result = host.run(["systemctl", "enable", "--no-reload", UNIT])
        if not result.ok:
            raise BedplateError(f"service {UNIT}: cannot be enabled: {last_lines(result.err)}. Next: systemctl status {UNIT}")


@dataclass(frozen=True)
class Divide:
    """Operation: divide all GPUs anew. Repeating it is harmless on a drained node."""

    desired: SharingDesired

    def perform(self, host: Host) -> None:
        """Set the mode, take old instances away, make new ones; once the GPUs are whole, the unit goes.

        Raises :class:`RebootNeededError` where something holds a GPU, :class:`BedplateError` where nvidia-smi refuses.
        """
        for argv, may_fail in commands(self.desired):
            result = host.run(argv, timeout_seconds=CHANGE_TIMEOUT_SECONDS)
            said = last_lines(result.err or result.out)
            if argv[:2] == SET_MODE:
                self._settled(host)
            if result.rc == IN_USE or (not result.ok and "In use by another client" in said):
                raise RebootNeededError(f"a GPU that another program holds ({' '.join(argv)} answered {result.rc}: {said})")
            if not result.ok and not may_fail:
                step = "read the GPUs' state (nvidia-smi) on the host, then repeat"
                raise BedplateError(f"MIG: {' '.join(argv)} answered {result.rc}:\n{said}\nNext: {step}")
        if not self.desired.mig:
            for path in (WANTED_BY, UNIT_FILE):
                RemoveFile(path).perform(host)

    def _settled(self, host: Host) -> None:
        modes = parse_modes(host.run(QUERY, timeout_seconds=PROBE_TIMEOUT_SECONDS).out)
        waiting = [str(index) for index, (mode, pending) in modes.items() if mode != pending]
        if waiting:
            raise RebootNeededError(f"GPUs {', '.join(waiting)} take another MIG mode only after a reset")
