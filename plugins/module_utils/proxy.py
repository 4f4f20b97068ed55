# SPDX-License-Identifier: Apache-2.0
"""HTTP proxy settings: what is exempt from the proxy, and the files apt and login shells read; pure."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from .core import Problem
from .network import uri_endpoint

APT_PROXY = "/etc/apt/apt.conf.d/90bedplate-proxy"
PROFILE_DIRECTORY = "/etc/profile.d"
PROFILE = f"{PROFILE_DIRECTORY}/zz-bedplate-proxy.sh"
"""Shells read the directory in alphabetical order: ours comes after scripts left from earlier set-ups."""
ENVIRONMENT = "/etc/environment"
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?(https?_proxy|no_proxy)=(.*?)\s*;?\s*$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True)
class Proxy:
    """http, https: proxy URLs or "". no_proxy: names, .domains, addresses and ranges reached directly, in order."""

    http: str = ""
    https: str = ""
    no_proxy: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.http or self.https)


def exempt(host: str, no_proxy: Iterable[str]) -> bool:
    """Tell whether a host name or address is covered by a no_proxy list (names, .domains, *.domains, addresses, ranges)."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        names = [e.lstrip("*").lstrip(".").lower() for e in no_proxy]
        return any(n and (host.lower() == n or host.lower().endswith("." + n)) for n in names)
    for entry in no_proxy:
        try:
            if address in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False


def apt_proxy_text(proxy: Proxy, uris: Sequence[str]) -> str:
    """Return apt's proxy settings; sources whose host is exempt are reached directly (apt.conf knows no no_proxy list)."""
    lines = [f'Acquire::{scheme}::Proxy "{url}";' for scheme, url in (("http", proxy.http), ("https", proxy.https)) if url]
    for uri in dict.fromkeys(uris):
        host = uri_endpoint(uri)[0]
        if exempt(host, proxy.no_proxy) and ":" not in host:  # apt.conf separates names by "::": no IPv6 address in a name
            lines.append(f'Acquire::{urlsplit(uri).scheme}::Proxy::{host} "DIRECT";')
    return "\n".join(dict.fromkeys(lines)) + "\n"


def profile_text(proxy: Proxy, no_proxy: Sequence[str]) -> str:
    """Return the script for login shells; both spellings, because programs differ in which they read."""
    values = {"http_proxy": proxy.http, "https_proxy": proxy.https, "no_proxy": ",".join(no_proxy)}
    lines = ["# Written by Bedplate from network.proxy in the site data; entries of other files are kept in no_proxy."]
    for name, value in values.items():
        if value:
            lines.append(f"export {name}={shlex.quote(value)} {name.upper()}={shlex.quote(value)}")
    return "\n".join(lines) + "\n"


def assignments(text: str) -> dict[str, str]:
    """Return the last value of each proxy variable (lower-case names) that a shell script or /etc/environment sets."""
    return {name.lower(): value.strip("\"'") for name, value in _ASSIGNMENT.findall(_one_per_line(text))}


def _one_per_line(text: str) -> str:
    return re.sub(r"\s+(?=(?:https?_proxy|no_proxy)=)", "\n", text, flags=re.IGNORECASE)


def user_no_proxy(profiles: Mapping[str, str], proxy: Proxy) -> list[str]:
    """Return the whole no_proxy list: ours, then entries of the host's own files that ours lacks (no references to variables)."""
    entries = list(proxy.no_proxy)
    for _path, text in sorted(profiles.items()):
        entries += [e.strip() for e in assignments(text).get("no_proxy", "").split(",")]
    return [e for e in dict.fromkeys(entries) if e and "$" not in e]


def stale_profiles(profiles: Mapping[str, str], proxy: Proxy) -> list[Problem]:
    """Warn of files of the host that set another proxy than the site's."""
    problems = []
    for path, text in sorted(profiles.items()):
        for name, value in assignments(text).items():
            wanted = {"http_proxy": proxy.http, "https_proxy": proxy.https}.get(name)
            if wanted is None or not value or value.rstrip("/") == wanted.rstrip("/"):
                continue
            found = f"{name}={without_credentials(value)}"
            expected = f"{name}={without_credentials(wanted)}" if wanted else f"no {name}"
            step = f"remove the line from {path}; programs started there use the other proxy until then"
            problems.append(Problem(f"stale proxy in {path}", found, expected, step, "warning"))
    return problems


def without_credentials(text: str) -> str:
    """Return a text whose URLs are without user and password."""
    return re.sub(r"//[^/@\s]*@", "//", text)
