# SPDX-License-Identifier: Apache-2.0
"""Paths as words: which may be declared, and which lies in which. Nothing is looked up."""

from __future__ import annotations

import re


def declarable(path: str, more: str = "") -> bool:
    """Tell whether a path is absolute and of letters, digits, ``.``, ``_``, ``-`` and ``more``, without a way up in it."""
    return bool(re.fullmatch(rf"(/[A-Za-z0-9._{re.escape(more)}-]+)+", path)) and "/../" not in f"{path}/"


def inside(path: str, other: str) -> bool:
    """Tell whether a path is another one or lies below it."""
    return f"{path}/".startswith(f"{other.rstrip('/')}/")


def nested(path: str, other: str) -> bool:
    """Tell whether one of two paths lies in the other."""
    return inside(path, other) or inside(other, path)
