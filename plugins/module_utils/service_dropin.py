# SPDX-License-Identifier: Apache-2.0
"""systemd drop-ins of services: proxy environment and limits. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Optional


def proxy_environment(proxy: Optional[Mapping[str, Any]]) -> dict[str, str]:
    """Return HTTP_PROXY, HTTPS_PROXY and NO_PROXY for a proxy given as {http, https, no_proxy: [...]}; empty without proxy."""
    proxy = proxy or {}
    environment = {name: str(proxy[key]) for name, key in (("HTTP_PROXY", "http"), ("HTTPS_PROXY", "https")) if proxy.get(key)}
    exceptions = [str(entry) for entry in proxy.get("no_proxy") or ()]
    if environment and exceptions:
        environment["NO_PROXY"] = ",".join(dict.fromkeys(exceptions))
    return environment


def render_dropin(owner: str, environment: Mapping[str, str], limits: Mapping[str, str], after: str = "") -> str:
    """Return the text of a ``.service.d`` file, "" when there is nothing to set.

    limits: e.g. {"LimitMEMLOCK": "infinity"}. after: the unit this one starts after.
    """
    if not environment and not limits and not after:
        return ""
    lines = [f"# Written by {owner}; changes here are overwritten."]
    lines += ["[Unit]", f"After={after}"] if after else []
    lines += ["[Service]"] if environment or limits else []
    lines += [f"Environment={_quote(f'{name}={value}')}" for name, value in sorted(environment.items())]
    lines += [f"{name}={value}" for name, value in sorted(limits.items())]
    return "\n".join(lines) + "\n"


def has_credentials(text: Optional[str]) -> bool:
    """Tell whether an address in the text carries a user's name or password."""
    return re.search(r"[a-z]+://[^/@\s]*@", text or "") is not None


def _quote(text: str) -> str:
    """Quote for systemd.exec(5): specifiers (%), backslashes and quotes lose their meaning."""
    return '"' + text.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"') + '"'
