#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the fabric of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric
short_description: Set up a host's InfiniBand, RoCE and soft-RoCE cards
version_added: "0.1.0"
description:
  - Installs the RDMA tools and loads the modules, or replaces the whole stack by DOCA-OFED, which waits for a drained node and a
    reboot. The stack of the card a host is reached by is replaced only where another path to the host is declared.
  - Gives cards their address and MTU by a file of systemd-networkd; a card that ifupdown or NetworkManager configures, or that
    the host is reached by, is refused.
  - Makes soft-RoCE devices and sets PFC, the priority of a DSCP, the type of service and ECN of RoCE cards, now and at each boot.
  - A port that is down, slower than declared or without a subnet manager is a warning; one of the other link layer an error.
attributes:
  check_mode:
    description: Predicts the same changes.
    support: full
  diff_mode:
    description: Shows files, addresses and settings.
    support: full
  idempotent:
    description: A second run changes nothing.
    support: full
options:
  nics:
    description: The host's cards.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the card or rail.
        type: str
        required: true
      fabric:
        description: What it is attached to; V(soft-roce) makes an RDMA device of an ordinary card.
        type: str
        choices: [infiniband, roce, soft-roce, ethernet]
        default: ethernet
      device:
        description: Its interface, RDMA device, PCI address or MAC; left out, the name.
        type: str
      address:
        description: Its address with the prefix length; left out, addresses are not touched.
        type: str
      mtu:
        description: Its MTU in bytes; goes with an address.
        type: int
      speed_gbps:
        description: Link speed wanted, in Gb/s.
        type: int
      roce:
        description: Lossless settings of a RoCE card; left out, they are not touched.
        type: dict
        suboptions:
          priority:
            description: Priority of RoCE traffic, 0 to 7.
            type: int
            default: 3
          dscp:
            description: DSCP of RoCE traffic, 0 to 63.
            type: int
            default: 26
          pfc:
            description: Pause frames for that priority, and for no other.
            type: bool
            default: true
          ecn:
            description: Congestion is marked by switches and answered by slowing down.
            type: bool
            default: true
  stack:
    description: V(inbox) for the kernel's drivers and the distribution's tools, V(doca) for DOCA-OFED.
    type: str
    choices: [inbox, doca]
    default: inbox
  version:
    description: Exact version of the package doca-ofed; left out, the repository's.
    type: str
    default: ""
  out_of_band:
    description: Other way to the host than its network, which permits to replace the stack of the card it is reached by.
    type: str
    choices: ["", bmc, serial]
    default: ""
  management_address:
    description: Address Ansible reaches the host at.
    type: str
    default: ""
extends_documentation_fragment:
  - bedplate.metal.component
  - bedplate.metal.component.apt
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Two rails of InfiniBand and one card of RoCE
  bedplate.metal.fabric:
    nics:
      - {name: rail0, fabric: infiniband, device: mlx5_0, speed_gbps: 400, address: 10.88.0.11/24}
      - {name: rail1, fabric: infiniband, device: mlx5_1, speed_gbps: 400, address: 10.88.1.11/24}
      - {name: storage, fabric: roce, device: "0000:c1:00.0", address: 10.89.0.11/24, mtu: 9000, roce: {priority: 3, dscp: 26}}
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
  returned: always
  type: bool
fabric:
  description: By card its interface, RDMA device, PCI address and port; and whether GPUs are reached by nvidia-peermem.
  returned: success
  type: dict
"""

from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import LOCK_TIMEOUT_OPTION, run_component
from ansible_collections.bedplate.metal.plugins.module_utils.fabric import Fabric, FabricDesired, check_nics, public_fabric
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_options import NICS_OPTION, build_nic

ARGUMENT_SPEC: dict[str, Any] = {
    "nics": NICS_OPTION,
    "stack": {"type": "str", "choices": ["inbox", "doca"], "default": "inbox"},
    "version": {"type": "str", "default": ""},
    "out_of_band": {"type": "str", "choices": ["", "bmc", "serial"], "default": ""},
    "management_address": {"type": "str", "default": ""},
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> FabricDesired:
    """Make the desired state; raise ValueError for cards that cannot be."""
    nics = tuple(build_nic(nic) for nic in parameters["nics"])
    check_nics(nics)
    return FabricDesired(
        nics=nics,
        stack=parameters["stack"],
        version=parameters["version"] or None,
        out_of_band=parameters["out_of_band"],
        management_address=parameters["management_address"],
        lock_timeout_seconds=parameters["lock_timeout_seconds"],
    )


def main() -> None:
    """Run the component."""
    run_component(Fabric(), ARGUMENT_SPEC, build_desired, returns=lambda outcome: {"fabric": public_fabric(outcome.observed)})


if __name__ == "__main__":
    main()
