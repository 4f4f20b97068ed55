#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: local volumes over NVMe disks."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nvme
short_description: Make local volumes over NVMe disks and mount them
version_added: "0.1.0"
description:
  - Joins NVMe disks, chosen by serial or by a rule, with mdraid or LVM, makes a file system and mounts it by its UUID.
  - Only blank disks are used. One that is not blank is refused with what is on it, unless its serial is in O(wipe) and O(allow)
    has V(wipe); what is mounted or held by something else is refused even then.
  - What was made is known again by UUIDs that follow from the volume's name and its disks' serials, and is never made anew by
    itself. A volume's disks change only by naming them.
  - A disk that replaces another of V(raid1) or V(raid10) is added to the array when O(volumes[].serials) names it.
attributes:
  check_mode:
    description: Predicts the same changes.
    support: full
  diff_mode:
    description: Shows disks, devices and /etc/fstab.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
options:
  volumes:
    description: The volumes, in the order in which they choose their disks.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the volume and of its array.
        type: str
        required: true
      mount:
        description: Where it is mounted; an empty directory, or none yet.
        type: str
        required: true
      layout:
        description: How the disks are joined; V(lvm) stripes over them.
        type: str
        choices: [single, raid0, raid1, raid10, lvm]
        default: single
      filesystem:
        description: File system made on it.
        type: str
        choices: [xfs, ext4]
        default: xfs
      serials:
        description: Serial numbers of its disks; without them the rule chooses.
        type: list
        elements: str
        default: []
      min_size_bytes:
        description: Rule. Blank disks of at least this size.
        type: int
        default: 0
      model:
        description: Rule. Blank disks whose model contains this.
        type: str
        default: ""
      count:
        description: How many disks the rule must find; 0 for as many as there are.
        type: int
        default: 0
  wipe:
    description: Serials of disks whose content may be destroyed, in a run whose O(allow) has V(wipe).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - bedplate.metal.component
  - bedplate.metal.component.apt
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Stripe a scratch volume over every blank disk of 3 TB or more
  bedplate.metal.nvme:
    volumes:
      - name: scratch
        min_size_bytes: 3000000000000
        count: 4
        layout: raid0
        mount: /scratch
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
reboot:
  description: Whether an applied change takes effect by a reboot.
  returned: success
  type: bool
"""

import re
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import LOCK_TIMEOUT_OPTION, run_component
from ansible_collections.bedplate.metal.plugins.module_utils.nvme import Nvme
from ansible_collections.bedplate.metal.plugins.module_utils.nvme_volumes import LAYOUTS, LEAST_DISKS, NvmeDesired, Volume
from ansible_collections.bedplate.metal.plugins.module_utils.paths import declarable

ARGUMENT_SPEC: dict[str, Any] = {
    "volumes": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "mount": {"type": "str", "required": True},
            "layout": {"type": "str", "choices": list(LAYOUTS), "default": "single"},
            "filesystem": {"type": "str", "choices": ["xfs", "ext4"], "default": "xfs"},
            "serials": {"type": "list", "elements": "str", "default": []},
            "min_size_bytes": {"type": "int", "default": 0},
            "model": {"type": "str", "default": ""},
            "count": {"type": "int", "default": 0},
        },
    },
    "wipe": {"type": "list", "elements": "str", "default": []},
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> NvmeDesired:
    """Make the desired state; raise ValueError for volumes that cannot be."""
    volumes = []
    taken: set[str] = set()
    for raw in parameters["volumes"]:
        volume = Volume(**{**raw, "serials": tuple(raw["serials"])})
        _check(volume, taken)
        taken.update(volume.serials)
        volumes.append(volume)
    return NvmeDesired(
        volumes=tuple(volumes),
        wipe=tuple(parameters["wipe"]),
        wipe_allowed="wipe" in parameters["allow"],
        lock_timeout_seconds=parameters["lock_timeout_seconds"],
    )


def _check(volume: Volume, taken: set[str]) -> None:
    what = f"volume {volume.name}"
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,19}", volume.name):
        raise ValueError(f"{what}: wanted a name of lower-case letters, digits and hyphens, 20 at most. Next: name it otherwise")
    if not declarable(volume.mount):
        raise ValueError(f"{what}: found mount {volume.mount!r}; wanted an absolute path without spaces. Next: choose another")
    if not (volume.serials or volume.min_size_bytes or volume.model):
        raise ValueError(f"{what}: found neither serials nor a rule; wanted one of them. Next: name its disks")
    if volume.serials and len(set(volume.serials)) < LEAST_DISKS[volume.layout]:
        raise ValueError(f"{what}: found {len(volume.serials)} disks; wanted {LEAST_DISKS[volume.layout]} for {volume.layout}")
    if len(set(volume.serials)) < len(volume.serials) or taken & set(volume.serials):
        raise ValueError(f"{what}: found a disk that is named twice; wanted each in one volume. Next: correct the serials")


def main() -> None:
    """Run the component."""
    run_component(Nvme(), ARGUMENT_SPEC, build_desired)


if __name__ == "__main__":
    main()
