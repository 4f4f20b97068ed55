#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: checks of places for data on a host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: storage_check
short_description: Check local volumes and shares on a host
version_added: "0.1.0"
description:
  - V(measure) writes a checkpoint, restores it and reads it once more by fio, and makes, reads and removes a tree of small files;
    files of a share are also staged onto the host's first local place. What is read is compared with what was written.
  - All of it is in a directory of its own in each place, which is removed afterwards; what a killed check left, the next removes.
    Other files are never touched, and at most a quarter of what is free is used.
  - A check that does not come off is a result with a reason, and does not fail the module. C(playbooks/check_storage.yml) judges.
  - V(keep) writes a baseline into the host's record, C(/var/lib/bedplate/storage_check.json).
attributes:
  check_mode:
    description: Measures nothing.
    support: none
  diff_mode:
    description: Shows nothing.
    support: none
  idempotent:
    description: Leaves nothing on the host but the package fio.
    support: full
options:
  step:
    description: What to do.
    type: str
    choices: [measure, keep]
    default: measure
  places:
    description: Places for data.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the place.
        type: str
        required: true
      path:
        description: Where it is mounted.
        type: str
        required: true
      kind:
        description: Whether it is a volume of the host or a share.
        type: str
        choices: [local, nfs]
        default: local
      server:
        description: Server of a share, for messages.
        type: str
        default: ""
      read_only:
        description: Whether nothing is written there.
        type: bool
        default: false
      sample:
        description: Directory below O(places[].path) whose files are read where it is read-only.
        type: str
        default: ""
  directory:
    description: Name of the check's own directory in each place; each host of a share needs one of its own.
    type: str
    default: .bedplate-check
  file_bytes:
    description: Size of the large file, in whole MiB.
    type: int
    default: 1073741824
  files:
    description: How many small files there are.
    type: int
    default: 2000
  small_file_bytes:
    description: Size of each of them.
    type: int
    default: 65536
  limit_seconds:
    description: How long each check may take.
    type: int
    default: 60
  baseline:
    description: With O(step=keep), what is written into the record.
    type: dict
  lock_timeout_seconds:
    description: How long to wait for apt's locks.
    type: int
    default: 300
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Check a scratch volume and a share
  bedplate.metal.storage_check:
    places:
      - {name: scratch, path: /scratch}
      - {name: datasets, path: /datasets, kind: nfs, server: 10.20.3.5, read_only: true, sample: check}
    directory: .bedplate-check-node1
"""

RETURN = r"""
results:
  description: With O(step=measure) by place and check - place, check, value, unit, reason, note.
  returned: success
  type: list
  elements: dict
baseline:
  description: With O(step=measure) the baseline of the host's record; empty where it has none.
  returned: success
  type: dict
"""

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.host import LocalHost
from ansible_collections.bedplate.metal.plugins.module_utils.packages import AptInstall
from ansible_collections.bedplate.metal.plugins.module_utils.record import Record
from ansible_collections.bedplate.metal.plugins.module_utils.storage_check import Place, Settings, check_places
from ansible_collections.bedplate.metal.plugins.module_utils.storage_fio import PACKAGE, PROGRAM

NAME = "storage_check"
LOCK = "/run/bedplate-storage-check.lock"
PLACE_OPTIONS: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "path": {"type": "str", "required": True},
    "kind": {"type": "str", "choices": ["local", "nfs"], "default": "local"},
    "server": {"type": "str", "default": ""},
    "read_only": {"type": "bool", "default": False},
    "sample": {"type": "str", "default": ""},
}
ARGUMENT_SPEC: dict[str, Any] = {
    "step": {"type": "str", "choices": ["measure", "keep"], "default": "measure"},
    "places": {"type": "list", "elements": "dict", "default": [], "options": PLACE_OPTIONS},
    "directory": {"type": "str", "default": ".bedplate-check"},
    "file_bytes": {"type": "int", "default": 1073741824},
    "files": {"type": "int", "default": 2000},
    "small_file_bytes": {"type": "int", "default": 65536},
    "limit_seconds": {"type": "int", "default": 60},
    "baseline": {"type": "dict"},
    "lock_timeout_seconds": {"type": "int", "default": 300},
}


@contextmanager
def alone() -> Iterator[None]:
    """Hold the lock of the checks, which the kernel takes back whatever becomes of them; raise :class:`BedplateError` if held."""
    with open(LOCK, "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BedplateError(
                "found another check of this host's storage at work; wanted none. Next: wait for its end"
            ) from None
        yield


def measure(parameters: dict[str, Any]) -> dict[str, Any]:
    """Check all places; return the module's results."""
    if not re.fullmatch(r"\.bedplate-check[A-Za-z0-9._-]*", parameters["directory"]):
        raise ValueError(f"directory: found {parameters['directory']!r}; wanted a name that begins with .bedplate-check")
    host, sizes = LocalHost(), ("directory", "file_bytes", "files", "small_file_bytes", "limit_seconds")
    places = [Place(**place) for place in parameters["places"]]
    with alone():
        missing = bool(places) and not host.exists(PROGRAM)
        if missing:
            AptInstall({PACKAGE: None}, lock_timeout_seconds=parameters["lock_timeout_seconds"]).perform(host)
        figures = check_places(host, places, Settings(**{size: parameters[size] for size in sizes}))
    baseline = Record.load(host, NAME).data.get("baseline") or {}
    return {"changed": missing, "results": [figure.public() for figure in figures], "baseline": baseline}


def keep(baseline: dict[str, Any]) -> dict[str, Any]:
    """Write the baseline into the host's record; return the module's results."""
    host = LocalHost()
    record = Record.load(host, NAME)
    changed = record.data.get("baseline") != baseline
    if changed:
        record.remembering(baseline=baseline).save(host)
    return {"changed": changed}


def main() -> None:
    """Run a step."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, required_if=[("step", "keep", ["baseline"])])
    parameters = module.params
    try:
        results = measure(parameters) if parameters["step"] == "measure" else keep(parameters["baseline"])
    except (BedplateError, ValueError) as error:
        module.fail_json(msg=f"storage_check: {error}")
    module.exit_json(**results)


if __name__ == "__main__":
    main()
