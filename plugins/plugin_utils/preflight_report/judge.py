# SPDX-License-Identifier: Apache-2.0
"""Declared against found: a pool's spec and what preflight observed become rows. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.nvme_volumes import LEAST_DISKS
from ansible_collections.bedplate.metal.plugins.module_utils.wording import listing
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.kubelet_config import quantity_bytes

from .judge_gpus import judge_gpus
from .judge_nics import judge_affinity, judge_nics
from .row import DIFFERS, OK, Row, judged, modules_text, size, unknown

MEMORY_SHARE = 0.025
"""What firmware and kernel keep of the installed memory: 1.6 % for the kernel's own map of it (64 bytes for each page of 4096),
and a little for firmware. A missing module of 32 is 3 %."""
SYSTEM_MOUNTS = ("mounted at /", "mounted at /boot", "mounted at /boot/efi")
REQUIREMENTS = "what every host must have"
MEMORY_BYTES = 1024**3
"""The same on small machines: crash kernel, firmware, video memory."""


def judge(spec: Mapping[str, Any], observed: Mapping[str, Any], problems: list[Mapping[str, Any]]) -> list[Row]:
    """Return a host's rows. spec: of its pool, empty for a host without GPUs; problems: what preflight objects to."""
    rows = [problem_row(problem) for problem in problems] or [Row(REQUIREMENTS, "preflight's checks", "nothing to object to", OK)]
    hardware = observed.get("hardware")
    if not spec or hardware is None:
        return rows
    return [
        *rows,
        *judge_system(spec, observed, hardware["machine"]),
        *judge_machine(spec, observed, hardware["machine"]),
        *judge_gpus(spec, hardware),
        *judge_nics(spec, hardware),
        *judge_affinity(spec, hardware),
        *judge_disks(spec, hardware),
    ]


def problem_row(problem: Mapping[str, Any]) -> Row:
    """Return one of preflight's problems as a row."""
    what, wanted, found, step = (str(problem[key]) for key in ("what", "wanted", "found", "next_step"))
    return Row(what, wanted, found, DIFFERS, step)


def judge_system(spec: Mapping[str, Any], observed: Mapping[str, Any], machine: Mapping[str, Any]) -> list[Row]:
    """Operating system and kernel."""
    rows = []
    if spec.get("os"):
        found, step = observed["distribution"], "install the declared system, or correct os of the pool"
        rows.append(judged("operating system", spec["os"], found, spec["os"] == found, step))
    if spec.get("kernel"):
        running = f"{observed['kernel']} {machine['kernel_build']}"
        # Debian's and Ubuntu's package version stands in the build's text, beside the release's name.
        good = re.search(rf"(?<![\w.]){re.escape(spec['kernel'])}(?![\d])", running) is not None
        step = "boot the declared kernel, or correct kernel of the pool"
        built = f", built as {spec['kernel']}" if good and spec["kernel"] not in observed["kernel"] else ""
        rows.append(judged("kernel", spec["kernel"], observed["kernel"] + built, good, step))
    return rows


def judge_machine(spec: Mapping[str, Any], observed: Mapping[str, Any], machine: Mapping[str, Any]) -> list[Row]:
    """Processors, NUMA nodes, memory."""
    rows = []
    if spec.get("cpus"):
        threads, cores = machine["processors"]["threads"], machine["processors"]["cores"]
        found = f"{threads}" + (f" (threads of {cores} cores)" if cores else "")
        step = "see whether a socket or hyper-threading is off in the firmware, or correct cpus of the pool"
        rows.append(judged("CPUs", spec["cpus"], found, threads == spec["cpus"], step))
    if spec.get("numa_nodes"):
        nodes = machine["numa_nodes"]
        step = "see the firmware's settings (nodes per socket, sub-NUMA clustering), or correct numa_nodes of the pool"
        if nodes is None:
            rows.append(unknown("NUMA nodes", spec["numa_nodes"], "the host shows none below /sys/devices/system/node", step))
        else:
            rows.append(judged("NUMA nodes", spec["numa_nodes"], len(nodes), len(nodes) == spec["numa_nodes"], step))
    return [*rows, *judge_memory(spec, observed["memory_bytes"], machine["dimms"])]


def judge_memory(spec: Mapping[str, Any], found: int, dimms: list[Mapping[str, Any]] | None) -> list[Row]:
    """Memory: what the kernel has is a little less than what is installed; modules of different kinds are worth a look."""
    rows = []
    if spec.get("memory"):
        declared = quantity_bytes(spec["memory"])
        least = declared * (1 - MEMORY_SHARE) - MEMORY_BYTES
        text = size(found)
        if dimms:
            installed = sum(d["count"] * d["size_bytes"] for d in dimms)
            text += f" of {size(installed)} installed"
            if installed < declared:
                least = declared
        step = "find the module that is missing or disabled (firmware's log, dmidecode -t 17), or correct memory of the pool"
        good = least <= found <= declared * (1 + MEMORY_SHARE)
        rows.append(judged("memory", f"{spec['memory']} ({size(declared)})", text, good, step))
    if dimms:
        step = "see which modules differ (dmidecode -t 17): the slowest sets the speed, and channels are filled unevenly"
        rows.append(judged("memory modules", "of one kind", modules_text(dimms), len(dimms) == 1, step))
    return rows


def judge_disks(spec: Mapping[str, Any], hardware: Mapping[str, Any]) -> list[Row]:
    """Local volumes: whether the disks they name or describe are there, and what those carry."""
    return [judge_volume(name, volume, hardware["disks"]) for name, volume in (spec.get("nvme") or {}).items()]


def judge_volume(name: str, volume: Mapping[str, Any], disks: list[Mapping[str, Any]]) -> Row:
    """Return the row of one volume. Disks of the system never match a rule."""
    rule, layout, what = volume["disks"], volume["layout"], f"NVMe disks of {name}"
    system = [disk["serial"] for disk in disks if any(thing.endswith(SYSTEM_MOUNTS) for thing in disk["carries"])]
    if rule["serials"]:
        declared = f"{layout} of {listing(rule['serials'])}"
        matching = [disk for disk in disks if disk["serial"] in rule["serials"]]
        absent = sorted(set(rule["serials"]) - {disk["serial"] for disk in matching})
        if absent:
            step = "correct the serial numbers of the pool, or see why the host does not show the disk (nvme list, dmesg)"
            return Row(what, declared, f"{carried(matching)}; absent: {listing(absent)}", DIFFERS, step)
        if taken := sorted(set(system) & set(rule["serials"])):
            return Row(what, declared, carried(matching), DIFFERS, f"name other disks: {listing(taken)} carries the system")
    else:
        least, model = quantity_bytes(rule["min_size"] or "0"), rule["model"] or ""
        matching = [disk for disk in disks if disk["size_bytes"] >= least and model.lower() in disk["model"].lower()]
        matching = [disk for disk in matching if disk["serial"] not in system]
        words = (f" of {rule['min_size']} or more" * bool(least), f" whose model has {model}" * bool(model))
        declared = f"{layout} of disks{''.join(words)}"
    wanted = rule.get("count") or LEAST_DISKS[layout]
    step = f"{layout} needs {wanted} disk{'s' if wanted != 1 else ''}: correct the rule, or add disks"
    return judged(what, declared, carried(matching), len(matching) >= wanted, step)


def carried(disks: list[Mapping[str, Any]]) -> str:
    """Say how many disks there are and what is on them."""
    if not disks:
        return "none"
    kinds: dict[str, int] = {}
    for disk in disks:
        state = "unknown content" if disk["blank"] is None else "blank" if disk["blank"] else ", ".join(disk["carries"])
        key = f"{size(disk['size_bytes'])} {state}"
        kinds[key] = kinds.get(key, 0) + 1
    return "; ".join(f"{count} × {kind}" for kind, count in kinds.items())
