# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rolling_node
short_description: Take a node through the steps of a rolling
description:
  - Keeps the state in the annotation C(bedplate.dev/rolling) of the Node, with the cordon it had before, which O(step=finish) and
    O(step=undo) restore exactly.
  - O(step=begin) refuses (RV(proceed) is false) while the pool's limit or failure budget is used up.
  - An action plugin; runs on the controller.
attributes:
  check_mode: {support: full, description: Predicts changes without making them.}
  diff_mode: {support: full, description: Shows each change before and after.}
  idempotent: {support: full, description: A step that was taken is not taken again.}
options:
  kubeconfig:
    description: Path of the kubeconfig on the controller.
    type: str
  name:
    description: The node.
    type: str
    required: true
  step:
    description: What happens to it.
    type: str
    choices: [begin, drained, finish, undo, fail]
    required: true
  action:
    description: What the rolling is for; stored on the node.
    type: str
    default: ""
  message:
    description: Why it failed; stored on the node.
    type: str
    default: ""
  batch:
    description: Nodes that are out together with this one.
    type: list
    elements: str
    default: []
  pool:
    description: All nodes of the pool; without them the limit is not judged.
    type: list
    elements: str
    default: []
  upgrade:
    description: The pool's upgrade data.
    type: dict
    default: {}
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Remember the node's cordon and cordon it
  bedplate.metal.rolling_node:
    kubeconfig: "{{ bedplate_kubeconfig }}"
    name: "{{ inventory_hostname }}"
    step: begin
    action: containerd 2.4.2
"""

RETURN = r"""
proceed:
  description: Whether the step may be and was taken.
  returned: success
  type: bool
reason:
  description: Why it was not.
  returned: success
  type: str
"""
