# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rolling_plan
short_description: Plan the rolling of a pool in waves
description:
  - Orders the nodes something waits for into batches by the pool's upgrade data, as the cluster is now. Nodes an interrupted run
    has out go first; nodes that are not Ready are skipped and named and take up room in the limit.
  - An action plugin; runs on the controller.
attributes:
  check_mode: {support: full, description: Changes nothing.}
  diff_mode: {support: none, description: Changes nothing.}
  idempotent: {support: full, description: Changes nothing.}
options:
  kubeconfig:
    description: Path of the kubeconfig on the controller.
    type: str
  nodes:
    description: All nodes of the pool.
    type: list
    elements: str
    required: true
  pending:
    description: Nodes that something waits for.
    type: list
    elements: str
    default: []
  waiting_results:
    description: Names of registered results of components; nodes where one of them has deferred changes are pending too.
    type: list
    elements: str
    default: []
  upgrade:
    description: The pool's upgrade data (canary, waves, max_unavailable, failure_budget).
    type: dict
    default: {}
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Plan the waves
  bedplate.metal.rolling_plan:
    kubeconfig: "{{ bedplate_kubeconfig }}"
    nodes: "{{ groups.train }}"
    pending: [w1, w2]
    upgrade: {canary: 1, waves: ["25%", "100%"], max_unavailable: "25%"}
  run_once: true
"""

RETURN = r"""
order:
  description: Nodes to roll, in order.
  returned: success
  type: list
  elements: str
sizes:
  description: Sizes of the batches.
  returned: success
  type: list
  elements: int
waves:
  description: How many batches each wave has.
  returned: success
  type: list
  elements: int
skipped_nodes:
  description: Reason by node that is skipped.
  returned: success
  type: dict
"""
