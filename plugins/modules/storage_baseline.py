# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: storage_baseline
short_description: Compare figures of storage with each host's baseline, and report them
description:
  - Prints a table, writes it as JSON where a path is given, and names the hosts whose figures are below their baseline.
  - A host's baseline is the annotation C(bedplate.dev/storage-baseline) of its Node where the cluster answers, else what
    M(bedplate.metal.storage_check) keeps in the host's record. A check without one sets it.
  - An action plugin; runs on the controller.
attributes:
  check_mode: {support: none, description: Compares what was measured.}
  diff_mode: {support: none, description: Shows nothing.}
  idempotent: {support: full, description: A baseline that is there changes only where it is to be recorded anew.}
options:
  bedplate:
    description: What M(bedplate.metal.site) derived.
    type: dict
    required: true
  hosts:
    description: Hosts that take part.
    type: list
    elements: str
    required: true
  results:
    description: Variable that holds each host's result of M(bedplate.metal.storage_check).
    type: str
    required: true
  kubeconfig:
    description: Kubeconfig of the cluster; empty for none.
    type: str
    default: ""
  record:
    description: Take every figure as the new baseline.
    type: bool
    default: false
  at_once:
    description: How many hosts measured at once; figures are compared with those of the same number.
    type: int
    default: 1
  path:
    description: File for the JSON report (format 1).
    type: path
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Compare with the baselines
  bedplate.metal.storage_baseline:
    bedplate: "{{ bedplate }}"
    hosts: "{{ ansible_play_hosts_all }}"
    results: _storage_measured
  run_once: true
  register: judged
"""

RETURN = r"""
results:
  description: A row per host, place and check.
  returned: success
  type: list
  elements: dict
keep:
  description: By host that has no Node, the baseline to be kept in its record.
  returned: success
  type: dict
failed_hosts:
  description: By host that did not pass, what failed.
  returned: success
  type: dict
"""
