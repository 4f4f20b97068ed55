# SPDX-License-Identifier: Apache-2.0
"""Registries and their mirrors as containerd's hosts.toml files. Pure.

Source of the format: containerd, docs/hosts.md. Credentials travel as an ``Authorization`` header of the mirror they belong to,
in a file only root can read.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional
from urllib.parse import urlsplit

from . import toml_text
from .containerd_config import REGISTRY_DIRECTORY

MARK = "# Written by bedplate.metal.container_runtime; changes here are overwritten.\n"
UPSTREAM_HOSTS = {"docker.io": "registry-1.docker.io"}
"""Registries whose API answers under another name than images use (containerd, core/remotes/docker)."""
CAPABILITIES = 'capabilities = ["pull", "resolve"]'
ANY = "_default"
"""containerd's name for every registry that has no directory of its own."""

OLD_KEYS = {
    "prefix": "host",
    "registry": "host",
    "name": "host",
    "endpoint": "mirrors: [{url: …}]",
    "endpoints": "mirrors: [{url: …}]",
    "mirror": "mirrors: [{url: …}]",
    "insecure": "mirrors: [{skip_verify: true}]",
    "insecure_skip_verify": "mirrors: [{skip_verify: true}]",
    "tls": "mirrors: [{ca: …}]",
    "ca_file": "mirrors: [{ca: …}] (the PEM text itself)",
    "auth": "mirrors: [{username: …, password: …}]",
    "username": "mirrors: [{username: …}]",
    "password": "mirrors: [{password: …}]",
}
OLD_MIRROR_KEYS = {
    "host": "url",
    "endpoint": "url",
    "insecure": "skip_verify",
    "insecure_skip_verify": "skip_verify",
    "ca_file": "ca (the PEM text itself)",
    "capabilities": "nothing (mirrors pull and resolve)",
    "auth": "username and password",
}


@dataclass(frozen=True)
class Mirror:
    """Where images of a registry may come from.

    url: scheme, host, optional port and path. ca: PEM of the authority of its certificate. override_path: the URL's path is the
    whole API root (as for a mirror that serves many registries under one name). skip_verify: the certificate is not checked.
    """

    url: str
    ca: Optional[str] = None
    override_path: bool = False
    username: Optional[str] = None
    password: Optional[str] = None
    skip_verify: bool = False


@dataclass(frozen=True)
class Registry:
    """A registry by the name images carry (or ``_default``), its mirrors in order, and whether to ask itself at last."""

    host: str
    mirrors: tuple[Mirror, ...]
    fallback: bool = True


@dataclass(frozen=True)
class HostsFile:
    """A file under certs.d with its permission bits; secret when it carries credentials."""

    text: str
    mode: int = 0o644
    secret: bool = False


def parse_registries(raw: Any) -> tuple[Registry, ...]:
    """Check and convert the site's registries. Raises ValueError with every mistake, naming older shapes by their names."""
    if isinstance(raw, Mapping):
        shown = ", ".join(str(name) for name in raw)
        raise ValueError(
            f"registries: found a mapping ({shown}), the shape of containerd's old registry.mirrors; "
            "wanted a list of {host: …, mirrors: [{url: …}]}"
        )
    mistakes: list[str] = []
    registries: list[Registry] = []
    for index, given in enumerate(raw or ()):
        if not isinstance(given, Mapping):
            mistakes.append(f"registries[{index}]: found {_shown(given)}; wanted {{host: …, mirrors: [{{url: …}}]}}")
            continue
        item = _without_nulls(given)
        where = f"registries[{index}] ({item.get('host') or item.get('prefix') or item.get('name') or 'without host'})"
        mistakes.extend(_unknown(where, item, ("host", "mirrors", "fallback"), OLD_KEYS))
        host = item.get("host")
        if host is not None and not re.fullmatch(r"_default|[A-Za-z0-9.-]+(:\d+)?|\[[0-9a-fA-F:]+\](:\d+)?", str(host)):
            mistakes.append(f"{where}.host: found {host!r}; wanted a registry's name (registry.k8s.io), without scheme or path")
        elif host is None and not set(item) & {"prefix", "registry", "name"}:
            mistakes.append(f"{where}: found no host; wanted the registry's name")
        mirrors, refused = _parse_mirrors(where, item.get("mirrors"))
        mistakes += refused
        registries.append(Registry(str(host), mirrors, bool(item.get("fallback", True))))
    names = [r.host for r in registries]
    mistakes += [f"registries: found {name} twice; wanted it once" for name in sorted({n for n in names if names.count(n) > 1})]
    lonely = [r.host for r in registries if not r.fallback and not r.mirrors]
    mistakes += [f"registries ({name}).fallback: found false without mirrors; wanted at least one" for name in lonely]
    if mistakes:
        raise ValueError("\n".join(mistakes))
    return tuple(registries)


def hosts_files(registries: Sequence[Registry]) -> dict[str, HostsFile]:
    """Return every file to have under certs.d: hosts.toml per registry, and the authorities it names."""
    files: dict[str, HostsFile] = {}
    for registry in registries:
        directory = f"{REGISTRY_DIRECTORY}/{directory_name(registry.host)}"
        authorities: list[Optional[str]] = []
        for index, mirror in enumerate(registry.mirrors):
            path = f"{directory}/bedplate-{index}.crt" if mirror.ca else None
            authorities.append(path)
            if path is not None and mirror.ca is not None:
                files[path] = HostsFile(mirror.ca.strip() + "\n")
        secret = any(m.username for m in registry.mirrors)
        text = _render(registry, authorities)
        files[f"{directory}/hosts.toml"] = HostsFile(text, 0o600 if secret else 0o644, secret)
    return files


def directory_name(host: str) -> str:
    """Return containerd's directory for a registry: ports are written ``_PORT_`` (a colon is not allowed on every system)."""
    match = re.fullmatch(r"(.+):(\d+)", host)
    return f"{match.group(1)}_{match.group(2)}_" if match else host


def _render(registry: Registry, authorities: Sequence[Optional[str]]) -> str:
    lines = []
    named = list(zip(registry.mirrors, authorities))
    if not registry.fallback:  # the server is what is asked at last: the last mirror instead of the registry itself
        last, authority = named.pop()
        lines += [f"server = {toml_text.encode(last.url)}", CAPABILITIES, *_options(last, authority)]
        if last.username:
            lines += ["", "[header]", _authorization(last)]
    elif registry.host != ANY:
        lines.append(f"server = {toml_text.encode('https://' + UPSTREAM_HOSTS.get(registry.host, registry.host))}")
    for mirror, authority in named:
        name = toml_text.key(("host", mirror.url))
        lines += ["", f"[{name}]", CAPABILITIES, *_options(mirror, authority)]
        if mirror.username:
            lines += ["", f"[{name}.header]", _authorization(mirror)]
    return MARK + "\n".join(lines) + "\n"


def _options(mirror: Mirror, authority: Optional[str]) -> list[str]:
    return [
        *([f"ca = {toml_text.encode(authority)}"] if authority else []),
        *(["override_path = true"] if mirror.override_path else []),
        *(["skip_verify = true"] if mirror.skip_verify else []),
    ]


def _authorization(mirror: Mirror) -> str:
    pair = base64.b64encode(f"{mirror.username}:{mirror.password or ''}".encode()).decode()
    return f"Authorization = {toml_text.encode('Basic ' + pair)}"


def _parse_mirrors(where: str, raw: Any) -> tuple[tuple[Mirror, ...], list[str]]:
    if raw is None:
        return (), []
    if not isinstance(raw, (list, tuple)):
        return (), [f"{where}.mirrors: found {_shown(raw)}; wanted a list of {{url: …}}"]
    mirrors: list[Mirror] = []
    mistakes: list[str] = []
    for index, given in enumerate(raw):
        place = f"{where}.mirrors[{index}]"
        if not isinstance(given, Mapping):
            mistakes.append(f"{place}: found {_shown(given)}; wanted {{url: …}} (a bare address is an older shape)")
            continue
        item = _without_nulls(given)
        known = ("url", "ca", "override_path", "username", "password", "skip_verify")
        mistakes += _unknown(place, item, known, OLD_MIRROR_KEYS)
        url = str(item.get("url") or "")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            if "url" in item or not set(item) & set(OLD_MIRROR_KEYS):
                mistakes.append(f"{place}.url: found {_shown(url) if url else 'nothing'}; wanted http(s)://host[:port][/path]")
        elif parts.username or parts.password:
            mistakes.append(f"{place}.url: found credentials in the address; wanted them as username and password")
        ca = item.get("ca")
        if ca and "-----BEGIN CERTIFICATE-----" not in str(ca):
            mistakes.append(f"{place}.ca: found no PEM certificate; wanted its text (-----BEGIN CERTIFICATE-----…), not a path")
        if bool(item.get("username")) != bool(item.get("password")):
            mistakes.append(f"{place}: found only one of username and password; wanted both")
        options = {name: item[name] for name in known[1:] if name in item}
        mirrors.append(Mirror(url.rstrip("/"), **options))
    return tuple(mirrors), mistakes


def _shown(value: Any) -> str:
    """Return a value as it may stand in a message: no mappings (they may hold a password), no user and password in addresses."""
    return "a mapping" if isinstance(value, Mapping) else re.sub(r"[^/\s'\"]*@", "", repr(value))


def _without_nulls(item: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what is not set: Ansible fills every known key in with null."""
    return {name: value for name, value in item.items() if value is not None}


def _unknown(where: str, item: Mapping[str, Any], known: Sequence[str], old: Mapping[str, str]) -> list[str]:
    mistakes = []
    for name in item:
        if name not in known:
            found = "a key of an older shape" if name in old else "an unknown key"
            mistakes.append(f"{where}.{name}: found {found}; wanted {old.get(name, 'one of ' + ', '.join(known))}")
    return mistakes
