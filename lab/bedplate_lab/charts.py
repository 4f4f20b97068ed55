# SPDX-License-Identifier: Apache-2.0
"""Helm charts that pinned modules carry, kept in the cache for the controller."""

from __future__ import annotations

import shutil
from pathlib import Path

from bedplate_lab import components
from bedplate_lab.components import BY_COMPONENT
from bedplate_lab.paths import cache, new_dir
from bedplate_lab.report import Report

CHARTS = {
    "dra-example-driver": "deployments/helm/dra-example-driver",
    "gpu-operator": "deployments/gpu-operator",
}
"""Components to where their modules have the chart."""


def path(name: str) -> Path:
    """Where a chart is kept; it may not be there."""
    recipe = BY_COMPONENT[name]
    return cache("charts", f"{name}-{recipe.version}")


def build_all(report: Report) -> dict[str, Path]:
    """Every chart in the cache, copied when missing; their directories by name. Raises LabError."""
    for name, place in CHARTS.items():
        target = path(name)
        if not target.is_dir():
            report(f"chart {name} {BY_COMPONENT[name].version}")
            with new_dir(target) as temporary:
                shutil.copytree(
                    components.module_directory(BY_COMPONENT[name]) / place,
                    temporary,
                    dirs_exist_ok=True,
                    copy_function=shutil.copyfile,  # Go's module cache is read-only
                )
                for directory in (temporary, *(one for one in temporary.rglob("*") if one.is_dir())):
                    directory.chmod(0o755)
    return {name: path(name) for name in CHARTS}
