# SPDX-License-Identifier: Apache-2.0
"""Hosts whose GPUs are divided by MIG, with an nvidia-smi that knows mode and instances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import simulated_commands
from ansible_collections.bedplate.metal.plugins.module_utils import nvidia_probe
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.gpu_sharing import (
    KUBELET_CONFIG,
    UNIT,
    UNIT_FILE,
    WANTED_BY,
    GpuSharing,
    SharingDesired,
)
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from fixtures_host import debian
from interrupted import Case

from recorded_host import RecordedHost

SEVEN = SharingDesired({"1g.10gb": 7})
MIXED = SharingDesired({"1g.10gb": 2, "3g.40gb": 1})
WHOLE = SharingDesired()


@dataclass
class Mig:
    """GPUs of a machine: mode and instances of each, in the file the snapshot compares. capable: MIG can divide them.

    needs_reset: a mode waits for one. busy: a program holds the GPUs. mismatch: packages of another driver than the module.
    """

    count: int = 2
    capable: bool = True
    needs_reset: bool = False
    hung: bool = False
    busy: bool = False
    mismatch: bool = False
    commands: list[str] = field(default_factory=list)


STATE = "/run/simulated-mig"


def mig_host(mig: Mig, *, loaded: bool = True, kubelet: bool = True) -> RecordedHost:
    host = debian()
    if loaded:
        host.files[nvidia_probe.LOADED] = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.09  Release Build\n"
    if kubelet:
        host.files[KUBELET_CONFIG] = "{}"
    host.services["kubelet"] = "active"
    host.files[STATE] = "Disabled Disabled "
    host.on("nvidia-smi", _smi(mig))
    host.on("systemctl", _systemctl)
    return host


def _smi(mig: Mig) -> Callable[..., Result]:
    def smi(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        mode, pending, instances = host.files[STATE].split(" ", 2)
        words = " ".join(argv[1:])
        if mig.hung:
            return Result(124, "", "no answer")
        if mig.mismatch:
            return Result(18, "", "Failed to initialize NVML: Driver/library version mismatch")
        if words.startswith("--query-gpu"):
            shown = f"{mode}, {pending}" if mig.capable else "[N/A], [N/A]"
            return Result(0, "".join(f"{index}, {shown}\n" for index in range(mig.count)))
        if words == "mig -lgi":
            names = instances.split(",") if instances else []
            rows = [
                f"|   {gpu}  MIG {name}          19        7          0:1     |" for gpu in range(mig.count) for name in names
            ]
            return Result(0, "\n".join(["| GPU instances: |", *rows])) if rows else Result(6, "No GPU instances found: Not Found")
        mig.commands.append(words)
        if mig.busy and not words.startswith("-mig"):
            return Result(19, "", "In use by another client")
        if words.startswith("mig -d") and not instances:
            return Result(6, "No GPU instances found: Not Found")
        host.changing()
        host.files[STATE] = changed(mig, words, mode, pending, instances)
        return Result(0)

    return smi


def changed(mig: Mig, words: str, mode: str, pending: str, instances: str) -> str:
    if words.startswith("-mig "):
        pending = "Enabled" if words.endswith("1") else "Disabled"
        mode = mode if mig.needs_reset else pending
    elif words.startswith("mig -dgi"):
        instances = ""
    elif words.startswith("mig -cgi"):
        instances = words.split(" ")[2]
    return f"{mode} {pending} {instances}"


def _systemctl(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    if list(argv[1:]) == ["enable", "--no-reload", UNIT]:
        host.changing()
        host.files[WANTED_BY] = ""
        return Result(0)
    return simulated_commands.systemctl(host, argv, stdin)


def boot(host: RecordedHost, mig: Mig) -> None:
    """Boot the host: its GPUs forget instances and mode, the installed driver is loaded, nobody holds a GPU, the unit runs."""
    mig.needs_reset = mig.busy = mig.mismatch = False
    host.files[STATE] = "Disabled Disabled "
    for line in host.files[UNIT_FILE].splitlines() if WANTED_BY in host.files else ():
        if line.startswith("ExecStart="):
            host.run(line.partition("=")[2].lstrip("-").removeprefix("/usr/bin/").split())
    mig.commands.clear()


def divided_host(mig: Mig, desired: SharingDesired = SEVEN) -> RecordedHost:
    """A host whose GPUs this component divided."""
    host = mig_host(mig)
    execute(GpuSharing(), host, desired, Policy())
    mig.commands.clear()
    host.commands.clear()
    return host


def run_sharing(host: RecordedHost, desired: SharingDesired, **policy: Any) -> Outcome:
    return execute(GpuSharing(), host, desired, Policy(**policy))


CASES = [
    Case("gpu_sharing on a fresh host", GpuSharing, lambda: SEVEN, lambda: mig_host(Mig())),
    Case("gpu_sharing other instances", GpuSharing, lambda: MIXED, lambda: divided_host(Mig())),
    Case("gpu_sharing whole again", GpuSharing, lambda: WHOLE, lambda: divided_host(Mig())),
    Case("gpu_sharing before the driver is loaded", GpuSharing, lambda: SEVEN, lambda: mig_host(Mig(), loaded=False)),
]
