# SPDX-License-Identifier: Apache-2.0
"""The depot: a signed apt repository and an OCI registry beside the hosts, filled from the cache.

Its content lies in the cache (`depot/apt`, `depot/registry`); its two containers serve it over HTTPS with a certificate of
the lab's CA and hold no state.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bedplate_lab import aptrepo, charts, components, debian, debs, gpudebs, hostimage, images, oci, server, upstream, versions
from bedplate_lab.errors import LabError
from bedplate_lab.paths import cache, lock
from bedplate_lab.registry import split
from bedplate_lab.report import Report
from bedplate_lab.run import run

SOURCES = ("build", "upstream")


def content() -> Path:
    """The directory the depot serves: `apt/` and `registry/`."""
    return cache("depot")


def prepare(source: str, report: Report, upstream_url: str | None = None) -> None:
    """Fill the depot's content: what is there already is kept, what is missing is built (or taken from upstream).

    `source` is one of SOURCES. Raises LabError; repeated, it goes on from what is in the cache.
    """
    with lock("depot"):
        with ThreadPoolExecutor(max_workers=1) as beside:
            mirrored = beside.submit(lambda: debian.mirror(hostimage.build(report), report))
            programs = collect(source, report, upstream_url)
            packages = [*mirrored.result().glob("*.deb"), *_own_debs(programs, report), *gpudebs.pack_all(report)]
        if aptrepo.publish(packages, content() / "apt"):
            report(f"signed apt repository of {len(packages)} packages")
        _remember("program", programs["registry"] / "registry")
        _remember("helm", programs["helm"] / "helm")
        charts.build_all(report)
        _fill_registry(_layouts(source, programs, report, upstream_url), registry_program(), report)


def registry_program() -> Path:
    """The registry's program that `prepare` chose. Raises LabError before `prepare` ran."""
    link = content() / "program"
    if not link.exists():
        raise LabError(f"{link} is not there: the depot is not filled. next: scripts/lab build")
    return link.resolve()


def helm_program() -> Path:
    """Where the controller finds helm; it is there after `prepare`."""
    return content() / "helm"


def _remember(name: str, program: Path) -> None:
    link = content() / name
    if not link.is_symlink() or link.readlink() != program:
        content().mkdir(parents=True, exist_ok=True)
        temporary = link.with_name(f".{name}")
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(program)
        temporary.rename(link)


def collect(source: str, report: Report, upstream_url: str | None = None) -> dict[str, Path]:
    """The directory of programs of every component that the depot is made of."""
    if source == "upstream":
        taken = upstream.programs(report, upstream_url)
        return {**taken, **components.build_all(components.ALWAYS_BUILT, report)}
    found = components.build_all((recipe.component for recipe in components.RECIPES), report)
    return {**found, "pause": images.pause(report)}


def _own_debs(programs: Mapping[str, Path], report: Report) -> list[Path]:
    return [debs.pack(package, programs[package.component], report) for package in debs.packages().values()]


def _layouts(source: str, programs: Mapping[str, Path], report: Report, upstream_url: str | None) -> dict[str, Path]:
    """Every image of versions.yml by its full name, as a layout in the cache."""
    wanted = [recipe for recipe in images.RECIPES if source == "build" or recipe.component in components.ALWAYS_BUILT]
    found = {recipe.reference: images.build(recipe, programs[recipe.component], report) for recipe in wanted}
    for component in versions.load().values():
        for image in component.images:
            if image not in found:
                found[image] = upstream.image(image, report, upstream_url)
    return found


def _fill_registry(layouts: Mapping[str, Path], program: Path, report: Report) -> None:
    """Push what the registry lacks; a note of what it holds spares even asking when nothing changed."""
    note = content() / "registry" / "images.json"
    wanted = {reference: oci.manifest_of(layout)["digest"] for reference, layout in sorted(layouts.items())}
    text = json.dumps(wanted, indent=2)
    if note.is_file() and note.read_text() == text:
        return
    with (
        tempfile.TemporaryDirectory(prefix="bedplate-depot-") as work,
        server.running(program, content() / "registry", Path(work)) as registry,
    ):
        for reference, layout in sorted(layouts.items()):
            host, repository, tag = split(reference)
            if registry.push(layout, f"{host}/{repository}", tag):
                report(f"push {reference}")
    note.write_text(text)


def collect_garbage(report: Report) -> None:
    """Take images out of the registry that `prepare` did not push last, with their blobs; a running depot goes on."""
    note = content() / "registry" / "images.json"
    if not note.is_file():
        return
    kept = set(json.loads(note.read_text()))
    repositories = content() / "registry" / "docker" / "registry" / "v2" / "repositories"
    stale = []
    for tag in sorted(repositories.rglob("_manifests/tags/*")):
        name = f"{tag.parents[2].relative_to(repositories)}:{tag.name}"
        if name not in kept:
            report(f"drop {name} from the registry")
            stale.append(tag)
    if stale:
        for tag in stale:
            shutil.rmtree(tag)
        with tempfile.TemporaryDirectory(prefix="bedplate-depot-") as work:
            config = Path(work) / "registry.yml"
            config.write_text(server.configuration(content() / "registry", "127.0.0.1:0"))
            run([str(registry_program()), "garbage-collect", "--delete-untagged", str(config)])


def key(*parts: object) -> str:
    """A short hash of the parts."""
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:12]
