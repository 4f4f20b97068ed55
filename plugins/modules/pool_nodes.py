# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pool_nodes
short_description: Label and taint nodes
description:
  - Lists the nodes once and patches only those whose labels or taints differ, also labels under node-restriction.kubernetes.io/,
    which a kubelet cannot set itself.
  - Removes what an earlier run set and nobody wants any more; labels and taints of others are left alone.
  - An action plugin; runs on the controller.
attributes:
  check_mode: {support: full, description: Predicts changes without making them.}
  diff_mode: {support: full, description: Shows each change before and after.}
  idempotent: {support: full, description: A second run changes nothing.}
options:
  kubeconfig:
    description: Path of the kubeconfig on the controller.
    type: str
  hosts:
    description: Nodes to look at.
    type: list
    elements: str
    required: true
  desired:
    description: By node, the dicts labels, node_restriction_labels and exposure_labels and the list taints; further keys are
      ignored. Exposure labels decide how the node's GPUs are shown (C(pool.bedplate.dev/exposure) and what goes with it).
    type: dict
    required: true
  in_service:
    description: Nodes that carry work. There exposure labels that are set are not changed but returned in RV(deferred).
    type: list
    elements: str
    default: []
  allow:
    description: V(drain) changes exposure labels on nodes in service too.
    type: list
    elements: str
    default: []
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Label and taint the nodes as their pools say
  bedplate.metal.pool_nodes:
    kubeconfig: "{{ bedplate_kubeconfig }}"
    hosts: "{{ ansible_play_hosts }}"
    desired: "{{ bedplate.hosts }}"
  run_once: true
"""

RETURN = r"""
changes:
  description: What was (in check mode, would be) changed, each with before and after.
  returned: always
  type: list
  elements: dict
deferred:
  description: Changes of exposure labels that wait for a drain, each with host and playbook.
  returned: always
  type: list
  elements: dict
missing:
  description: By host without a Node, a message.
  returned: always
  type: dict
"""
