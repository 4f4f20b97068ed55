#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the operating system below Kubernetes."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: kernel
short_description: Set up the kernel and how it boots, modules, sysctls, swap, limits, clock and base packages
version_added: "0.1.0"
description:
  - Loads kernel modules and sets sysctls now and at boot, switches swap off now and at boot, sets login limits, keeps automatic
    upgrades and restarts away from what Kubernetes consists of, and installs base packages.
  - A module that is built into the kernel counts as loaded; a kernel without module support is fine.
  - Installs and holds the kernel's package with the headers that compiled drivers need, sets parameters of its command line
    through GRUB, keeps modules away. What only a boot decides is applied where O(allow) has V(reboot), in service V(drain) too;
    the reboot itself is the playbook's. There is none into a kernel that lacks headers or modules that DKMS compiles.
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
  package:
    description: Package of the kernel, held; one that follows a flavour (C(linux-image-amd64), C(linux-image-generic)) or one
      kernel's. Left out with O(version), the one such package that is installed.
    type: str
    default: ""
  version:
    description: Exact version of that package; left out, any.
    type: str
    default: ""
  headers:
    description: Whether drivers are compiled on the host, so that each kernel needs its headers; where DKMS has modules, they are
      installed anyway.
    type: bool
    default: false
  command_line:
    description: Parameters of the kernel's command line; each replaces those of its name, but a console is added to others.
    type: list
    elements: str
    default: []
  blacklist:
    description: Kernel modules that are not loaded by themselves at boot.
    type: list
    elements: str
    default: []
  cpu_governor:
    description: Frequency governor of every CPU, now and at boot; left out, it is not touched.
    type: str
    default: ""
  transparent_hugepages:
    description: When memory is given in huge pages without being asked for, now and at boot; left out, it is not touched.
    type: str
    choices: ["", always, madvise, never]
    default: ""
  disable_acs:
    description: Whether PCI access control services are switched off on every bridge, now and at boot.
    type: bool
    default: false
  time_servers:
    description: Time servers; chrony is installed and uses these alone. Left out, whatever keeps the clock stays.
    type: list
    elements: str
    default: []
  journal_max_size:
    description: Most disk space of the system's journal, as SystemMaxUse of journald.conf(5); left out, it is not touched.
    type: str
    default: ""
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

- name: Let devices reach memory directly
  bedplate.metal.kernel:
    command_line: [intel_iommu=on, iommu=pt]
    allow: [reboot]
  register: kernel
"""

RETURN = r"""
changes:
  description: Changes applied (in check mode, that would be), with keys what, before, after, effects.
  returned: always
  type: list
  elements: dict
deferred:
  description: Changes that wait for an allowed reboot, with the same keys and the playbook that makes them.
  returned: always
  type: list
  elements: dict
problems:
  description: Problems with keys what, found, wanted, next_step, severity.
  returned: always
  type: list
  elements: dict
reboot:
  description: Whether a change that was applied takes effect by a reboot.
  returned: always
  type: bool
reboot_reasons:
  description: What waits for a reboot, found and wanted, also where it is not allowed now.
  returned: success
  type: list
  elements: str
"""

from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import LOCK_TIMEOUT_OPTION, run_component
from ansible_collections.bedplate.metal.plugins.module_utils.kernel import Kernel, KernelDesired, check_name
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_image import ImageDesired
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_parameters import check_parameters
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_reboot import reasons
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_state import normal
from ansible_collections.bedplate.metal.plugins.module_utils.kernel_tuning import TuningDesired

ARGUMENT_SPEC: dict[str, Any] = {
    "modules": {"type": "list", "elements": "str", "default": []},
    "sysctl": {"type": "dict", "default": {}},
    "swap": {"type": "str", "choices": ["off", "keep"], "default": "off"},
    "limits": {"type": "dict", "default": {}},
    "hold_unattended": {"type": "list", "elements": "str", "default": []},
    "packages": {"type": "list", "elements": "str", "default": []},
    "package": {"type": "str", "default": ""},
    "version": {"type": "str", "default": ""},
    "headers": {"type": "bool", "default": False},
    "command_line": {"type": "list", "elements": "str", "default": []},
    "blacklist": {"type": "list", "elements": "str", "default": []},
    "cpu_governor": {"type": "str", "default": ""},
    "transparent_hugepages": {"type": "str", "choices": ["", "always", "madvise", "never"], "default": ""},
    "disable_acs": {"type": "bool", "default": False},
    "time_servers": {"type": "list", "elements": "str", "default": []},
    "journal_max_size": {"type": "str", "default": ""},
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> KernelDesired:
    """Make the desired state; raise ValueError for names that cannot be."""
    for kind in ("modules", "sysctl", "limits", "hold_unattended", "packages", "blacklist", "time_servers"):
        for name in parameters[kind]:
            check_name(f"kernel.{kind}", name)
    for kind in ("package", "cpu_governor", "journal_max_size"):
        if parameters[kind]:
            check_name(f"kernel.{kind}", parameters[kind])
    check_parameters(parameters["command_line"])
    timeout = parameters["lock_timeout_seconds"]
    return KernelDesired(
        modules=tuple(parameters["modules"]),
        sysctl={key: normal(value) for key, value in parameters["sysctl"].items()},
        swap=parameters["swap"],
        limits={item: normal(value) for item, value in parameters["limits"].items()},
        hold_unattended=tuple(parameters["hold_unattended"]),
        packages=tuple(parameters["packages"]),
        image=ImageDesired(parameters["package"], parameters["version"], parameters["headers"], timeout),
        command_line=tuple(parameters["command_line"]),
        blacklist=tuple(parameters["blacklist"]),
        tuning=TuningDesired(parameters["cpu_governor"], parameters["transparent_hugepages"], parameters["disable_acs"]),
        time_servers=tuple(parameters["time_servers"]),
        journal_max_size=parameters["journal_max_size"],
        lock_timeout_seconds=timeout,
    )


def main() -> None:
    """Run the component."""
    run_component(Kernel(), ARGUMENT_SPEC, build_desired, returns=lambda outcome: {"reboot_reasons": reasons(outcome)})


if __name__ == "__main__":
    main()
