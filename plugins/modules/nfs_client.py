#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: shares that a host mounts over NFS."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nfs_client
short_description: Mount shares over NFS
version_added: "0.1.0"
description:
  - Installs the programs, and writes a line of /etc/fstab for each share and mounts it. A boot goes on without a server that is
    away, and mounts the share when it answers.
  - A server that does not answer costs seconds and is named; shares of other servers are mounted all the same.
  - A share that is to be mounted in another way has the effect V(drain). One that is no longer in O(shares) is unmounted if
    nobody uses it; else it stays, with a warning that says who does. Nothing is unmounted by force.
attributes:
  check_mode:
    description: Predicts the same changes; asks whether servers answer.
    support: full
  diff_mode:
    description: Shows lines of /etc/fstab and mounts.
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
      server:
        description: Name or address of its server.
        type: str
        required: true
      path:
        description: Path that the server exports.
        type: str
        required: true
      mount:
        description: Where it is mounted, an empty directory or none yet; empty where only pods mount it.
        type: str
        default: ""
      options:
        description: Mount options of nfs(5).
        type: list
        elements: str
        default: []
extends_documentation_fragment:
  - bedplate.metal.component
  - bedplate.metal.component.apt
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Mount the data sets
  bedplate.metal.nfs_client:
    shares:
      - name: datasets
        server: 10.20.3.5
        path: /srv/datasets
        mount: /datasets
        options: [vers=4.2, ro, hard, nconnect=8, noatime]
"""

RETURN = r"""
changes:
  description: Changes applied (in check mode, that would be), with keys what, before, after, effects.
  returned: always
  type: list
  elements: dict
deferred:
  description: Changes that disturb a node in service, with the playbook that rolls them out.
  returned: always
  type: list
  elements: dict
problems:
  description: Problems with keys what, found, wanted, next_step, severity.
  returned: always
  type: list
  elements: dict
"""

import re
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import LOCK_TIMEOUT_OPTION, run_component
from ansible_collections.bedplate.metal.plugins.module_utils.nfs_client import ClientDesired, NfsClient
from ansible_collections.bedplate.metal.plugins.module_utils.nfs_mount import Share
from ansible_collections.bedplate.metal.plugins.module_utils.paths import declarable

ARGUMENT_SPEC: dict[str, Any] = {
    "shares": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "server": {"type": "str", "required": True},
            "path": {"type": "str", "required": True},
            "mount": {"type": "str", "default": ""},
            "options": {"type": "list", "elements": "str", "default": []},
        },
    },
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> ClientDesired:
    """Make the desired state; raise ValueError for shares that cannot be."""
    shares: list[Share] = []
    for raw in parameters["shares"]:
        share = Share(**{**raw, "options": tuple(raw["options"])})
        _check(share, shares)
        shares.append(share)
    return ClientDesired(tuple(shares), parameters["lock_timeout_seconds"])


def _check(share: Share, others: list[Share]) -> None:
    what = f"share {share.name}"
    words = {"name": share.name, "server": share.server, "path": share.path, **{option: option for option in share.options}}
    for key, word in words.items():
        if not re.fullmatch(r"[^\s,#\\\"]+", word):
            raise ValueError(f"{what}: found {key} {word!r}; wanted one word without commas. Next: correct it")
    if share.mount and not declarable(share.mount):
        raise ValueError(f"{what}: found mount {share.mount!r}; wanted an absolute path without spaces. Next: choose another")
    for other in others:
        if share.name == other.name or (share.mount and share.mount == other.mount):
            raise ValueError(f"{what}: found its name or mount point twice; wanted each once. Next: correct the shares")


def main() -> None:
    """Run the component."""
    run_component(NfsClient(), ARGUMENT_SPEC, build_desired)


if __name__ == "__main__":
    main()
