# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_ring
short_description: Plan who measures the fabric against whom, and report what came of it
description:
  - V(plan) makes a ring through each pool, in rounds in which no host takes part twice; as many pairs as hosts, not all of them.
  - V(report) prints a table, writes it as JSON where a path is given, and fails when a pair did not pass or was not measured.
  - An action plugin; runs on the controller.
attributes:
  check_mode: {support: full, description: Changes nothing.}
  diff_mode: {support: none, description: Changes nothing.}
  idempotent: {support: full, description: Changes nothing.}
options:
  step:
    description: What to do.
    type: str
    choices: [plan, report]
    required: true
  bedplate:
    description: What M(bedplate.metal.site) derived.
    type: dict
    required: true
  hosts:
    description: Hosts that take part.
    type: list
    elements: str
    required: true
  rounds:
    description: With O(step=report), what O(step=plan) returned.
    type: list
    elements: dict
    default: []
  results:
    description: With O(step=report), variable that holds each host's results of M(bedplate.metal.fabric_check).
    type: str
    default: ""
  path:
    description: With O(step=report), file for the JSON report (format 1).
    type: path
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Plan the ring
  bedplate.metal.fabric_ring:
    step: plan
    bedplate: "{{ bedplate }}"
    hosts: "{{ ansible_play_hosts }}"
  run_once: true
  register: ring
"""

RETURN = r"""
rounds:
  description: With O(step=plan) by round and host, under serve and measure, the pairs for M(bedplate.metal.fabric_check).
  returned: success
  type: list
  elements: dict
results:
  description: With O(step=report) all measurements; where some failed, the table, the message and the JSON report have them.
  returned: success
  type: list
  elements: dict
"""
