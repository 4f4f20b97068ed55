# SPDX-License-Identifier: Apache-2.0
"""Just enough TOML to read and edit containerd's files where Python has no tomllib (before 3.11) and nothing may be installed.

:func:`scan` splits a document into entries with their positions, so a file written by somebody else can be edited in place and
keep its comments. Values are decoded only where they are strings, integers, booleans or lists of strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

_STRING = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'', re.DOTALL)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)+")
_SPACE = re.compile(r"[ \t]*")
_ATOM = re.compile(r"[^\s,#\]}]+")


class TomlError(ValueError):
    """Text that is not TOML; the message names the line."""


@dataclass(frozen=True)
class Entry:
    """A table header (``key`` is empty) or a key with its value.

    table: path of the header it stands under. key: its own, possibly dotted, key. start, end: the entry's span in the text.
    key_end: end of the header's or key's own text. value: span of the value's text.
    """

    table: tuple[str, ...]
    key: tuple[str, ...]
    start: int
    key_end: int
    value: tuple[int, int]
    end: int

    @property
    def path(self) -> tuple[str, ...]:
        """The full path of the table or value."""
        return self.table + self.key


def scan(text: str) -> list[Entry]:
    """Return the document's entries in order. Raises :class:`TomlError`."""
    entries: list[Entry] = []
    table: tuple[str, ...] = ()
    at = _skip_blank(text, 0)
    while at < len(text):
        start = at
        if text[at] == "[":
            width = 2 if text.startswith("[[", at) else 1
            table, at = _keys(text, at + width)
            if not text.startswith("]" * width, at):
                raise _error(text, at, "the end of a table header")
            at += width
            entries.append(Entry(table, (), start, at, (at, at), at))
        else:
            key, key_end = _keys(text, at)
            at = _space(text, key_end)
            if text[at : at + 1] != "=":
                raise _error(text, at, "'='")
            begin = _space(text, at + 1)
            at = _skip_value(text, begin)
            entries.append(Entry(table, key, start, key_end, (begin, at), at))
        at = _space(text, at)
        if at < len(text) and text[at] not in "\r\n#":
            raise _error(text, at, "the end of the line")
        at = _skip_blank(text, at)
    return entries


def find(text: str, path: Sequence[str]) -> Optional[Entry]:
    """Return the entry that gives ``path`` a value, or None."""
    return next((e for e in scan(text) if e.key and e.path == tuple(path)), None)


def decode(raw: str) -> Any:
    """Decode a string, integer, boolean or list of those; anything else is None."""
    raw = raw.strip()
    if raw in ("true", "false"):
        return raw == "true"
    if re.fullmatch(r"[+-]?\d[\d_]*", raw):
        return int(raw)
    match = _STRING.fullmatch(raw)
    if match:
        return _unquote(raw)
    if raw.startswith("["):
        return _decode_list(raw)
    return None


def dotted(text: str) -> tuple[str, ...]:
    """Split a dotted key, e.g. ``plugins."io.containerd.gc.v1.scheduler".pause_threshold``. Raises :class:`TomlError`."""
    keys, at = _keys(text, 0)
    if text[at:].strip():
        raise _error(text, at, "the end of the key")
    return keys


def encode(value: Any) -> str:
    """Write a string, number, boolean or list of those as TOML. Raises :class:`TomlError` for other types."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(encode(v) for v in value) + "]"
    raise TomlError(f"{value!r} has no TOML form here")


def key(path: Sequence[str]) -> str:
    """Write a dotted key, quoting the parts that need it."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else json.dumps(part) for part in path)


def render(values: Mapping[tuple[str, ...], Any]) -> str:
    """Write a document from full paths to values: top-level values first, then tables, sorted and stable."""
    tables: dict[tuple[str, ...], dict[str, Any]] = {}
    for path, value in values.items():
        tables.setdefault(path[:-1], {})[path[-1]] = value
    blocks = []
    for table in sorted(tables):
        lines = [f"[{key(table)}]"] if table else []
        lines += [f"{key([name])} = {encode(value)}" for name, value in sorted(tables[table].items())]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _decode_list(raw: str) -> Optional[list[Any]]:
    values = []
    at = _skip_blank(raw, 1)
    while raw[at : at + 1] != "]":
        end = _skip_value(raw, at)
        value = decode(raw[at:end])
        if value is None:
            return None
        values.append(value)
        at = _skip_blank(raw, end)
        if raw[at : at + 1] == ",":
            at = _skip_blank(raw, at + 1)
    return values


def _unquote(raw: str) -> str:
    for mark in ('"""', "'''"):
        if raw.startswith(mark):
            body = raw[3:-3]
            body = body[1:] if body.startswith("\n") else body
            return body if mark == "'''" else _unescape(body)
    return raw[1:-1] if raw.startswith("'") else _unescape(raw[1:-1])


def _unescape(body: str) -> str:
    simple = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}

    def character(match: re.Match[str]) -> str:
        escape = match.group(1)
        return chr(int(escape[1:], 16)) if escape[0] in "uU" else simple.get(escape, escape)

    return re.sub(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", character, body)


def _keys(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """Read a dotted key; returns its parts and the position right behind the last part."""
    parts: list[str] = []
    while True:
        at = _space(text, at)
        quoted = _STRING.match(text, at) if text[at : at + 1] in ('"', "'") else None
        match = quoted or _BARE_KEY.match(text, at)
        if match is None:
            raise _error(text, at, "a key")
        parts.append(_unquote(match.group(0)) if quoted else match.group(0))
        end = match.end()
        at = _space(text, end)
        if text[at : at + 1] != ".":
            return tuple(parts), at if text[at : at + 1] == "]" else end
        at += 1


def _skip_value(text: str, at: int) -> int:
    if text[at : at + 1] in ('"', "'"):
        match = _STRING.match(text, at)
        if match is None:
            raise _error(text, at, "the end of a string")
        return match.end()
    if text[at : at + 1] in ("[", "{"):
        closing = "]" if text[at] == "[" else "}"
        return _skip_group(text, at + 1, closing)
    match = _ATOM.match(text, at)
    if match is None:
        raise _error(text, at, "a value")
    return match.end()


def _skip_group(text: str, at: int, closing: str) -> int:
    start = at
    while at < len(text):
        at = _skip_blank(text, at)
        character = text[at : at + 1]
        if character == closing:
            return at + 1
        if character in (",", "="):
            at += 1
        elif character:
            at = _skip_value(text, at)
    raise _error(text, start, f"a closing '{closing}'")


def _skip_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _error(text: str, at: int, wanted: str) -> TomlError:
    line = text.count("\n", 0, at) + 1
    found = text[at : at + 20].splitlines()[0] if text[at : at + 20].strip() else "the end of the line"
    return TomlError(f"line {line}: found {found!r}; wanted {wanted}")
