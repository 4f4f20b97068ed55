#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: NVIDIA's container toolkit."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nvidia_container_toolkit
short_description: Set up NVIDIA's container toolkit and a device specification that follows the driver
version_added: "0.1.0"
description:
  - Installs the toolkit at one version and holds it.
  - The device specification (CDI) is made by the toolkit's own service, at boot before containerd and when the driver changes. It
    is made again here when it names another driver or other devices than there are. Running containers keep what they have.
  - containerd's configuration is not touched; the handler C(nvidia) and CDI are options of M(bedplate.metal.container_runtime).
attributes:
  check_mode:
    description: Predicts the same changes.
    support: full
  diff_mode:
    description: Shows files and versions.
    support: full
  idempotent:
    description: A second run changes and restarts nothing.
    support: full
options:
  version:
    description: Exact version of the packages, for example C(1.20.2-1); left out, those installed or the repository's candidates.
    type: str
  packages:
    description: Packages of the toolkit. C(nvidia-container-toolkit) adds the older hook, which CDI does not need.
    type: list
    elements: str
    default: [nvidia-container-toolkit-base]
  discovery_mode:
    description: How the toolkit finds devices.
    type: str
    choices: [auto, nvml]
    default: auto
  probe:
    description: Whether nvidia-smi is asked for the devices; false where it is known to hang, which would cost its limit again.
    type: bool
    default: true
  visible_devices_envvar:
    description: Whether containers without privileges may ask for GPUs by NVIDIA_VISIBLE_DEVICES under the handler C(nvidia),
      past what Kubernetes allots. Needed by a device plugin that passes devices by environment variable.
    type: bool
    default: true
extends_documentation_fragment:
  - bedplate.metal.component
  - bedplate.metal.component.apt
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Container toolkit
  bedplate.metal.nvidia_container_toolkit:
    version: 1.20.2-1
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
cdi:
  description: What the specification names - versions (of the driver) and devices (UUIDs).
  returned: success
  type: dict
"""

from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import LOCK_TIMEOUT_OPTION, run_component
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_container_toolkit import Desired, NvidiaContainerToolkit

ARGUMENT_SPEC: dict[str, Any] = {
    "version": {"type": "str"},
    "packages": {"type": "list", "elements": "str", "default": ["nvidia-container-toolkit-base"]},
    "discovery_mode": {"type": "str", "choices": ["auto", "nvml"], "default": "auto"},
    "probe": {"type": "bool", "default": True},
    "visible_devices_envvar": {"type": "bool", "default": True},
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> Desired:
    """Make the desired state; raise ValueError for what cannot work."""
    if not parameters["packages"]:
        raise ValueError("packages: found none; wanted at least nvidia-container-toolkit-base. Next: leave the option out")
    return Desired(
        packages=dict.fromkeys(parameters["packages"], parameters["version"] or None),
        mode=parameters["discovery_mode"],
        probe=parameters["probe"],
        envvar=parameters["visible_devices_envvar"],
        lock_timeout_seconds=parameters["lock_timeout_seconds"],
    )


def main() -> None:
    """Run the component."""
    component = NvidiaContainerToolkit()
    run_component(component, ARGUMENT_SPEC, build_desired, returns=lambda outcome: {"cdi": component.facts(outcome.observed)})


if __name__ == "__main__":
    main()
