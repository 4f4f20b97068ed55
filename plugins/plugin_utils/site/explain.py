# SPDX-License-Identifier: Apache-2.0
"""Turns pydantic's errors into findings an operator can act on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from .problem import SECRET_KEYS, Place, SiteProblem, suggestion
from .resolve import HIDDEN, MISSING, Resolved
from .types import Shape
from .yamlfile import Path

Model = TypeVar("Model")

_WANTED = {
    "bool_type": "must be true or false",
    "int_type": "must be a whole number, without quotes",
    "float_type": "must be a number, without quotes",
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
}


def check[Model](resolved: Resolved, adapter: TypeAdapter[Model]) -> tuple[Model | None, list[SiteProblem]]:
    """Validate a resolved variable; return the model (None when a value alone is wrong or unknown) and the findings."""
    try:
        model = adapter.validate_python(resolved.value)
        return model, [*resolved.problems, *_broken(resolved, model)]
    except ValidationError as error:
        found = list(resolved.problems)
        for detail in error.errors(include_url=False):
            path = _written(resolved, tuple(detail["loc"]))
            if not resolved.is_unknown(path):
                found.append(_explain(resolved, path, detail, adapter))
        return None, found


def _broken(resolved: Resolved, part: Any, path: Path = ()) -> Iterator[SiteProblem]:
    """Yield a finding for every rule between keys that does not hold, anywhere below a path."""
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(part, Shape):
        for key, rule in part.broken():
            at = (*path, key) if key else path
            if not resolved.is_unknown(at):
                value = _at(resolved.value, at)
                yield resolved.problem(at, MISSING if value is None else value, rule)
        inside = ((name, getattr(part, name)) for name in type(part).model_fields)
    elif isinstance(part, dict):
        inside = part.items()
    elif isinstance(part, list):
        inside = enumerate(part)
    for key, item in inside:
        yield from _broken(resolved, item, (*path, key))


def _at(value: Any, path: Path) -> Any:
    """Return what is written at a path; None where nothing is."""
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _written(resolved: Resolved, location: Path) -> Path:
    """Return the part of pydantic's location that exists in the data (it also names branches of unions)."""
    value: Any = resolved.value
    path = location[:0]
    for part in location:
        entry = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if entry or (isinstance(value, dict) and part in value):
            value = value[part]
        else:
            return location if part == location[-1] and isinstance(value, dict) else path
        path = (*path, part)
    return path


def _explain(resolved: Resolved, path: Path, detail: ErrorDetails, adapter: TypeAdapter[Any]) -> SiteProblem:
    kind, value = detail["type"], detail["input"]
    hidden = any(part in SECRET_KEYS for part in path)
    if kind == "missing":
        shape = _shape_at(adapter, path[:-1])
        text = shape.model_fields[str(path[-1])].description if shape else None
        return resolved.problem(path, MISSING, f"must be given: {_sentence(text)}" if text else "must be given")
    if kind == "extra_forbidden":
        shape = _shape_at(adapter, path[:-1])
        known = list(shape.model_fields) if shape else []
        hint = suggestion(str(path[-1]), known) or (f"; known are {', '.join(known)}" if known else "")
        return resolved.problem(path, HIDDEN if hidden else value, f"unknown key{hint}")
    if hidden:
        return resolved.problem(path, HIDDEN, _rule(kind, detail))
    place = resolved.place(path)
    if kind in ("string_type", "literal_error") and (mangled := _mangled(value, place, path in resolved.templated)):
        written = place.raw if place.raw is not None else value
        return resolved.problem(path, written, mangled)
    if kind == "literal_error":
        return resolved.problem(path, value, _one_of(value, detail))
    return resolved.problem(path, value, _rule(kind, detail))


def _mangled(value: Any, place: Place, templated: bool) -> str:
    if isinstance(value, (str, dict, list)) or value is None or templated or place.raw is None:
        return ""
    kind = "the truth value" if isinstance(value, bool) else "the number" if isinstance(value, (int, float)) else "the date"
    shown = str(value).lower() if isinstance(value, bool) else value
    return f'YAML reads it as {kind} {shown}; write it in quotes: "{place.raw}"'


def _one_of(value: Any, detail: ErrorDetails) -> str:
    expected = str(detail.get("ctx", {}).get("expected", "")).replace("'", "").replace(" or ", ", ")
    hint = suggestion(value, expected.split(", ")) if isinstance(value, str) else ""
    return f"must be one of {expected}{hint}"


def _rule(kind: str, detail: ErrorDetails) -> str:
    context = detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "model_type":
        return "must be a mapping"
    if kind in _WANTED:
        return _WANTED[kind]
    if kind == "too_short":
        return f"must have at least {context['min_length']} entry"
    if kind == "too_long":
        return f"must have at most {context['max_length']} entries"
    if kind == "string_too_short":
        return "must not be empty"
    return detail["msg"].replace("Input should be", "must be").replace("String should", "must").replace("Value should", "must")


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text[0].lower() + text[1:].rstrip(".") if text[:2] != text[:2].upper() else text.rstrip(".")


def _shape_at(adapter: TypeAdapter[Any], path: Iterable[Any]) -> type[Shape] | None:
    """Return the model that describes the mapping at a path."""
    current: Any = adapter._type
    for part in (None, *path):
        if part is not None:
            shape = shape_in(current)
            if isinstance(part, str) and shape is not None and part in shape.model_fields:
                current = shape.model_fields[part].annotation
    return shape_in(current)


def shape_in(annotation: Any) -> type[Shape] | None:
    """Return the model inside an annotation such as ``list[Queue] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        return annotation
    for argument in get_args(annotation):
        found = shape_in(argument)
        if found is not None:
            return found
    return None
