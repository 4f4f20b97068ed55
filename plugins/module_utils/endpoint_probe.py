# SPDX-License-Identifier: Apache-2.0
"""Whether an address answers as this cluster's API, asked from a host that is already part of the cluster."""

from __future__ import annotations

import sys
from typing import Optional

from .core import Problem
from .host import Host
from .kubeadm import CA_CERTIFICATE, INITIALISING, KUBELET_CONF
from .record import Record

ANSWER_SECONDS = 5
_ADDRESSES = ("getent", "-s", "dns", "ahosts")
"""getent(1) with DNS alone: /etc/hosts still has the entry that is about to go."""
_TLS = """import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
# As Kubernetes itself: the cluster's CA is trusted also where it is an intermediate one. Python has the name since 3.10.
context.verify_flags |= getattr(ssl, "VERIFY_X509_PARTIAL_CHAIN", 0x80000)
try:
    context.load_verify_locations(sys.argv[4])
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=float(sys.argv[5])) as raw:
        context.wrap_socket(raw, server_hostname=sys.argv[3]).close()
except OSError as error:
    sys.exit(str(getattr(error, "verify_message", "") or error.strerror or error))
"""


def is_member(host: Host) -> bool:
    """Tell whether a cluster's API exists for this host: it joined, or began the cluster and that came to an end."""
    known = host.exists(CA_CERTIFICATE) and host.exists(KUBELET_CONF)
    return known and Record.load(host, "control_plane").data.get("phase") != INITIALISING


def wrong_answer(host: Host, name: str, address: Optional[str], port: int) -> Optional[str]:
    """Return what was found instead of this cluster's API, or None when it answers.

    The certificate must be one of the cluster's own CA for the endpoint's name. Without an address DNS must have one.
    """
    if address is None:
        words = host.run([*_ADDRESSES, name], timeout_seconds=2 * ANSWER_SECONDS).out.split()
        if not words:
            return f"no address of {name} in DNS"
        address = words[0]
    shown = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    argv = [sys.executable or "python3", "-c", _TLS, address, str(port), name, CA_CERTIFICATE, str(ANSWER_SECONDS)]
    result = host.run(argv, timeout_seconds=2 * ANSWER_SECONDS)
    return None if result.ok else f"{shown}, which does not answer as this cluster: {result.err.strip() or 'no reason given'}"


def problem(name: str, port: int, found: str) -> Problem:
    """Return the problem of an endpoint that would cut a node in service off from its cluster."""
    return Problem(
        f"address of the API endpoint {name}",
        found,
        f"on a node in service, an address where the API answers on port {port} within {ANSWER_SECONDS} s with a certificate for "
        f"{name} from {CA_CERTIFICATE}",
        "correct cluster.endpoint.address in the site data, or bring the API up there first; nothing was changed",
    )
