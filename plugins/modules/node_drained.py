# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_drained
short_description: Fail unless a node is drained
description:
  - A node is drained when it is cordoned and has no pods but those of DaemonSets, static ones, and those that have ended.
  - A host without a Node object passes.
  - An action plugin; runs on the controller and changes nothing.
attributes:
  check_mode: {support: full, description: Looks all the same.}
options:
  kubeconfig:
    description: Path of the kubeconfig on the controller.
    type: str
  name:
    description: The node.
    type: str
    required: true
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: See that the node is drained
  bedplate.metal.node_drained:
    kubeconfig: "{{ bedplate_kubeconfig }}"
    name: "{{ inventory_hostname }}"
"""

RETURN = "# nothing beside Ansible's own results"
