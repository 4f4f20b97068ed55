# SPDX-License-Identifier: Apache-2.0
"""What validation says: one line per finding, ``file:line: key = value: rule``."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

ERROR = "error"
WARNING = "warning"

SECRET_KEYS = ("auth", "password")
"""Keys whose values are never shown, of the site data and of older shapes."""

SHOWN_VALUE_CHARACTERS = 80
"""A longer value is cut in messages."""


@dataclass(frozen=True)
class Place:
    """Where a value is written.

    file: path as the operator would type it. line: counted from 1.
    raw: a scalar's own text (None for a mapping or a list); quoted: it stands in quotes or in a block.
    """

    file: str
    line: int
    raw: str | None = None
    quoted: bool = False


@dataclass(frozen=True)
class SiteProblem:
    """One finding. key: dotted path, e.g. ``network.pod_cidrs[0]``; value: as written, already fit to be shown."""

    place: Place
    key: str
    value: str
    rule: str
    severity: str = ERROR

    def __str__(self) -> str:
        text = f"{self.place.file}:{self.place.line}: {self.key} = {self.value}: {self.rule}"
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

    def public(self) -> dict[str, Any]:
        """Return the finding as JSON types: file, line, key, value, rule, severity."""
        return {
            "file": self.place.file,
            "line": self.place.line,
            "key": self.key,
            "value": self.value,
            "rule": self.rule,
            "severity": self.severity,
        }


def in_order(problems: Iterable[SiteProblem]) -> list[SiteProblem]:
    """Return the findings without repeats, by file and line."""
    return sorted(set(problems), key=lambda p: (p.place.file, p.place.line, p.key, p.rule))


def shown_path(path: str) -> str:
    """Return a path relative to the working directory where it lies below it, else as it is."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def shown_value(value: Any) -> str:
    """Return a value as it may stand in a message: one line, cut when long."""
    value = _without_secrets(value)
    if value is None:
        return "(nothing)"
    if value is True or value is False:
        return str(value).lower()
    text = " ".join(str(value).split()) if isinstance(value, str) else str(value)
    text = without_credentials(text, "(hidden)@")
    if text == "":
        return '""'
    return text if len(text) <= SHOWN_VALUE_CHARACTERS else text[:SHOWN_VALUE_CHARACTERS] + "…"


def without_credentials(text: str, instead: str = "") -> str:
    """Return a text with the user and password of its URLs replaced; a password may hold any character but a space or a quote."""
    return re.sub(r"://[^\s'\"]*@", f"://{instead}", text)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "(hidden)" if key in SECRET_KEYS else _without_secrets(item) for key, item in value.items()}
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def dotted(path: Iterable[Any]) -> str:
    """Return ``("network", "pod_cidrs", 0)`` as ``network.pod_cidrs[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` for a word close to a known one, else nothing."""
    candidates = sorted(known)
    close = difflib.get_close_matches(str(word), candidates, n=1, cutoff=0.7)
    close = close or [name for name in candidates if len(str(word)) >= 4 and str(word) in name]
    return f"; did you mean {close[0]}?" if close else ""
