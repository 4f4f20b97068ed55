# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_state
short_description: Find the cluster and classify hosts
description:
  - Delegated to the control-plane hosts one after another, reads the first admin.conf whose API answers, keeps it in memory on
    the controller (mode 0600) and lists the nodes once.
  - Classifies the targeted hosts as fresh, partial, member or foreign and tells whether they are in service.
  - An action plugin; runs on the controller.
attributes:
  check_mode: {support: full, description: Changes nothing.}
  diff_mode: {support: none, description: Changes nothing.}
  idempotent: {support: full, description: Changes nothing.}
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  control_plane:
    description: All control-plane hosts of the inventory, in its order; the first one initialises a new cluster.
    type: list
    elements: str
    required: true
  hosts:
    description: Hosts to classify by their variable bedplate_observed.
    type: list
    elements: str
    default: []
  classify:
    description: Whether to return classes; without it only the kubeconfig and the cluster are refreshed.
    type: bool
    default: true
  set_facts:
    description: Whether to set facts; without it only kubeconfig and source are returned.
    type: bool
    default: true
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Find the cluster and classify the hosts
  bedplate.metal.cluster_state:
    cluster: "{{ bedplate.cluster.name }}"
    control_plane: "{{ groups.control_plane }}"
    hosts: "{{ ansible_play_hosts }}"
  delegate_to: "{{ item }}"
  loop: "{{ groups.control_plane }}"
  run_once: true
"""

RETURN = r"""
ansible_facts:
  description:
    - C(bedplate_kubeconfig), a path on the controller or null.
    - C(bedplate_cluster) with exists, reachable, source, ca_sha256, error, init_host and nodes.
    - C(bedplate_classes) by host with class, in_service, node_exists and problem.
    - C(bedplate_joining) with the lists control_plane and worker of hosts that are to join.
  returned: when set_facts
  type: dict
kubeconfig:
  description: Path of the kubeconfig on the controller, or null.
  returned: always
  type: str
source:
  description: The control-plane host it came from, or null.
  returned: always
  type: str
"""
