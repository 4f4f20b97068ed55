# SPDX-License-Identifier: Apache-2.0
"""The JSON schema for editors and the reference in docs/site-data.md, from the same classes that validate."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator, Mapping

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from . import model, model_pool
from .explain import shape_in
from .model import Site
from .model_host import HostData
from .model_pool import GpuPool
from .types import Shape

TEMPLATE = {"type": "string", "pattern": "\\{[{%]", "description": "A Jinja template."}
NOT_USED_YET: Mapping[type[Shape], tuple[str, ...]] = {Site: model.NOT_USED_YET, GpuPool: model_pool.NOT_USED_YET}
BEGIN, END = "<!-- generated: scripts/bedplate schema --write -->", "<!-- end of the generated part -->"


def schema() -> dict[str, typing.Any]:
    """Return the schema of any file in group_vars or host_vars; every value may also be a template."""
    models: list[type[BaseModel]] = [Site, GpuPool, HostData]
    _map, whole = models_json_schema([(one, "validation") for one in models], ref_template="#/$defs/{model}")
    definitions: dict[str, typing.Any] = whole["$defs"]
    site, host = definitions.pop("Site"), definitions.pop("HostData")
    properties = {**site["properties"], "gpu_pool": {"$ref": "#/$defs/GpuPool"}, **host["properties"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Bedplate site data",
        "description": "Sections of group_vars/all, gpu_pool of a pool's group, and what a host carries.",
        "type": "object",
        "properties": {name: _or_template(part) for name, part in properties.items()},
        "$defs": {"template": TEMPLATE, **{name: _inside(part) for name, part in sorted(definitions.items())}},
    }


def schema_text() -> str:
    """Return the schema as docs/site.schema.json holds it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def _or_template(part: Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    """Let a value also be a template; plain text may be one anyway."""
    inner = _inside(part)
    if inner.get("type") == "string" and not {"pattern", "enum", "const", "format", "minLength"} & set(inner):
        return inner
    outside: dict[str, typing.Any] = {key: inner.pop(key) for key in ("description", "default", "title") if key in inner}
    outside.pop("title", None)
    branches = inner.pop("anyOf") if set(inner) == {"anyOf"} else [inner]
    return {**outside, "anyOf": [*branches, {"$ref": "#/$defs/template"}]}


def _inside(part: Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    result = {key: value for key, value in part.items() if key != "title"}
    if "properties" in result:
        result["properties"] = {name: _or_template(value) for name, value in result["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict) and result[key]:
            result[key] = _or_template(result[key])
    if "anyOf" in result:
        result["anyOf"] = [_inside(branch) for branch in result["anyOf"]]
    return result


def reference() -> str:
    """Return the reference as Markdown: one table per mapping, in the order of the classes."""
    parts = [BEGIN]
    for title, shape in (("group_vars/all", Site), ("group_vars/<pool>: gpu_pool", GpuPool), ("A host", HostData)):
        parts.append(f"## {title}\n")
        parts.extend(_tables(shape, "gpu_pool" if shape is GpuPool else ""))
    return "\n".join([*parts, END]) + "\n"


def _tables(shape: type[Shape], prefix: str) -> Iterator[str]:
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    nested: list[tuple[str, type[Shape]]] = []
    for name, info in shape.model_fields.items():
        inner, dotted = shape_in(info.annotation), f"{prefix}.{name}" if prefix else name
        kind = _kind(info.annotation)
        if inner is not None:
            nested.append((dotted + ("[]" if "list" in kind else ".<name>" if "mapping of" in kind else ""), inner))
        default = "required" if info.is_required() else _default(info.default)
        text = " ".join((info.description or "").split()).replace("|", "\\|")
        text += " Nothing acts on it yet." if name in NOT_USED_YET.get(shape, ()) else ""
        rows.append(f"| `{name}` | {kind} | {default} | {text} |")
    if prefix:
        yield f"### `{prefix}`\n"
    yield "\n".join(rows) + "\n"
    for name, inner in nested:
        yield from _tables(inner, name)


def _default(value: typing.Any) -> str:
    if value is None or isinstance(value, Shape):
        return "–" if value is None else "as below"
    return f"`{json.dumps(value)}`"


def _kind(annotation: typing.Any) -> str:
    """Return a type in the words of YAML."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _kind(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_kind(a) for a in arguments if a is not type(None)))
    if origin is typing.Literal:
        return ", ".join(f"`{a}`" for a in arguments)
    if origin is list:
        return f"list of {_kind(arguments[0])}"
    if origin is dict:
        inner = _kind(arguments[1])
        return "mapping" if inner == "any" else f"mapping of {inner}"
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        return "mapping"
    names = {"str": "text", "int": "number", "float": "number", "bool": "true/false", "SecretStr": "text, secret", "Any": "any"}
    return names.get(getattr(annotation, "__name__", ""), "count or share")
