#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: one side of a measurement of the fabric."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: fabric_check
short_description: Serve or measure RDMA between two hosts
version_added: "0.1.0"
description:
  - V(serve) starts ib_write_bw and rping as servers, each a transient unit that systemd ends after a time; V(measure) is their
    client, card after card; V(stop) ends what still runs.
  - A measurement that does not come off is a result with a reason, a server that does not start a warning; neither fails the
    module. C(playbooks/check_fabric.yml) judges them together.
attributes:
  check_mode:
    description: Measures nothing.
    support: none
  diff_mode:
    description: Nothing is changed.
    support: none
  idempotent:
    description: Nothing of the host is changed.
    support: full
options:
  side:
    description: What the host does.
    type: str
    choices: [serve, measure, stop]
    required: true
  pairs:
    description: Cards to measure.
    type: list
    elements: dict
    default: []
    suboptions:
      nic:
        description: The host's own card, as M(bedplate.metal.fabric) takes it.
        type: dict
        required: true
      peer:
        description: Name of the other host.
        type: str
        required: true
      reach:
        description: Address at which the other host's ib_write_bw listens.
        type: str
        default: ""
      ping:
        description: The other host's address on the card, for rping; empty for none.
        type: str
        default: ""
      port:
        description: TCP port of ib_write_bw; rping has the next one.
        type: int
        required: true
      floor_gbps:
        description: Bandwidth that is wanted at least, in Gb/s.
        type: float
  duration_seconds:
    description: How long the bandwidth of each card is measured.
    type: int
    default: 5
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Measure one card against another host
  bedplate.metal.fabric_check:
    side: measure
    pairs:
      - nic: {name: rail0, fabric: roce, device: enp193s0, address: 10.88.0.11/24}
        peer: node2
        reach: 10.88.0.12
        ping: 10.88.0.12
        port: 18515
        floor_gbps: 170
"""

RETURN = r"""
results:
  description: With O(side=measure) by card - rail, peer, device, state, mtu_bytes, pings, gbps, floor_gbps, reason, passed.
  returned: success
  type: list
  elements: dict
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_check import Pair, measure, serve, stop
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_options import NICS_OPTION, build_nic
from ansible_collections.bedplate.metal.plugins.module_utils.host import LocalHost
from ansible_collections.bedplate.metal.plugins.module_utils.network import LocalNetwork

PAIR_OPTIONS: dict[str, Any] = {
    "nic": {"type": "dict", "required": True, "options": NICS_OPTION["options"]},
    "peer": {"type": "str", "required": True},
    "reach": {"type": "str", "default": ""},
    "ping": {"type": "str", "default": ""},
    "port": {"type": "int", "required": True},
    "floor_gbps": {"type": "float"},
}
ARGUMENT_SPEC: dict[str, Any] = {
    "side": {"type": "str", "choices": ["serve", "measure", "stop"], "required": True},
    "pairs": {"type": "list", "elements": "dict", "default": [], "options": PAIR_OPTIONS},
    "duration_seconds": {"type": "int", "default": 5},
}


def main() -> None:
    """Run one side."""
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC)
    seconds, host = module.params["duration_seconds"], LocalHost()
    try:
        pairs = [Pair(**{**pair, "nic": build_nic(pair["nic"])}) for pair in module.params["pairs"]]
        if module.params["side"] == "measure":
            results = measure(host, LocalNetwork(), pairs, seconds)
            module.exit_json(changed=False, results=[result.public() for result in results])
        if module.params["side"] == "serve":
            for reason in serve(host, pairs, seconds):
                module.warn(reason)
        else:
            stop(host)
    except ValueError as error:
        module.fail_json(msg=f"fabric_check: {error}")
    module.exit_json(changed=False, results=[])


if __name__ == "__main__":
    main()
