#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: NVIDIA's driver."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: nvidia_driver
short_description: Set up NVIDIA's driver at one exact version, and say what the GPUs say
version_added: "0.1.0"
description:
  - Installs every package the driver consists of in one transaction, at one version, and holds them. What must be right for that
    is found before anything is touched - versions the repositories do not have, headers of the kernels that run and boot next,
    room for the build, Secure Boot, holds and half-installed packages of others. When the transaction fails, the previous
    packages are put back.
  - Open or proprietary kernel modules are chosen by the GPUs' architecture, and refused where they cannot work.
  - Fabric manager runs only where there are NVSwitches, at exactly the driver's version.
  - A driver that is loaded is replaced by a reboot only, which the rolling playbook does on a drained node.
  - Every look at the GPUs is bounded in time. What keeps them from service is returned, not a failure.
attributes:
  check_mode:
    description: Predicts the same changes; what only a loaded driver can tell is unknown.
    support: full
  diff_mode:
    description: Shows files and versions.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
options:
  version:
    description: Exact version of the driver, for example C(580.126.09).
    type: str
    required: true
  modules:
    description: Kind of kernel modules; C(auto) takes the open ones where the GPUs permit.
    type: str
    choices: [auto, open, proprietary]
    default: auto
  accelerators:
    description: GPUs of the host as the site calls them, for example C(h100-80gb).
    type: list
    elements: str
    default: []
  source:
    description: NVIDIA's packages, or those of the distribution's own archive.
    type: str
    choices: [nvidia, distribution]
    default: nvidia
  build:
    description: Modules compiled on the host by DKMS, or by Ubuntu and signed (with O(source=distribution) only).
    type: str
    choices: [dkms, precompiled]
    default: dkms
  kernel_headers:
    description: Whether kernel headers are installed and modules checked for each kernel; false where packages need neither.
    type: bool
    default: true
  kernels:
    description: Kernel releases the modules are compiled for; left out, the running one and the one that boots next.
    type: list
    elements: str
    default: []
  userspace:
    description: Whether libraries, tools and services are wanted besides the kernel modules.
    type: bool
    default: true
  load:
    description: Whether the driver is loaded now on a host without one.
    type: bool
    default: true
  fabric_manager:
    description: C(auto) where NVSwitches are found, C(required), or C(none).
    type: str
    choices: [auto, required, none]
    default: auto
  fabric_manager_version:
    description: Only for refusing another version than the driver's; left out, the driver's.
    type: str
  nvlsm:
    description: Whether the NVLink subnet manager is wanted, which NVLink of the fifth generation (B200) needs, with ib_umad.
    type: bool
    default: false
  nvlsm_version:
    description: Exact package version of it; left out, the repository's candidate.
    type: str
  gpudirect:
    description: How network adapters reach GPU memory - C(none), C(dma-buf) (open modules, nothing to load) or C(peermem).
    type: str
    choices: [none, dma-buf, peermem]
    default: none
  persistence:
    description: Whether the persistence daemon runs.
    type: bool
    default: true
  allow_downgrade:
    description: Whether an older driver may replace a newer one.
    type: bool
    default: false
  expected:
    description: What the site declares of the host's GPUs, for RV(gpu.findings).
    type: dict
    suboptions:
      count:
        description: Number of GPUs.
        type: int
      model:
        description: Word every GPU's name contains.
        type: str
        default: ""
      memory_gb:
        description: Memory of each.
        type: int
      mixed:
        description: Whether other models are accepted beside.
        type: bool
        default: false
      switches:
        description: Whether the machine has NVSwitches.
        type: bool
        default: false
extends_documentation_fragment:
  - bedplate.metal.component
  - bedplate.metal.component.apt
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Driver of an H100 node
  bedplate.metal.nvidia_driver:
    version: 580.126.09
    accelerators: [h100-80gb]
    expected: {count: 8, model: H100, memory_gb: 80, switches: true}
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
gpu:
  description: What the host's driver and GPUs say.
  returned: success
  type: dict
  contains:
    loaded:
      description: Version of the loaded driver.
      type: str
    open:
      description: Whether its modules are the open ones.
      type: bool
    libraries:
      description: Versions of the management library on disk.
      type: list
      elements: str
    probe:
      description: Answer of nvidia-smi, one of ok, absent, mismatch, lost, wedged, no-driver, failed.
      type: str
    gpus:
      description: GPUs that answer and count, with index, uuid, pci, name, memory_mib, mig.
      type: list
      elements: dict
    missing:
      description: PCI addresses of GPUs that are there and do not answer.
      type: list
      elements: str
    xids:
      description: Driver errors of this boot, with pci and number; null where the journal gave no answer.
      type: list
      elements: dict
    fabric_manager:
      description: State of the fabric manager's service.
      type: str
    findings:
      description: What keeps the GPUs from service, each with what, found, wanted, next_step; empty on a healthy host.
      type: list
      elements: dict
"""

from dataclasses import asdict
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import LOCK_TIMEOUT_OPTION, run_component
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_driver import NvidiaDriver
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_health import Expected
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_modules import architecture_of, choose_modules
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_packages import branch_of
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_plan import Desired
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_services import FABRIC_MANAGER, Service

ARGUMENT_SPEC: dict[str, Any] = {
    "version": {"type": "str", "required": True},
    "modules": {"type": "str", "choices": ["auto", "open", "proprietary"], "default": "auto"},
    "accelerators": {"type": "list", "elements": "str", "default": []},
    "source": {"type": "str", "choices": ["nvidia", "distribution"], "default": "nvidia"},
    "build": {"type": "str", "choices": ["dkms", "precompiled"], "default": "dkms"},
    "kernel_headers": {"type": "bool", "default": True},
    "kernels": {"type": "list", "elements": "str", "default": []},
    "userspace": {"type": "bool", "default": True},
    "load": {"type": "bool", "default": True},
    "fabric_manager": {"type": "str", "choices": ["auto", "required", "none"], "default": "auto"},
    "fabric_manager_version": {"type": "str"},
    "nvlsm": {"type": "bool", "default": False},
    "nvlsm_version": {"type": "str"},
    "gpudirect": {"type": "str", "choices": ["none", "dma-buf", "peermem"], "default": "none"},
    "persistence": {"type": "bool", "default": True},
    "allow_downgrade": {"type": "bool", "default": False},
    "expected": {
        "type": "dict",
        "options": {
            "count": {"type": "int"},
            "model": {"type": "str", "default": ""},
            "memory_gb": {"type": "int"},
            "mixed": {"type": "bool", "default": False},
            "switches": {"type": "bool", "default": False},
        },
    },
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> Desired:
    """Make the desired state; raise ValueError for what cannot work."""
    version = parameters["version"]
    branch = branch_of(version)
    architectures = [architecture_of(name) for name in parameters["accelerators"]]
    modules = choose_modules(parameters["modules"], architectures, branch)
    fabric_version = parameters["fabric_manager_version"] or version
    if fabric_version != version:
        raise ValueError(
            f"fabric_manager_version: found {fabric_version}; wanted {version}: fabric manager works with exactly the driver's "
            "version only, also within a branch. Next: leave it out"
        )
    gpudirect = parameters["gpudirect"]
    if gpudirect == "dma-buf" and modules != "open":
        raise ValueError("gpudirect: found dma-buf with proprietary modules; wanted open ones, or peermem. Next: choose one")
    load = (["nvidia-peermem"] if gpudirect == "peermem" else []) + (["ib_umad"] if parameters["nvlsm"] else [])
    return Desired(
        version=version,
        modules=modules,
        source=parameters["source"],
        build=parameters["build"],
        fabric_manager="required" if parameters["nvlsm"] else parameters["fabric_manager"],
        nvlsm=parameters["nvlsm"],
        nvlsm_version=parameters["nvlsm_version"] or None,
        headers=parameters["kernel_headers"] and parameters["build"] == "dkms",
        kernels=tuple(parameters["kernels"]),
        userspace=parameters["userspace"],
        load=tuple(load),
        load_now=parameters["load"],
        persistence=parameters["persistence"],
        allow_downgrade=parameters["allow_downgrade"],
        expected=Expected(**(parameters["expected"] or {})),
        lock_timeout_seconds=parameters["lock_timeout_seconds"],
    )


def returns(outcome: Outcome) -> dict[str, Any]:
    """Return the facts of the last look at the host."""
    observed = outcome.observed
    state, judged = observed.state, observed.judged
    return {
        "gpu": {
            "loaded": state.loaded,
            "open": state.open,
            "libraries": list(state.libraries),
            "probe": state.probe.state,
            "gpus": [asdict(g) for g in judged.compute],
            "missing": list(judged.missing),
            "xids": None if state.xids is None else [asdict(x) for x in state.xids],
            "fabric_manager": observed.services.get(FABRIC_MANAGER, Service()).active,
            "findings": [p.public() for p in judged.findings],
        }
    }


def main() -> None:
    """Run the component."""
    run_component(NvidiaDriver(), ARGUMENT_SPEC, build_desired, returns=returns)


if __name__ == "__main__":
    main()
