# SPDX-License-Identifier: Apache-2.0
"""Variable shapes of other installers and of earlier habits, refused by name with the shape to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .inventory import Variable
from .model import SECTIONS
from .problem import SiteProblem, shown_value, suggestion, without_credentials
from .resolve import HIDDEN, Resolved

OLDER_REGISTRY_VARIABLES = (
    "containerd_registries",
    "containerd_registries_mirrors",
    "containerd_insecure_registries",
    "containerd_registry_auth",
    "docker_insecure_registries",
    "docker_registry_mirrors",
    "insecure_registries",
    "registry_mirrors",
)
OLDER_REGISTRY_KEYS = ("prefix", "endpoint", "endpoints", "mirror", "server", "insecure", "auth", "url")
OLDER_MIRROR_KEYS = ("host", "endpoint", "capabilities", "insecure", "auth")
MISPLACED = {
    "kubernetes_version": "cluster",
    "kube_version": "cluster: {kubernetes_version}",
    "endpoint": "cluster",
    "image_registry": "cluster",
    "control_plane_schedulable": "cluster",
    "node_cidrs": "network",
    "pod_cidrs": "network",
    "service_cidrs": "network",
    "kube_pods_subnet": "network: {pod_cidrs}",
    "kube_service_addresses": "network: {service_cidrs}",
    "no_proxy": "network: {proxy: {no_proxy}}",
    "http_proxy": "network: {proxy: {http}}",
    "https_proxy": "network: {proxy: {https}}",
}


def misplaced(variables: Mapping[str, Variable]) -> list[SiteProblem]:
    """Return findings about variables that look like site data and are not: older names, wrong level, misspelt sections."""
    found: list[SiteProblem] = []
    for name, variable in variables.items():
        if name in SECTIONS:
            continue
        if name in OLDER_REGISTRY_VARIABLES:
            rule = f"older variable; write {_new_shape(None, None)}"
        elif name in MISPLACED:
            rule = f"site data belongs to its section: write it under {MISPLACED[name]}"
        elif hint := _near_section(name):
            rule = f"unknown section{hint}"
        else:
            continue
        raw = variable.place.raw
        value = HIDDEN if "auth" in name else shown_value(variable.value if raw is None else raw)
        found.append(SiteProblem(variable.place, name, value, rule))
    return found


def _near_section(name: str) -> str:
    hint = suggestion(name, SECTIONS)
    # "time_zone" is a variable of the operator's own; "tmie" is a mistake
    word = hint.removeprefix("; did you mean ").removesuffix("?")
    return hint if hint and abs(len(word) - len(name)) <= 2 else ""


def older_registries(registries: Resolved) -> list[SiteProblem]:
    """Return findings about ``registries`` in a shape Bedplate does not take."""
    value = registries.value
    if isinstance(value, dict):
        host = str(next(iter(value), "docker.io"))
        rule = f"older shape (a mapping of registries); write {_new_shape(host, _first_url(value.get(host)))}"
        return [registries.problem((), f"a mapping of {', '.join(map(str, value)) or 'nothing'}", rule)]
    if not isinstance(value, list):
        return []
    found: list[SiteProblem] = []
    for index, entry in enumerate(value):
        if isinstance(entry, str):
            rule = f"older shape (a list of addresses); write {_new_shape(None, entry)}"
            found.append(registries.problem((index,), entry, rule))
        elif isinstance(entry, dict):
            found.extend(_entry(registries, index, entry))
    return found


def _entry(registries: Resolved, index: int, entry: dict[str, Any]) -> list[SiteProblem]:
    host = entry.get("host") or entry.get("prefix")
    name = str(host) if host else None
    old = [key for key in OLDER_REGISTRY_KEYS if key in entry]
    mirrors = entry.get("mirrors", [])
    url = _first_url(entry) or _first_url(mirrors)
    if old:
        key = old[0]
        value = HIDDEN if key == "auth" else entry[key]
        return [registries.problem((index, key), value, f"older key; write {_new_shape(name, url)}")]
    if isinstance(mirrors, dict):
        mirrors = [mirrors]
    for position, mirror in enumerate(mirrors if isinstance(mirrors, list) else [mirrors]):
        if isinstance(mirror, str):
            rule = f"older shape (a mirror that is only an address); write {_new_shape(name, mirror)}"
            return [registries.problem((index, "mirrors", position), mirror, rule)]
        if isinstance(mirror, dict):
            older = [key for key in OLDER_MIRROR_KEYS if key in mirror]
            if older:
                shown = HIDDEN if older[0] == "auth" else mirror[older[0]]
                rule = f"older key; write {_new_shape(name, _first_url(mirror))}"
                return [registries.problem((index, "mirrors", position, older[0]), shown, rule)]
    return []


def _first_url(value: Any) -> str | None:
    if isinstance(value, str):
        return value if value.startswith(("http://", "https://")) else None
    if isinstance(value, dict):
        value = [value.get(key) for key in ("url", "host", "endpoint", "endpoints", "mirror", "mirrors", "server")]
    if isinstance(value, list):
        return next((url for item in value if (url := _first_url(item))), None)
    return None


def _new_shape(host: str | None, url: str | None) -> str:
    mirror = without_credentials(url) if url else "https://mirror.example.com"
    shape = f"{{url: {mirror}, ca: PEM, username: USER, password: PASSWORD}}"
    return f"registries: [{{host: {host or 'docker.io'}, mirrors: [{shape}]}}]"
