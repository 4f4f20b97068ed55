# SPDX-License-Identifier: Apache-2.0
"""Write OCI images: layers from files, one image per directory in the OCI layout.

Layers are plain tar, not compressed: between a depot and hosts on one machine, bandwidth is free and processor time is not.
The same content always gives the same digests.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bedplate_lab import epoch

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Settings:
    """What a container of the image runs by default."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


def sha256(path: Path) -> str:
    """The digest of a file as OCI writes it, `sha256:<hex>`."""
    with path.open("rb") as handle:
        return f"sha256:{hashlib.file_digest(handle, 'sha256').hexdigest()}"


class Layer:
    """A tar file being written: every entry belongs to root and carries the same time."""

    def __init__(self, path: Path) -> None:
        self._tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by __exit__
        self._directories: set[str] = set()

    def __enter__(self) -> Layer:
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def directory(self, name: str, mode: int = 0o755) -> None:
        """Add a directory and those above it, once."""
        if name in self._directories or name in ("", "."):
            return
        self.directory(os.path.dirname(name))
        self._directories.add(name)
        self._tar.addfile(_entry(name, tarfile.DIRTYPE, mode))

    def file(self, name: str, source: Path, mode: int = 0o755) -> None:
        """Add a file with the content of `source`."""
        self.directory(os.path.dirname(name))
        entry = _entry(name, tarfile.REGTYPE, mode)
        entry.size = source.stat().st_size
        with source.open("rb") as handle:
            self._tar.addfile(entry, handle)

    def link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self.directory(os.path.dirname(name))
        entry = _entry(name, tarfile.SYMTYPE, 0o777)
        entry.linkname = target
        self._tar.addfile(entry)

    def take(self, source: Path, wanted: Callable[[str], bool]) -> None:
        """Copy files and links whose path (without a leading `/`) is `wanted` from the tar file `source`."""
        with tarfile.open(source) as tar:
            for member in sorted(tar, key=lambda one: one.name):
                name = member.name.removeprefix("./")
                if not wanted(name) or not (member.isreg() or member.issym() or member.islnk()):
                    continue
                self.directory(os.path.dirname(name))
                entry = _entry(name, member.type, member.mode)
                entry.linkname, entry.size = (
                    member.linkname.removeprefix("./") if member.islnk() else member.linkname,
                    member.size,
                )
                self._tar.addfile(entry, tar.extractfile(member) if member.isreg() else None)


def write(target: Path, reference: str, layers: Sequence[Path], settings: Settings) -> str:
    """Fill the empty directory `target` with an OCI layout of one linux/amd64 image; the digest of its manifest.

    Layer files are linked where the file system allows it, else copied.
    """
    blobs = target / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    descriptors = []
    for path in layers:
        digest = sha256(path)
        _link(path, blobs / digest.partition(":")[2])
        descriptors.append({"mediaType": LAYER, "digest": digest, "size": path.stat().st_size})
    variables = [f"{name}={value}" for name, value in settings.environment.items()]
    run: dict[str, Any] = {"Env": [f"PATH={PATH}", *variables], "WorkingDir": "/"}
    for name, value in {
        "Entrypoint": list(settings.entrypoint),
        "Cmd": list(settings.command),
        "User": settings.user,
        "Labels": dict(settings.labels),
    }.items():
        if value:
            run[name] = value
    config = {
        "created": epoch.TEXT,
        "architecture": "amd64",
        "os": "linux",
        "config": run,
        "rootfs": {"type": "layers", "diff_ids": [one["digest"] for one in descriptors]},
        "history": [{"created": epoch.TEXT, "created_by": "bedplate lab"} for _ in descriptors],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _blob(blobs, config, CONFIG),
        "layers": descriptors,
    }
    entry = _blob(blobs, manifest, MANIFEST)
    finish(target, reference, entry)
    return str(entry["digest"])


def finish(target: Path, reference: str, manifest: Mapping[str, Any]) -> None:
    """Complete a layout whose blobs are there: the image is `manifest` (a descriptor) under the name `reference`."""
    annotated = {**manifest, "annotations": {"org.opencontainers.image.ref.name": reference}}
    (target / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    (target / "index.json").write_text(json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [annotated]}))


def manifest_of(layout: Path) -> dict[str, Any]:
    """The descriptor of the layout's only image: mediaType, digest, size."""
    index = json.loads((layout / "index.json").read_text())
    descriptor: dict[str, Any] = index["manifests"][0]
    return descriptor


def blob_path(layout: Path, digest: str) -> Path:
    """Where a layout keeps the blob `sha256:<hex>`."""
    return layout / "blobs" / "sha256" / digest.partition(":")[2]


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, mode, epoch.SECONDS
    entry.uname = entry.gname = "root"
    return entry


def _blob(blobs: Path, value: Mapping[str, Any], media_type: str) -> dict[str, Any]:
    content = json.dumps(value, separators=(",", ":")).encode()
    name = hashlib.sha256(content).hexdigest()
    (blobs / name).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{name}", "size": len(content)}


def _link(source: Path, target: Path) -> None:
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
