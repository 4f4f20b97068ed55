# SPDX-License-Identifier: Apache-2.0
"""Definitions of resources that a chart brings: before its objects, and never older than what the cluster has. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.bedplate.metal.plugins.module_utils.core import Problem
from packaging.version import InvalidVersion, Version

from .identity import Object, key_of, name_of

DEFINITION = "CustomResourceDefinition"
RELEASE_LABEL = "app.kubernetes.io/version"
"""Charts put the release of their program there."""


def is_definition(item: Object) -> bool:
    """Tell whether an object defines a resource."""
    return bool(item["kind"] == DEFINITION)


def definition_problems(found: Iterable[Object], wanted: Sequence[Object]) -> list[Problem]:
    """Return why definitions that a cluster has cannot take the place of wanted ones, or the other way round."""
    there = {key_of(item): item for item in found}
    pairs = [(there[key_of(item)], item) for item in wanted if is_definition(item) and key_of(item) in there]
    return [problem for present, item in pairs for problem in (*_downgrade(present, item), *_lost(present, item))]


def _downgrade(present: Object, wanted: Object) -> Iterable[Problem]:
    before, after = _release(present), _release(wanted)
    if before is not None and after is not None and after < before:
        yield Problem(
            name_of(wanted),
            f"the definition of release {before}",
            f"one not older than it; the chart brings that of {after}",
            f"set the chart's version to {before} or newer; a downgrade needs a new cluster or its maker's instructions",
        )


def _lost(present: Object, wanted: Object) -> Iterable[Problem]:
    """Yield a problem when objects are stored in a version that the new definition does not have."""
    names = {version["name"] for version in wanted["spec"]["versions"]}
    status: Mapping[str, list[str]] = present.get("status") or {}
    lost = [version for version in status.get("storedVersions") or [] if version not in names]
    if lost:
        yield Problem(
            name_of(wanted),
            f"objects stored as {', '.join(lost)}",
            f"the versions the chart brings ({', '.join(sorted(names))})",
            "take a release between the two first, store the objects anew (kubectl get and replace), and take the old versions "
            "out of status.storedVersions",
        )


def _release(item: Object) -> Version | None:
    try:
        return Version(str((item["metadata"].get("labels") or {})[RELEASE_LABEL]))
    except (KeyError, InvalidVersion):
        return None
