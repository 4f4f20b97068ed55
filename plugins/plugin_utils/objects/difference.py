# SPDX-License-Identifier: Apache-2.0
"""How an object in the cluster differs from what it shall be: field by field, and by whose hand. Pure.

Only fields that are wanted count, and those that this manager once set and wants no more: the API server keeps who set what
(managedFields), so what others added stays, and a field taken out of the site data goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from .identity import MANAGER

Path = tuple[str | int, ...]
MISSING = object()
IDENTITY = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
UNITS = {"m": Decimal("0.001"), "": Decimal(1), "k": Decimal(10**3)}
UNITS |= {unit: Decimal(10 ** (3 * power)) for power, unit in enumerate("MGTPE", 2)}
UNITS |= {f"{unit}i": Decimal(1024**power) for power, unit in enumerate("KMGTPE", 1)}


@dataclass(frozen=True)
class Difference:
    """A field that is not as wanted. before, after: None where there is none. by: who else set it and when, or empty."""

    path: Path
    label: str
    before: Any
    after: Any
    by: str = ""


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[Difference]:
    """Return the fields of an object that differ from what is wanted."""
    different = list(_different(found, wanted, (), ""))
    for path in _set_by(found, MANAGER):
        value = _at(found, path)
        if path not in IDENTITY and _at(wanted, path) is MISSING and value is not MISSING:
            different.append(Difference(path, _label(path), value, None))
    return [Difference(one.path, one.label, one.before, one.after, _others(found, one.path)) for one in different]


def quantity(value: Any) -> Decimal | None:
    """Return the number a Kubernetes quantity stands for; None for another text."""
    text = str(value)
    number = text.rstrip("mkKMGTPEi")
    try:
        return Decimal(number) * UNITS[text[len(number) :]]
    except (InvalidOperation, KeyError):
        return None


def _different(found: Any, wanted: Any, path: Path, label: str) -> Iterator[Difference]:
    if path in IDENTITY:
        return
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        for key, value in wanted.items():
            yield from _different(found.get(key, MISSING), value, (*path, key), f"{label}{_part(key, bool(label))}")
    elif isinstance(wanted, list) and isinstance(found, list) and _alike(found, wanted):
        for index, value in enumerate(wanted):
            name = value.get("name", index) if isinstance(value, Mapping) else index
            yield from _different(found[index], value, (*path, index), f"{label}[{name}]")
    elif not _same(found, wanted):
        yield Difference(path, label, None if found is MISSING else found, wanted)


def _alike(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Tell whether two lists can be compared entry by entry: as many, and of the same names."""

    def names(items: Sequence[Any]) -> list[Any]:
        return [item.get("name") if isinstance(item, Mapping) else None for item in items]

    return len(found) == len(wanted) and names(found) == names(wanted)


def _same(found: Any, wanted: Any) -> bool:
    if found is MISSING or isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    number = quantity(wanted)
    return bool(found == wanted) or (number is not None and quantity(found) == number)


def _set_by(found: Mapping[str, Any], manager: str) -> Iterator[Path]:
    """Yield the fields a manager has applied; a list counts as one."""
    for entry in (found.get("metadata") or {}).get("managedFields") or []:
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            yield from _leaves(entry.get("fieldsV1") or {}, ())


def _leaves(fields: Mapping[str, Any], path: Path) -> Iterator[Path]:
    inner = {key.removeprefix("f:"): value for key, value in fields.items() if key.startswith("f:")}
    if not inner:
        yield path
    for key, value in inner.items():
        yield from _leaves(value, (*path, key))


def _others(found: Mapping[str, Any], path: Path) -> str:
    """Return which other managers set a field, each with the time it last did something."""
    names = []
    for entry in (found.get("metadata") or {}).get("managedFields") or []:
        if entry.get("manager") != MANAGER and _holds(entry.get("fieldsV1") or {}, path):
            names.append(f"{entry.get('manager')} at {entry.get('time', '(no time)')}")
    return ", ".join(names)


def _holds(fields: Mapping[str, Any], path: Path) -> bool:
    """Tell whether fields hold a path, or a list or mapping around it as a whole."""
    for part in path:
        if not fields:
            return True
        if f"f:{part}" not in fields:
            return False
        fields = fields[f"f:{part}"]
    return True


def _at(value: Any, path: Path) -> Any:
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return MISSING
        value = value[part]
    return value


def _part(key: str, inner: bool) -> str:
    if "." in key or "/" in key:
        return f"[{key}]"
    return f".{key}" if inner else key


def _label(path: Path) -> str:
    text = ""
    for part in path:
        text += _part(str(part), bool(text))
    return text
