# SPDX-License-Identifier: Apache-2.0
"""What keeps a node's GPUs from service: findings from the driver's facts and what the site declares. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

from .core import Problem
from .nvidia_probe import WEDGED, DriverState, Gpu, fatal

DISPLAY_NAMES = re.compile(r"\b(NVS|Quadro P\d{3}|T400|T600|T1000)\b")
"""Display adapters of NVIDIA that data-centre machines carry for a screen."""
NO_SPACES = re.compile(r"[\s_-]+")


@dataclass(frozen=True)
class Expected:
    """What the site declares of a host. count: GPUs, None: not declared. model: words every GPU's name must contain (H100).
    memory_gb: of each, as in the accelerator's name. mixed: other models are accepted too. switches: NVSwitches must be there.
    """

    count: Optional[int] = None
    model: str = ""
    memory_gb: Optional[int] = None
    mixed: bool = False
    switches: bool = False


@dataclass(frozen=True)
class Judged:
    """compute: GPUs that count. missing: PCI addresses of GPUs that are known to be there and do not answer."""

    compute: tuple[Gpu, ...] = ()
    missing: tuple[str, ...] = ()
    findings: list[Problem] = field(default_factory=list)


def judge(state: DriverState, expected: Expected, version: str, fabric_manager: Optional[str] = None) -> Judged:
    """Return what keeps the GPUs from service, as errors; a driver that works and is not the wanted one, as a warning.

    version: the driver wanted; fabric_manager: systemd's state of the service, None where it is not needed.
    """
    findings: list[Problem] = []
    probe = state.probe
    if probe.state == WEDGED:
        step = "drain and power-cycle the node; look for XIDs in its kernel log; other nodes are not affected"
        return Judged(findings=[Problem("nvidia-smi", probe.message, "an answer", step)])
    if state.loaded is None:
        found = "nouveau loaded in its place" if state.nouveau else "no driver loaded"
        return Judged(findings=[Problem("GPU driver", found, f"{version} loaded", "run the playbook that reboots the node")])
    if state.loaded != version or probe.state == "mismatch":
        libraries = ", ".join(state.libraries) or "none"
        step = "drain and reboot the node (the rolling playbook does both)"
        works = state.libraries == (state.loaded,) and probe.state != "mismatch"
        found = f"module {state.loaded} loaded and library {libraries} installed"
        findings.append(Problem("GPU driver", found, f"both {version}", step, "warning" if works else "error"))
    if probe.state == "mismatch":
        return Judged(findings=findings)
    compute = compute_gpus(state)
    missing = missing_gpus(state, probe.gpus)
    if probe.state not in ("ok", "lost") or (probe.state == "lost" and not missing):
        findings.append(Problem("nvidia-smi", probe.message or probe.state, "an answer with every GPU", "read its kernel log"))
    findings += _counted(compute, missing, expected) + _models(compute, expected)
    for pci in missing:
        step = "drain and reboot the node; replace the GPU if it stays away"
        findings.append(Problem(f"GPU {pci}", "known to the machine, and not answering", "answering", step))
    if state.xids is None:
        step = "journalctl -k -b -g 'NVRM: Xid' on the node; mend or shorten its journal, then repeat"
        findings.append(Problem("XIDs", "no answer of the node's journal", "its kernel messages since the boot", step))
    for xid in fatal(state.xids or ()):
        step = f"look XID {xid.number} up in NVIDIA's list; drain and reset or reboot the node"
        findings.append(Problem(f"GPU {xid.pci}", f"XID {xid.number} since the last boot", "no XID of the hardware", step))
    if expected.switches and not state.switches:
        step = "check that the machine has them (topology of its pool), and its baseboard"
        findings.append(Problem("NVSwitch", "none", "NVSwitches, which the pool's topology declares", step))
    if fabric_manager is not None and fabric_manager != "active":
        step = "journalctl -u nvidia-fabricmanager on the node"
        findings.append(Problem("fabric manager", fabric_manager, "active", step))
    return Judged(compute, missing, findings)


def compute_gpus(state: DriverState) -> tuple[Gpu, ...]:
    """Return the GPUs that count: display adapters beside them do not."""
    displays = {d.pci for d in state.bus if d.kind == "display"}
    controllers = {d.pci for d in state.bus if d.kind == "gpu"}
    gpus = state.probe.gpus
    kept = [g for g in gpus if not DISPLAY_NAMES.search(g.name) and not (controllers and g.pci in displays)]
    return tuple(kept) if kept else gpus


def missing_gpus(state: DriverState, gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Return the PCI addresses the bus or the driver lists and nvidia-smi does not."""
    known = set(state.known) | {d.pci for d in state.bus if d.kind == "gpu"}
    return tuple(sorted(known - {g.pci for g in gpus}))


def _counted(compute: Sequence[Gpu], missing: Sequence[str], expected: Expected) -> list[Problem]:
    if expected.count is None or len(compute) == expected.count:
        return []
    seen = ", ".join(g.pci for g in compute) or "none"
    away = f"; not answering: {', '.join(missing)}" if missing else ""
    step = "drain the node and look at the GPU that is away" if len(compute) < expected.count else "correct gpus_per_node"
    return [Problem("GPUs", f"{len(compute)} ({seen}{away})", f"{expected.count}, as the pool declares", step)]


def _models(compute: Sequence[Gpu], expected: Expected) -> list[Problem]:
    if expected.mixed:
        return []
    findings = []
    kinds = sorted({(g.name, g.memory_mib) for g in compute})
    if len(kinds) > 1:
        found = ", ".join(
            f"{name} at {', '.join(g.pci for g in compute if g.name == name)}" for name in sorted({n for n, _m in kinds})
        )
        step = "take the odd one out, or permit it for the pool (mixed_gpus)"
        findings.append(Problem("GPU models", found, "one model in a node", step))
    plain = NO_SPACES.sub("", expected.model.lower())
    for name, memory in kinds:
        fits = plain in NO_SPACES.sub("", name.lower())
        large = expected.memory_gb is None or abs(memory / 1024 - expected.memory_gb) <= expected.memory_gb * 0.1
        if not fits or not large:
            wanted = f"{expected.model}{f' with {expected.memory_gb} GB' if expected.memory_gb else ''}"
            step = "put the node into the pool of its accelerator"
            findings.append(Problem("GPU model", f"{name} with {memory} MiB", wanted, step))
    return findings
