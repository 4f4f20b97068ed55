# SPDX-License-Identifier: Apache-2.0
"""The fake API with what objects of any kind need: discovery, lists over all namespaces, and server-side apply with owners."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from fake_api import FakeApi, selected

TIME = "2026-01-02T03:04:05Z"
Answer = tuple[int, Any]


@dataclass
class FakeObjects(FakeApi):
    """resources: by API version, plural to kind and whether it is in namespaces. refuse: by path, what writes are told."""

    resources: dict[str, dict[str, tuple[str, bool]]] = field(default_factory=dict)
    refuse: dict[str, list[Answer]] = field(default_factory=dict)

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        if self.refuse.get(path) and method != "GET":
            self.requests.append((method, path))
            return self.refuse[path].pop(0)
        version, _slash, rest = path.removeprefix("/apis/").removeprefix("/api/").partition("/")
        if path.startswith("/apis/"):
            minor, _slash, rest = rest.partition("/")
            version = f"{version}/{minor}"
        if method == "GET" and not rest and version in self.resources:
            self.requests.append((method, path))
            found = self.resources[version].items()
            return 200, {"resources": [{"name": name, "kind": kind, "namespaced": spaced} for name, (kind, spaced) in found]}
        plural = rest.rpartition("/")[2]
        if method == "GET" and plural in self.resources.get(version, {}):
            self.requests.append((method, path))
            prefix, ending = path.removesuffix(plural), f"/{plural}"
            inside = [o for p, o in self.objects.items() if p.startswith(prefix) and p.rpartition("/")[0].endswith(ending)]
            return 200, {"items": [one for one in inside if selected(one, query)]}
        if method == "PATCH" and "fieldManager" in query:
            self.requests.append((method, path))
            self.add(path, applied(self.objects.get(path), body, query["fieldManager"][0]))
            return 200, self.objects[path]
        return super().answer(method, path, query, body)

    def edit(self, path: str, manager: str, change: dict[str, Any]) -> None:
        """Change an object as another manager would."""
        found = merged(self.objects[path], change)
        found["metadata"]["managedFields"].append(entry(manager, "Update", change))
        self.add(path, found)

    def writes(self) -> list[tuple[str, str]]:
        return [request for request in self.requests if request[0] != "GET"]


def applied(found: dict[str, Any] | None, body: dict[str, Any], manager: str) -> dict[str, Any]:
    """What server-side apply makes of an object: fields the manager had and does not name go."""
    result = copy.deepcopy(found) if found else {}
    others = []
    for one in result.get("metadata", {}).pop("managedFields", []):
        if one["manager"] == manager:
            take(result, one["fieldsV1"], body)
        else:
            others.append(one)
    result = dict(merged(result, body))
    result["metadata"]["managedFields"] = [*others, entry(manager, "Apply", body)]
    return result


def take(value: dict[str, Any], fields: dict[str, Any], kept: Any) -> None:
    for key, inner in fields.items():
        name = key.removeprefix("f:")
        if isinstance(kept, dict) and name in kept:
            if inner:
                take(value[name], inner, kept[name])
        elif not inner:
            value.pop(name, None)
        elif isinstance(value.get(name), dict):
            take(value[name], inner, {})


def merged(value: Any, over: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(over, dict):
        return copy.deepcopy(over)
    return {**value, **{key: merged(value.get(key), item) for key, item in over.items()}}


def entry(manager: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
    owned = {key: item for key, item in body.items() if key not in ("apiVersion", "kind")}
    owned["metadata"] = {k: v for k, v in body.get("metadata", {}).items() if k in ("labels", "annotations")}
    return {"manager": manager, "operation": operation, "time": TIME, "fieldsV1": fields_of(owned)}


def fields_of(value: dict[str, Any]) -> dict[str, Any]:
    return {f"f:{key}": fields_of(item) if isinstance(item, dict) else {} for key, item in value.items()}
