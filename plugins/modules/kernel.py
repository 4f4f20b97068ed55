#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the operating system below Kubernetes."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: kernel
short_description: Set up kernel modules, sysctls, swap, limits and base packages
version_added: "0.1.0"
description:
  - Loads kernel modules and sets sysctls now and at boot, switches swap off now and at boot, sets login limits, keeps automatic
    upgrades and restarts away from what Kubernetes consists of, and installs base packages.
  - A module that is built into the kernel counts as loaded; a kernel without module support is fine.
attributes:
  check_mode:
    description: Predicts the same changes.
    support: full
  diff_mode:
    description: Shows files and values.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
options:
  modules:
    description: Kernel modules to load.
    type: list
    elements: str
    default: []
  sysctl:
    description: Kernel parameters by key, as in sysctl.d(5).
    type: dict
    default: {}
  swap:
    description: V(off) switches every swap area off and keeps it so; V(keep) leaves swap alone.
    type: str
    choices: ["off", "keep"]
    default: "off"
  limits:
    description: Limits of login sessions by item of limits.conf(5), for instance C(memlock) or C(nofile).
    type: dict
    default: {}
  hold_unattended:
    description: Starts of package names that unattended-upgrades must not upgrade and needrestart must not restart.
    type: list
    elements: str
    default: []
  packages:
    description: Packages to have installed, in whatever version.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - bedplate.metal.component
  - bedplate.metal.component.apt
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Prepare the kernel
  bedplate.metal.kernel:
    modules: [overlay, br_netfilter]
    sysctl:
      net.ipv4.ip_forward: 1
      net.bridge.bridge-nf-call-iptables: 1
    hold_unattended: [kube, containerd]
"""

RETURN = r"""
changes:
  description: Changes applied (in check mode, that would be), with keys what, before, after, effects.
  returned: always
  type: list
  elements: dict
deferred:
  description: Always empty for this module; its changes disturb nothing.
  returned: always
  type: list
  elements: dict
problems:
  description: Problems with keys what, found, wanted, next_step, severity.
  returned: always
  type: list
  elements: dict
"""

from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import LOCK_TIMEOUT_OPTION, run_component
from ansible_collections.bedplate.metal.plugins.module_utils.kernel import Kernel, KernelDesired, check_name
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_state import normal

ARGUMENT_SPEC: dict[str, Any] = {
    "modules": {"type": "list", "elements": "str", "default": []},
    "sysctl": {"type": "dict", "default": {}},
    "swap": {"type": "str", "choices": ["off", "keep"], "default": "off"},
    "limits": {"type": "dict", "default": {}},
    "hold_unattended": {"type": "list", "elements": "str", "default": []},
    "packages": {"type": "list", "elements": "str", "default": []},
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> KernelDesired:
    """Make the desired state; raise ValueError for names that cannot be."""
    for kind in ("modules", "sysctl", "limits", "hold_unattended", "packages"):
        for name in parameters[kind]:
            check_name(f"kernel.{kind}", name)
    return KernelDesired(
        modules=tuple(parameters["modules"]),
        sysctl={key: normal(value) for key, value in parameters["sysctl"].items()},
        swap=parameters["swap"],
        limits={item: normal(value) for item, value in parameters["limits"].items()},
        hold_unattended=tuple(parameters["hold_unattended"]),
        packages=tuple(parameters["packages"]),
        lock_timeout_seconds=parameters["lock_timeout_seconds"],
    )


def main() -> None:
    """Run the component."""
    run_component(Kernel(), ARGUMENT_SPEC, build_desired)


if __name__ == "__main__":
    main()
