# SPDX-License-Identifier: Apache-2.0
"""Drop what the cache holds for versions and recipes that are no longer those of the checkout."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bedplate_lab import bases, charts, components, debian, debs, depot, gpudebs, gpusim, hostimage, images, ubuntu, versions
from bedplate_lab.metal import image as metal_image
from bedplate_lab.metal.plan import MACHINES
from bedplate_lab.paths import cache, lock
from bedplate_lab.report import Report


@dataclass(frozen=True)
class Pruned:
    """What was dropped: paths in the cache, and their size in bytes (blobs that others share by link not counted twice)."""

    paths: tuple[Path, ...]
    size_bytes: int


def prune(report: Report) -> Pruned:
    """Drop unnamed builds, packages, images and base host images, and remains of interrupted runs. Raises LabError."""
    with lock("depot"), lock("host-image"):
        wanted = set(_wanted())
        doomed = [path for path in _entries() if path not in wanted]
        before = _size(cache())
        for path in doomed:
            report(f"drop {path.relative_to(cache())}")
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        depot.collect_garbage(report)
        return Pruned(tuple(doomed), before - _size(cache()))


def _entries() -> Iterator[Path]:
    """Everything in the cache that belongs to a version or a recipe."""
    kinds = (cache(name) for name in ("debs", "images", "host", "charts", "metal"))
    for directory in (*sorted(cache("build").glob("*")), *kinds):
        if directory.is_dir():
            yield from sorted(directory.iterdir())
    if cache("depot").is_dir():
        yield from sorted(path for path in cache("depot").iterdir() if path.name.startswith("."))


def _wanted() -> Iterator[Path]:
    """The cache's entries that the checkout names, whether they are there or not."""
    builds = {name: [*_builds(name)] for name in versions.load()}
    for directories in builds.values():
        yield from directories
    for package in debs.packages().values():
        yield from (debs.path(package, directory / "bin") for directory in builds[package.component])
    yield from (gpusim.directory(version) for version in gpusim.driver_versions())
    yield from (debs.path(package, programs) for package, programs in gpudebs.wanted())
    for recipe in images.RECIPES:
        yield from (images.layout(recipe, directory / "bin") for directory in builds[recipe.component])
    for suite in {machine.suite for machine in MACHINES}:
        yield from (metal_image.path(suite), metal_image.root_path(suite))
    yield ubuntu.keyring_path()
    for component in versions.load().values():
        for image in component.images:
            yield from cache("images").glob(f"{images.file_name(image)}-upstream-*")
    yield from (charts.path(name) for name in charts.CHARTS)
    yield from (bases.path(name) for name in bases.BASES)
    yield hostimage.path()
    yield debian.mirror_path(hostimage.path())


def _builds(name: str) -> Iterable[Path]:
    """Where the component's programs may lie: built, or taken from upstream."""
    component = versions.load()[name]
    yield from cache("build", name).glob(f"{component.version}-upstream-*")
    if name in components.BY_COMPONENT:
        yield components.directory(components.BY_COMPONENT[name])
    elif name == "pause":
        yield images.pause_directory()


def _size(directory: Path) -> int:
    """Bytes on disk below a directory, each file once."""
    files = {(stat.st_dev, stat.st_ino): stat.st_blocks * 512 for stat in (path.lstat() for path in directory.rglob("*"))}
    return sum(files.values())
