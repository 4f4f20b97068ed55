# SPDX-License-Identifier: Apache-2.0
"""One managed entry in /etc/hosts, and the resolver file that pods may use. Pure."""

from __future__ import annotations

import ipaddress
import re
from typing import Optional

from .core import Problem
from .network import same_address

HOSTS = "/etc/hosts"
RESOLV_CONF = "/etc/resolv.conf"
UPSTREAM_RESOLV_CONF = "/run/systemd/resolve/resolv.conf"
"""Where systemd-resolved writes the real name servers (systemd-resolved.service(8))."""

BEGIN = "# BEGIN bedplate.metal.kubelet"
END = "# END bedplate.metal.kubelet"
_BLOCK = re.compile(rf"^{re.escape(BEGIN)}\n.*?^{re.escape(END)}\n?", re.MULTILINE | re.DOTALL)


def with_entry(text: str, name: str, address: Optional[str]) -> str:
    """Return the hosts file with the managed block naming the address (IPv6 bare, as hosts(5) wants), or without the block."""
    block = f"{BEGIN}\n{address} {name}\n{END}\n" if address else ""
    if _BLOCK.search(text):
        return _BLOCK.sub(block, text, count=1)
    if not block:
        return text
    return text + ("" if not text or text.endswith("\n") else "\n") + block


def contradictions(text: str, name: str, address: Optional[str]) -> list[Problem]:
    """Return a problem for each line outside the block that gives the name another address: the first line wins."""
    problems: list[Problem] = []
    if address is None:
        return problems
    for line in _BLOCK.sub("", text).splitlines():
        words = line.split("#", 1)[0].split()
        if name in words[1:] and not same_address(words[0], address) and _family(words[0]) == _family(address):
            problems.append(
                Problem(
                    f"file {HOSTS}", f"'{line.strip()}'", f"{name} at {address} only", f"remove {name} from that line on the host"
                )
            )
    return problems


def choose_resolv_conf(resolv_conf: Optional[str], upstream: Optional[str]) -> tuple[Optional[str], list[Problem]]:
    """Return the resolver file kubelet shall hand to pods, None for its default, and what is wrong with the choice.

    A file that names only loopback servers (systemd-resolved's stub, a local dnsmasq) would send CoreDNS to itself.
    """
    servers = name_servers(resolv_conf or "")
    if not servers or not all(_loopback(server) for server in servers):
        return None, []
    if [s for s in name_servers(upstream or "") if not _loopback(s)]:
        return UPSTREAM_RESOLV_CONF, []
    found = f"only the local server {', '.join(servers)}, and no upstream servers in {UPSTREAM_RESOLV_CONF}"
    next_step = "name a real server on the host, or set kubelet's resolvConf in the site data"
    return None, [Problem(f"file {RESOLV_CONF}", found, "a name server that pods can reach", next_step, "warning")]


def name_servers(resolv_conf: str) -> list[str]:
    """Return the servers of a resolv.conf(5)."""
    lines = (line.split() for line in resolv_conf.splitlines())
    return [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]


def _loopback(server: str) -> bool:
    try:
        return ipaddress.ip_address(server.split("%", 1)[0]).is_loopback
    except ValueError:
        return False


def _family(address: str) -> int:
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return 0
