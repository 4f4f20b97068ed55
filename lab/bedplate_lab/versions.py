# SPDX-License-Identifier: Apache-2.0
"""`versions.yml`, typed: every version the lab builds and the roles deploy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from bedplate_lab.errors import LabError
from bedplate_lab.paths import ROOT

FILE = ROOT / "versions.yml"
FORMAT = 1


@dataclass(frozen=True)
class Component:
    """One row of versions.yml. Names of images are complete, with registry and tag; `{v}` is filled in."""

    name: str
    version: str
    source: str
    packages: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    upstream: str | None = None
    checksum: str | None = None

    def artifact(self, binary: str) -> str | None:
        """The URL of the release artifact that holds `binary`; None when upstream releases none."""
        return self.upstream.replace("{binary}", binary) if self.upstream else None

    def artifact_checksum(self, binary: str) -> str | None:
        """The URL of the published SHA-256 of `artifact(binary)`."""
        return self.checksum.replace("{binary}", binary) if self.checksum else None


def parse(data: Any, file: Path = FILE) -> dict[str, Component]:
    """The rows of a loaded versions.yml by name. Raises LabError naming `file`, row and key."""
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        found = data.get("format") if isinstance(data, Mapping) else type(data).__name__
        raise LabError(f"{file}: format is {found!r}, this lab reads format {FORMAT}")
    return {str(name): _component(str(name), row, file) for name, row in data["components"].items()}


def _component(name: str, row: Any, file: Path) -> Component:
    if not isinstance(row, Mapping):
        raise LabError(f"{file}: {name} is not a mapping")
    for key in ("version", "source"):
        if not isinstance(row.get(key), str):
            raise LabError(f"{file}: {name}.{key} is {row.get(key)!r}, a quoted string is wanted")
    unknown = sorted(set(row) - set(Component.__dataclass_fields__))
    if unknown:
        raise LabError(f"{file}: {name} has the unknown key {unknown[0]}")
    version: str = row["version"]

    def fill(text: str) -> str:
        return text.replace("{v}", version)

    return Component(
        name=name,
        version=version,
        source=row["source"],
        packages=tuple(fill(package) for package in row.get("packages", ())),
        images=tuple(fill(image) for image in row.get("images", ())),
        upstream=fill(row["upstream"]) if "upstream" in row else None,
        checksum=fill(row["checksum"]) if "checksum" in row else None,
    )


@cache
def load() -> dict[str, Component]:
    """The rows of the repository's versions.yml by name."""
    with FILE.open() as handle:
        return parse(yaml.safe_load(handle))
