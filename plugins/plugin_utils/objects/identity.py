# SPDX-License-Identifier: Apache-2.0
"""Which object is meant, and whose it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MANAGER = "bedplate"
"""Field manager of everything applied, and the value of the next label."""
MANAGED_LABEL = "app.kubernetes.io/managed-by"
TUNED = "bedplate.dev/tuned"
"""Annotation: an object with it was changed on purpose (the value says why) and is left as it is."""

Object = Mapping[str, Any]
Kind = tuple[str, str]
"""API version and kind."""
Key = tuple[str, str, str]
"""Kind, namespace ("" for none), name."""


def kind_of(item: Object) -> Kind:
    """Return an object's API version and kind."""
    return item["apiVersion"], item["kind"]


def key_of(item: Object) -> Key:
    """Return what tells an object from all others."""
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace") or "", metadata["name"]


def name_of(item: Object) -> str:
    """Return an object's kind and name as messages have it."""
    kind, namespace, name = key_of(item)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def ours(item: Object) -> bool:
    """Tell whether an object says that it was made here."""
    return (item["metadata"].get("labels") or {}).get(MANAGED_LABEL) == MANAGER
