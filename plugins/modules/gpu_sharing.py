#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: how a host's GPUs are divided."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpu_sharing
short_description: Divide a host's GPUs by MIG
version_added: "0.1.0"
description:
  - Makes the same MIG instances on every GPU, and a unit that makes them again at each boot, before kubelet starts. With none
    wanted, the GPUs are made whole.
  - Instances are compared with those there are; on a node in service a difference is returned in RV(deferred) for the rolling
    playbook, because it takes the GPUs from running pods.
  - Kubelet is restarted after a change, so that the device plugin lists the devices anew; pods keep running.
  - Where no driver is loaded yet, only the unit is written; the boot that loads the driver divides the GPUs.
  - Where a program holds a GPU, so that it takes another division only by a reset, RV(reboot) asks for the reboot; the unit
    completes the change then. It goes once the GPUs are seen to be whole.
  - Where the GPUs cannot be asked, a warning says so and nothing changes.
attributes:
  check_mode:
    description: Predicts the same changes.
    support: full
  diff_mode:
    description: Shows the instances of each GPU before and after.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
options:
  mig:
    description: "Instances per GPU by profile, for example C({1g.10gb: 7}); empty for whole GPUs."
    type: dict
    default: {}
  probe:
    description: What the probe of M(bedplate.metal.nvidia_driver) answered; unless V(ok) or V(absent), nvidia-smi is not asked.
    type: str
    default: ok
extends_documentation_fragment:
  - bedplate.metal.component
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Seven instances on every H100
  bedplate.metal.gpu_sharing:
    mig: {1g.10gb: 7}
"""

RETURN = r"""
changes:
  description: Changes applied (in check mode, that would be), with keys what, before, after, effects.
  returned: always
  type: list
  elements: dict
deferred:
  description: Changes that wait for the playbook named with each.
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

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import run_component
from ansible_collections.bedplate.metal.plugins.module_utils.gpu_sharing import GpuSharing, SharingDesired

ARGUMENT_SPEC: dict[str, Any] = {"mig": {"type": "dict", "default": {}}, "probe": {"type": "str", "default": "ok"}}
PROFILE = re.compile(r"[1-9]g\.\d+gb([+-][a-z.]+)?")


def build_desired(parameters: dict[str, Any]) -> SharingDesired:
    """Make the desired state; raise ValueError for what is no MIG profile."""
    for name, count in parameters["mig"].items():
        if not PROFILE.fullmatch(str(name)) or not str(count).isdigit() or int(count) < 1:
            raise ValueError(f"mig: found {name}: {count}; wanted a profile as nvidia-smi names it (1g.10gb) and a count")
    return SharingDesired({str(name): int(count) for name, count in parameters["mig"].items()}, parameters["probe"])


def main() -> None:
    """Run the component."""
    run_component(GpuSharing(), ARGUMENT_SPEC, build_desired)


if __name__ == "__main__":
    main()
