#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: erase a volume's disks between tenants."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nvme_erase
short_description: Erase the disks of a local volume
version_added: "0.1.0"
description:
  - Unmounts a volume that M(bedplate.metal.nvme) made and erases each of its disks by the best way its controller has, which is
    sanitize (crypto erase, block erase), format (crypto erase, user data erase), else a discard of the whole disk.
  - Refuses before anything is touched when a disk is absent, in use, or has no such way.
  - Writes time, serials and methods into C(/var/lib/bedplate/nvme.json) of the host. Afterwards the disks are blank and the
    volume is gone; M(bedplate.metal.nvme) makes it anew.
  - A run that was killed is repeated from its start. Until then M(bedplate.metal.nvme) refuses the volume.
attributes:
  check_mode:
    description: Predicts the methods, where nvme-cli is installed.
    support: full
  diff_mode:
    description: Shows disks and methods.
    support: full
  idempotent:
    description: An erased volume is gone; erasing it again is an error until it is made anew.
    support: none
options:
  volume:
    description: Name of the volume, as confirmed by the operator.
    type: str
    required: true
  volumes:
    description: The host's volumes as role nvme has them; where O(volume) is mounted is taken from them.
    type: list
    elements: dict
    required: true
  overwrite:
    description: Overwrite a disk with random data when its controller offers no way, which takes hours.
    type: bool
    default: false
  lock_timeout_seconds:
    description: How long to wait for apt's locks.
    type: int
    default: 300
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Erase the scratch volume
  bedplate.metal.nvme_erase:
    volume: scratch
    volumes: "{{ nvme_volumes }}"
"""

RETURN = r"""
changes:
  description: One for each disk, with keys what, before, after (the method), effects.
  returned: success
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import change_diff
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.host import LocalHost
from ansible_collections.bedplate.metal.plugins.module_utils.nvme_erase import Erasure, erase


def main() -> None:
    """Erase and report."""
    module = AnsibleModule(
        argument_spec={
            "volume": {"type": "str", "required": True},
            "volumes": {"type": "list", "elements": "dict", "required": True},
            "overwrite": {"type": "bool", "default": False},
            "lock_timeout_seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    name = module.params["volume"]
    declared = {volume["name"]: volume for volume in module.params["volumes"]}
    if name not in declared:
        known = ", ".join(declared) or "none"
        module.fail_json(msg=f"nvme_erase: volume {name}: found it not declared (declared are {known}). Next: correct its name")
    erasure = Erasure(name, declared[name]["mount"], module.params["overwrite"], module.params["lock_timeout_seconds"])
    try:
        changes = erase(LocalHost(), erasure, check=module.check_mode)
    except (BedplateError, OSError) as error:
        module.fail_json(msg=f"nvme_erase: {error}")
    module.exit_json(changed=True, changes=[c.public() for c in changes], diff=[change_diff(c) for c in changes])


if __name__ == "__main__":
    main()
