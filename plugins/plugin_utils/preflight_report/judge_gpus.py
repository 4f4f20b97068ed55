# SPDX-License-Identifier: Apache-2.0
"""GPUs declared against found: count, model, PCIe links, window to memory, driver, NVSwitches. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.wording import listing
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.table import load_table
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.gpu_machines import has_switches

from .devices import load_devices
from .row import DIFFERS, OK, UNKNOWN, Row, judged, size, unknown

SMALLEST_BAR1 = 256 * 1024**2
"""The smallest window to memory that NVIDIA's data centre GPUs have (T4); the firmware assigned none where there is less."""
IDLE_SPEED = 2.5
"""GT/s to which the driver lowers the link of a GPU without work (nvidia-smi(1), "Link Generation")."""
NO_BUS = "the host shows no GPU on a PCI bus"
BUS_STEP = "look at the machine itself: containers and some virtual machines do not show the bus"

Gpus = Sequence[Mapping[str, Any]]


def judge_gpus(spec: Mapping[str, Any], hardware: Mapping[str, Any]) -> list[Row]:
    """Return the rows about GPUs and what joins them."""
    gpus: Gpus = hardware["gpus"]
    on_bus = [gpu for gpu in gpus if gpu["on_bus"]]
    rows = [judge_count(spec, hardware, on_bus)]
    if not gpus:
        return [*rows, judge_switches(spec, hardware, on_bus)]
    rows.append(judge_model(spec, gpus))
    if on_bus:
        rows += [judge_links(on_bus), judge_windows(on_bus)]
        rows += judge_drivers(spec, on_bus)
    else:
        rows += [unknown("GPU PCIe links", LINKS, NO_BUS, BUS_STEP), unknown("GPU BAR1", WINDOWS, NO_BUS, BUS_STEP)]
    return [*rows, judge_switches(spec, hardware, on_bus)]


def judge_count(spec: Mapping[str, Any], hardware: Mapping[str, Any], on_bus: Gpus) -> Row:
    """How many there are; one that only the driver lists while others are on the bus fell off it."""
    wanted, gpus = spec["gpus_per_node"], hardware["gpus"]
    lost = [gpu["address"] for gpu in gpus if not gpu["on_bus"]] if on_bus else []
    count = len(on_bus) or len(gpus)
    if not gpus and not hardware["pci"]:
        return unknown("GPUs", wanted, "the host shows no PCI bus", BUS_STEP)
    found = str(count) + (f", and {listing(lost)} fell off the bus" if lost else "")
    step = "power the machine off and on; a GPU that stays away needs its seat, its power or itself looked at (BMC's log, dmesg)"
    if count > wanted:
        step = "correct gpus_per_node of the pool, or give the host a pool of its own: the hosts of a pool are alike"
    return judged("GPUs", wanted, found, count == wanted and not lost, step)


def judge_model(spec: Mapping[str, Any], gpus: Gpus) -> Row:
    """Which model they are, by PCI id, else by the driver's name for them."""
    devices, model = load_devices(), load_table().accelerators.get(spec["accelerator"])
    counts: dict[str, int] = {}
    verdicts = set()
    for gpu in gpus:
        name = devices.name(gpu["id"]) if gpu["id"] in devices.names else gpu["model"] or gpu["id"]
        counts[name] = counts.get(name, 0) + 1
        if gpu["id"] in devices.accelerators:
            verdicts.add(OK if devices.accelerators[gpu["id"]] == spec["accelerator"] else DIFFERS)
        elif gpu["model"] and model:
            verdicts.add(OK if gpu["model"] in model.products else DIFFERS)
        else:
            verdicts.add(UNKNOWN)
    found = ", ".join(f"{count} × {name}" for name, count in counts.items())
    if DIFFERS in verdicts and not (spec.get("mixed_gpus") and OK in verdicts):
        step = "correct accelerator of the pool, or move the host to a pool of its own"
        return Row("GPU model", spec["accelerator"], found, DIFFERS, step)
    if UNKNOWN in verdicts:
        step = "look the number up (lspci -nn, pci-ids.ucw.cz) and see whether it is the declared model"
        return unknown("GPU model", spec["accelerator"], f"{found} is not in Bedplate's table", step)
    return Row("GPU model", spec["accelerator"], found, OK)


LINKS = "all they can have"


def judge_links(gpus: Gpus) -> Row:
    """PCIe links. Lanes are compared with the GPU's own most, speed with what the port above allows too."""
    slow: list[str] = []
    idle: list[str] = []
    silent: list[str] = []
    for gpu in gpus:
        link, port = gpu["link"], gpu["port"]
        if not (link["width"] and link["speed"] and link["max_width"] and link["max_speed"]):
            silent.append(gpu["address"])
            continue
        best = min(link["max_speed"], port["max_speed"] or link["max_speed"])
        if link["width"] < link["max_width"]:
            slow.append(f"{gpu['address']} {link_text(link)} of {most_text(link)}")
        elif link["speed"] < best:
            asleep = gpu["driver"] == "nvidia" and link["speed"] == IDLE_SPEED
            (idle if asleep else slow).append(f"{gpu['address']} {link_text(link)} of {best:g} GT/s")
    if slow:
        step = "reseat the GPU, its riser or cable and boot again; see the slot's firmware settings (link speed, bifurcation)"
        return Row("GPU PCIe links", LINKS, listing(slow), DIFFERS, step)
    if idle:
        step = "repeat while the GPUs work: the driver slows the link of an idle GPU"
        return unknown("GPU PCIe links", LINKS, listing(idle), step)
    if silent:
        return unknown("GPU PCIe links", LINKS, f"no link shown for {listing(silent)}", BUS_STEP)
    kinds = dict.fromkeys(link_text(gpu["link"]) for gpu in gpus)
    return Row("GPU PCIe links", LINKS, ", ".join(kinds), OK)


def link_text(link: Mapping[str, Any]) -> str:
    """Return a link in the words of lspci, e.g. ``32 GT/s x16``."""
    return f"{link['speed']:g} GT/s x{link['width']}" if link["speed"] and link["width"] else ""


def most_text(link: Mapping[str, Any]) -> str:
    """Return the best a link can be."""
    return f"{link['max_speed']:g} GT/s x{link['max_width']}" if link["max_speed"] and link["max_width"] else ""


WINDOWS = "assigned"


def judge_windows(gpus: Gpus) -> Row:
    """BAR1: through it processors and network cards reach the GPU's memory."""
    silent = [gpu["address"] for gpu in gpus if gpu["bar1_bytes"] is None]
    if silent:
        return unknown("GPU BAR1", WINDOWS, f"no address spaces shown for {listing(silent)}", BUS_STEP)
    small = [gpu["address"] for gpu in gpus if gpu["bar1_bytes"] < SMALLEST_BAR1]
    sizes = ", ".join(dict.fromkeys(size(gpu["bar1_bytes"]) for gpu in gpus))
    step = "switch on 64-bit address spaces in the firmware (above 4G decoding, large BAR) and boot again"
    return judged("GPU BAR1", WINDOWS, f"none for {listing(small)}" if small else sizes, not small, step)


def judge_drivers(spec: Mapping[str, Any], gpus: Gpus) -> list[Row]:
    """Which kernel driver has them; none is fine before Bedplate installed one."""
    if not spec.get("driver"):
        return []
    foreign = {gpu["address"]: gpu["driver"] for gpu in gpus if gpu["driver"] not in (None, "nvidia")}
    bound = sum(1 for gpu in gpus if gpu["driver"] == "nvidia")
    found = f"nvidia has {bound} of {len(gpus)}" if bound else "none yet"
    if foreign:
        found = listing(f"{address}: {driver}" for address, driver in foreign.items())
    step = "keep that driver off them (nouveau: role nvidia_driver does; vfio-pci: see who reserves GPUs for virtual machines)"
    return [judged("GPU kernel driver", "nvidia, or none yet", found, not foreign, step)]


def judge_switches(spec: Mapping[str, Any], hardware: Mapping[str, Any], on_bus: Gpus) -> Row:
    """NVSwitches: as many as the baseboard has; none where the topology has none."""
    model = load_table().accelerators.get(spec["accelerator"])
    found, managers = len(hardware["nvswitches"]), sum(1 for nic in hardware["nics"] if nic["link_type"] == "nvlink")
    text = str(found) + (f", {managers} ConnectX functions manage NVSwitches" if managers else "")
    declared = f"topology {spec['topology']}"
    wanted = 0
    if has_switches(spec["topology"], spec["gpus_per_node"], model):
        per_board = load_devices().nvswitches.get(model.architecture) if model else None
        if per_board is None or spec["gpus_per_node"] != 8:
            reason = f"{text}; how many this machine should show is not in Bedplate's table"
            return unknown("NVSwitches", declared, reason, "compare with the maker's description of the machine")
        wanted = per_board
    if not on_bus and found < wanted:
        return unknown("NVSwitches", f"{declared}: {wanted}", NO_BUS, BUS_STEP)
    step = "power the machine off and on, and see its baseboard's log; without all of them the fabric manager does not start"
    if found > wanted:
        step = "correct topology of the pool: fabric manager is installed only where it names NVSwitches or eight SXM modules"
    return judged("NVSwitches", f"{declared}: {wanted}", text, found == wanted, step)
