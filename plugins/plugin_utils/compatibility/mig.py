# SPDX-License-Identifier: Apache-2.0
"""Whether a MIG geometry fits on a GPU, and what a pool with it advertises. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from .table import Accelerator

GPU_RESOURCE = "nvidia.com/gpu"


def geometry_problem(accelerator: Accelerator, geometry: Mapping[str, int]) -> str:
    """Return why instances (profile to count per GPU) cannot be made on one GPU of the model; empty when they can.

    Within the limits of slices and instances every set has a placement (tried for all sets of the layouts in the table).
    """
    if not accelerator.mig:
        return f"{accelerator.name} has no MIG profiles"
    unknown = [name for name in geometry if name not in accelerator.mig]
    if unknown:
        return f"{accelerator.name} has no MIG profile {', '.join(unknown)}; it has {', '.join(accelerator.mig)}"
    for name, count in geometry.items():
        most = accelerator.mig[name].most
        if count > most:
            return f"{count} instances of {name}: a {accelerator.name} holds {most} of it at most"
    media = [name for name, count in geometry.items() if "+me" in name for _instance in range(count)]
    if len(media) > 1:
        return f"{', '.join(media)}: one instance of a GPU has the media engines (+me)"
    wanted = [accelerator.mig[name] for name, count in geometry.items() for _instance in range(count)]
    compute = sum(profile.compute for profile in wanted)
    if compute > accelerator.compute_slices:
        return f"takes {compute} compute slices; a {accelerator.name} has {accelerator.compute_slices}"
    memory = sum(profile.memory for profile in wanted)
    if memory > accelerator.memory_slices:
        return f"takes {memory} memory slices; a {accelerator.name} has {accelerator.memory_slices}"
    return ""


def advertised(
    gpus: int, *, sharing: str, geometry: Mapping[str, int] | None = None, strategy: str = "mixed", slices: int | None = None
) -> dict[str, int]:
    """Return the resources a healthy node advertises, by name. geometry: MIG instances per GPU; slices: pods per GPU."""
    if sharing == "mig" and geometry:
        if strategy == "single":
            return {GPU_RESOURCE: gpus * sum(geometry.values())}
        return {f"nvidia.com/mig-{name.replace('+', '.')}": gpus * count for name, count in geometry.items()}
    return {GPU_RESOURCE: gpus * (slices or 1)}
