# SPDX-License-Identifier: Apache-2.0
"""Take upstream's release binaries and images instead of building (`--source upstream`).

Every artifact is verified against the checksum published beside it. With `--upstream-url URL` everything comes from one server
that holds upstream's layout below a directory per host: https://dl.k8s.io/release/… is URL/dl.k8s.io/release/…, and the
image registry.k8s.io/pause:3.10.2 is the repository registry.k8s.io/pause of the registry at URL.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from pathlib import Path
from urllib.parse import urlsplit

import urllib3

from bedplate_lab import components, debs, http, images, versions
from bedplate_lab.errors import LabError
from bedplate_lab.paths import cache, new_dir
from bedplate_lab.registry import Registry, split
from bedplate_lab.report import Report
from bedplate_lab.versions import Component

DOCKER_HUB = {"docker.io": "registry-1.docker.io"}
ADVICE = (
    "--source upstream wants a machine with internet, or a server of the same layout named by --upstream-url; "
    "--source build needs neither"
)


def programs(report: Report, base_url: str | None = None) -> dict[str, Path]:
    """The directory of programs of every component that upstream releases as binaries, by component.

    Raises LabError naming the URL that is unreachable, refuses, or does not match its checksum.
    """
    rows = versions.load()
    return {name: fetch(rows[name], wanted, report, base_url) for name, wanted in needed().items()}


def needed() -> dict[str, tuple[str, ...]]:
    """The programs the depot takes from upstream's releases: those of packages, the registry, helm; () is all there are."""
    found: dict[str, list[str]] = {"helm": ["helm"], "registry": ["registry"]}
    for package in debs.packages().values():
        if package.component in components.ALWAYS_BUILT:
            continue
        found.setdefault(package.component, []).extend(name for _, name in package.programs)
    return {name: tuple(sorted(found[name])) for name in sorted(found)}


def fetch(component: Component, wanted: tuple[str, ...], report: Report, base_url: str | None = None) -> Path:
    """The directory of a component's release binaries in the cache, downloaded when missing."""
    source = hashlib.sha256(f"{component.upstream} {wanted} {base_url}".encode()).hexdigest()[:12]
    target = cache("build", component.name, f"{component.version}-upstream-{source}")
    if not target.is_dir():
        if component.upstream is None or component.checksum is None:
            raise LabError(
                f"{versions.FILE.name}: {component.name} names no upstream artifact and checksum, so --source upstream cannot "
                "take it; use --source build"
            )
        report(f"download {component.name} {component.version}")
        with new_dir(target) as temporary:
            directory = temporary / "bin"
            directory.mkdir()
            if "{binary}" in component.upstream:
                for name in wanted:
                    _download(component, name, directory / name, base_url)
            else:
                archive = temporary / "archive"
                _download(component, "", archive, base_url)
                _unpack(archive, directory, wanted, component)
                archive.unlink()
            for path in directory.iterdir():
                path.chmod(0o755)
    return target / "bin"


def image(reference: str, report: Report, base_url: str | None = None) -> Path:
    """An image from its upstream registry as a layout in the cache, pulled when missing."""
    source = hashlib.sha256(f"{reference} {base_url}".encode()).hexdigest()[:12]
    target = cache("images", f"{images.file_name(reference)}-upstream-{source}")
    if not target.is_dir():
        report(f"pull {reference}")
        host, repository, tag = split(reference)
        registry = Registry(base_url.rstrip("/")) if base_url else Registry(f"https://{DOCKER_HUB.get(host, host)}")
        with new_dir(target) as temporary:
            registry.pull(f"{host}/{repository}" if base_url else repository, tag, reference, temporary)
    return target


def located(url: str, base_url: str | None) -> str:
    """Where `url` is fetched from: itself, or its place on the server that stands in for upstream."""
    if base_url is None:
        return url
    parts = urlsplit(url)
    return f"{base_url.rstrip('/')}/{parts.netloc}{parts.path}"


def _download(component: Component, binary: str, target: Path, base_url: str | None) -> None:
    url, checksum_url = component.artifact(binary), component.artifact_checksum(binary)
    assert url is not None and checksum_url is not None
    published = _get(located(checksum_url, base_url)).data.decode(errors="replace").split()
    if not published or len(published[0]) != 64:
        raise LabError(f"{located(checksum_url, base_url)}: no SHA-256 in it (found {' '.join(published)[:80]!r})")
    with http.named(located(url, base_url), ADVICE):
        found = http.save(_get(located(url, base_url), stream=True), target)
    if found != published[0].lower():
        raise LabError(
            f"{located(url, base_url)}: its SHA-256 is {found}, the published one is {published[0]}; "
            "nothing was kept: try again, and ask who serves it when it stays so"
        )


def _get(url: str, *, stream: bool = False) -> urllib3.BaseHTTPResponse:
    with http.named(url, ADVICE):
        response = http.pool(url).request("GET", url, preload_content=not stream, decode_content=False)
    if response.status != 200:
        raise LabError(
            f"{url}: the server answered {response.status}, 200 was wanted; is the version in {versions.FILE.name} released?"
        )
    return response


def _unpack(archive: Path, target: Path, wanted: tuple[str, ...], component: Component) -> None:
    """Take the wanted programs out of a release archive, wherever in it they are; all of them when none is named."""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if member.isreg() else None
            if content and (name in wanted or (not wanted and member.mode & 0o100)):
                with (target / name).open("wb") as handle:
                    shutil.copyfileobj(content, handle)
    missing = sorted(set(wanted) - {path.name for path in target.iterdir()})
    if missing:
        raise LabError(f"{component.artifact('')}: the archive lacks {', '.join(missing)}")
