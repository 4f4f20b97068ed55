# SPDX-License-Identifier: Apache-2.0
"""What Bedplate deploys, from versions.yml at the collection's root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
"""The collection's root."""
UPSTREAM_REGISTRY = "registry.k8s.io"


@dataclass(frozen=True)
class Versions:
    """Components by name, each with version, packages and images as versions.yml has them."""

    components: dict[str, dict[str, Any]]

    def of(self, component: str) -> str:
        """Return a component's version, without a leading "v"."""
        return str(self.components[component]["version"])

    def image(self, component: str, index: int = 0, registry: str = UPSTREAM_REGISTRY) -> str:
        """Return the reference of a component's image, in another registry of the same layout when one is given."""
        image = str(self.components[component]["images"][index]).replace("{v}", self.of(component))
        return image.replace(f"{UPSTREAM_REGISTRY}/", f"{registry}/", 1) if image.startswith(UPSTREAM_REGISTRY) else image

    def image_tag(self, component: str) -> str:
        """Return the tag of a component's image."""
        return self.image(component).rpartition(":")[2]

    def kubernetes(self) -> list[str]:
        """Return the Kubernetes versions that can be deployed, the default first."""
        row = self.components["kubernetes"]
        return [str(row["version"]), *map(str, row.get("other_versions", []))]


@cache
def load_versions() -> Versions:
    """Read versions.yml."""
    with open(os.path.join(ROOT, "versions.yml"), encoding="utf-8") as stream:
        return Versions(yaml.safe_load(stream)["components"])
