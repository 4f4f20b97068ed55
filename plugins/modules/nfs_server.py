#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: shares that a host serves over NFS."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nfs_server
short_description: Serve shares over NFS
version_added: "0.1.0"
description:
  - Installs the kernel's NFS server, makes directories that are missing, and exports shares to the clients that are named, by a
    file of its own in /etc/exports.d. What other files export stays as it is; a path that is in both is refused.
  - Exports and the number of threads change while the server runs; it is never restarted.
  - A share that is no longer in O(shares) is exported no more if no client has a file open on its file system; else it stays,
    with a warning that says who. The same holds for clients that are to do less than they may. Its directory always stays.
attributes:
  check_mode:
    description: Predicts the same changes.
    support: full
  diff_mode:
    description: Shows the file of exports and what is in force.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
options:
  shares:
    description: The shares; none to take away those that were there.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the share.
        type: str
        required: true
      path:
        description: Path that is exported.
        type: str
        required: true
      clients:
        description: Addresses and ranges that are let in.
        type: list
        elements: str
        required: true
      read_only:
        description: Whether clients only read.
        type: bool
        default: false
      root_squash:
        description: Whether root of a client is nobody here.
        type: bool
        default: true
      directory_mode:
        description: Permissions of the directory where it is made.
        type: str
        default: "1777"
      disk_mount:
        description: Mount point that O(shares[].path) lies on; nothing is exported while none is mounted. Empty for any.
        type: str
        default: ""
  threads:
    description: Threads of the server.
    type: int
    default: 64
extends_documentation_fragment:
  - bedplate.metal.component
  - bedplate.metal.component.apt
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Serve the data sets to two nodes
  bedplate.metal.nfs_server:
    shares:
      - name: datasets
        path: /srv/datasets
        clients: [10.20.1.101, 10.20.1.102]
        read_only: true
        disk_mount: /srv
"""

RETURN = r"""
changes:
  description: Changes applied (in check mode, that would be), with keys what, before, after, effects.
  returned: always
  type: list
  elements: dict
deferred:
  description: Changes that disturb a node in service; none of this module's do.
  returned: always
  type: list
  elements: dict
problems:
  description: Problems with keys what, found, wanted, next_step, severity.
  returned: always
  type: list
  elements: dict
"""

import ipaddress
import re
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import LOCK_TIMEOUT_OPTION, run_component
from ansible_collections.bedplate.metal.plugins.module_utils.nfs_exports import Export
from ansible_collections.bedplate.metal.plugins.module_utils.nfs_server import NfsServer, ServerDesired
from ansible_collections.bedplate.metal.plugins.module_utils.paths import declarable

ARGUMENT_SPEC: dict[str, Any] = {
    "shares": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "path": {"type": "str", "required": True},
            "clients": {"type": "list", "elements": "str", "required": True},
            "read_only": {"type": "bool", "default": False},
            "root_squash": {"type": "bool", "default": True},
            "directory_mode": {"type": "str", "default": "1777"},
            "disk_mount": {"type": "str", "default": ""},
        },
    },
    "threads": {"type": "int", "default": 64},
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> ServerDesired:
    """Make the desired state; raise ValueError for shares that cannot be."""
    exports: list[Export] = []
    for raw in parameters["shares"]:
        clients = tuple(map(_client, dict.fromkeys(raw["clients"])))
        export = Export(**{**raw, "clients": clients})
        _check(export, exports)
        exports.append(export)
    return ServerDesired(tuple(exports), parameters["threads"], parameters["lock_timeout_seconds"])


def _client(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text)) if "/" in text else str(ipaddress.ip_address(text))
    except ValueError:
        wanted = "an address or a range of addresses"
        raise ValueError(f"clients: found {text!r}; wanted {wanted}. Next: name every client by address") from None


def _check(export: Export, others: list[Export]) -> None:
    what = f"share {export.name}"
    if not re.fullmatch(r"[A-Za-z0-9._-]+", export.name):
        raise ValueError(f"{what}: wanted a name of letters, digits, '.', '_' and '-'. Next: name it otherwise")
    for path in filter(None, (export.path, export.disk_mount)):
        if not declarable(path, "@+"):
            raise ValueError(f"{what}: found path {path!r}; wanted an absolute path without spaces. Next: choose another")
    if not export.clients:
        raise ValueError(f"{what}: found no clients; wanted those that may use it by address. Next: name them in clients")
    if any(export.name == other.name or export.path == other.path for other in others):
        raise ValueError(f"{what}: found its name or path twice; wanted each once. Next: correct the shares")


def main() -> None:
    """Run the component."""
    run_component(NfsServer(), ARGUMENT_SPEC, build_desired)


if __name__ == "__main__":
    main()
