# SPDX-License-Identifier: Apache-2.0
"""The driver's packages under NVIDIA's names, with the simulator inside, and headers of the machine's kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from bedplate_lab import debs, gpusim
from bedplate_lab.debs import Package
from bedplate_lab.gpustate import DIRECTORY
from bedplate_lab.report import Report

PACKAGING = DIRECTORY / "packaging"


def packages(version: str) -> dict[str, Package]:
    """The packages of a driver version by name, and those with versions of their own. Raises LabError."""
    found = {}
    for path in sorted(PACKAGING.glob("*/package.yml")):
        package = debs.describe(path, version, source=str(path.parent), filled={"@version@": version})
        found[package.name] = package
    return found


def kernel_headers() -> Package | None:
    """A package that says headers of the machine's kernel, which all hosts share, are there; None for a kernel whose name no
    package can have.
    """
    release = os.uname().release
    name = f"linux-headers-{release}"
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", name):
        return None
    return Package(
        name,
        "nvidia-driver",
        "1-1",
        "Headers of the lab's kernel, simulated: there is nothing to compile with them",
        directories=(f"usr/src/{name}",),
        links=((f"usr/lib/modules/{release}/build", f"/usr/src/{name}"),),
        source=str(PACKAGING / "none"),
    )


def wanted() -> Iterator[tuple[Package, Path]]:
    """Every package the depot offers, with the directory of the files it is made of."""
    first, *others = gpusim.driver_versions()
    offered = packages(first)
    if headers := kernel_headers():
        offered[headers.name] = headers
    for package in offered.values():
        yield package, gpusim.directory(first) / "bin"
    for version in others:
        for package in packages(version).values():
            if version in package.version:
                yield package, gpusim.directory(version) / "bin"


def pack_all(report: Report) -> list[Path]:
    """All packages as .debs in the cache, made when missing. Raises LabError."""
    for version in gpusim.driver_versions():
        gpusim.build(version, report)
    return [debs.pack(package, programs, report) for package, programs in wanted()]
