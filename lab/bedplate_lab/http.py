# SPDX-License-Identifier: Apache-2.0
"""Connections to servers outside the lab: the machine's proxy settings are followed, waits are bounded."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from bedplate_lab.errors import LabError

TIMEOUT = urllib3.Timeout(connect=10, read=120)
"""Seconds to connect, and seconds between two pieces of an answer."""
CHUNK_BYTES = 1 << 20


def pool(url: str, ca: Path | None = None) -> urllib3.PoolManager:
    """Connections for `url`, through the proxy that the environment names for it; `ca` is a PEM file to trust alone."""
    parts = urlsplit(url)
    settings: dict[str, Any] = {"timeout": TIMEOUT, "retries": urllib3.Retry(2, redirect=5, status=0)}
    if ca:
        settings["ca_certs"] = str(ca)
    proxy = getproxies().get(parts.scheme)
    if proxy and not _direct(parts.hostname or ""):
        return urllib3.ProxyManager(proxy, **settings)
    return urllib3.PoolManager(**settings)


def _direct(host: str) -> bool:
    try:
        if ipaddress.ip_address(host).is_loopback:
            return True
    except ValueError:
        if host == "localhost":
            return True
    return bool(proxy_bypass(host))


@contextmanager
def named(url: str, advice: str = "") -> Iterator[None]:
    """Turn errors of the transport into a LabError that names the URL and ends with `advice`."""
    try:
        yield
    except urllib3.exceptions.HTTPError as error:
        raise LabError(f"{url} is unreachable: {error}" + (f"\n{advice}" if advice else "")) from error


def save(response: urllib3.BaseHTTPResponse, target: Path) -> str:
    """Write a streamed answer to `target`; the SHA-256 of what was written, in hex."""
    found = hashlib.sha256()
    with target.open("wb") as handle:
        for chunk in response.stream(CHUNK_BYTES):
            found.update(chunk)
            handle.write(chunk)
    response.release_conn()
    return found.hexdigest()
