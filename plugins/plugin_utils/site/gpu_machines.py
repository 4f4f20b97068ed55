# SPDX-License-Identifier: Apache-2.0
"""What a pool's spec says of its machines, beyond its own words: operating system, NVSwitches, memory of a GPU. Pure."""

from __future__ import annotations

import re

from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.table import Accelerator

from .gather import Gathered
from .model_pool import GpuPool

NVIDIA_DRA_DRIVER = "gpu.nvidia.com"


def distributions_of(found: Gathered, spec: GpuPool) -> list[str]:
    """Return the operating systems the pool's hosts may have: the spec's, else all that the site permits."""
    if spec.os is not None:
        return [spec.os]
    preflight = found.sections.get("preflight")
    return list(preflight.distributions) if preflight else []


def distribution_of(found: Gathered, spec: GpuPool) -> str | None:
    """Return the pool's operating system; None where several are possible."""
    possible = distributions_of(found, spec)
    return possible[0] if len(possible) == 1 else None


def has_switches(topology: str, gpus: int, model: Accelerator | None) -> bool:
    """Tell whether there are NVSwitches: the topology says so, or a baseboard has eight SXM modules of Ampere or newer."""
    if "nvswitch" in topology:
        return True
    modern = model is None or model.architecture in ("ampere", "hopper", "blackwell")
    return modern and "sxm" in topology and gpus >= 8


def needs_subnet_manager(model: Accelerator | None) -> bool:
    """Tell whether NVSwitches between such GPUs are of NVLink's fifth generation, which has a subnet manager (nvlsm)."""
    return model is not None and model.architecture == "blackwell"


def memory_gb(accelerator: str) -> int | None:
    """Return 80 for ``h100-80gb``, None where the name does not say."""
    match = re.search(r"-([0-9]+)gb$", accelerator)
    return int(match[1]) if match else None
