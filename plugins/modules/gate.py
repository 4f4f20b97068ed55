# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gate
short_description: Check new nodes and accept those that pass
description:
  - Nodes register with the taint C(bedplate.dev/unaccepted). The gate waits until they are Ready, runs one pod on each (all side
    by side), stores the result as the annotation C(bedplate.dev/gate) and takes the taint away where everything passed.
  - Control-plane nodes, which register without that taint, are checked once too.
  - Where a node's pool declares GPUs, what the host's probe found keeps or takes its acceptance at once - fewer GPUs, a library
    of another version, a probe that hangs, an XID of the hardware - and its node must advertise all of them. An accepted node
    whose GPUs fail gets the taint again, with the reason.
  - A node that fails keeps its taint and is returned in RV(rejected); the others go on. With no new node it costs one list call.
  - An action plugin; runs on the controller.
attributes:
  check_mode: {support: full, description: Names the nodes that would be checked.}
  diff_mode: {support: full, description: Shows each node's acceptance before and after.}
  idempotent: {support: full, description: Accepted nodes are not checked again unless asked.}
options:
  kubeconfig:
    description: Path of the kubeconfig on the controller.
    type: str
  hosts:
    description: Nodes to look at.
    type: list
    elements: str
    required: true
  image:
    description: agnhost image of the checks.
    type: str
    required: true
  dns_domain:
    description: The cluster's DNS domain.
    type: str
    default: cluster.local
  timeout_seconds:
    description: How long all nodes together may take.
    type: int
    default: 180
  checks:
    description: Checks to run next to the node being Ready.
    type: list
    elements: str
    choices: [service, pod-network, registry]
    default: [service, pod-network, registry]
  desired:
    description: By host, its derived data; C(gpus.resources) is what its node must advertise.
    type: dict
    default: {}
  driver_result:
    description: Variable under which each host's result of M(bedplate.metal.nvidia_driver) is registered.
    type: str
    default: ""
  sharing_result:
    description: Variable under which each host's result of M(bedplate.metal.gpu_sharing) is registered.
    type: str
    default: ""
  recheck:
    description: Whether nodes that were accepted before are checked again.
    type: bool
    default: false
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Check new nodes and accept those that pass
  bedplate.metal.gate:
    kubeconfig: "{{ bedplate_kubeconfig }}"
    hosts: "{{ ansible_play_hosts }}"
    image: registry.k8s.io/e2e-test-images/agnhost:2.63.0
  run_once: true
"""

RETURN = r"""
accepted:
  description: Nodes that passed in this run.
  returned: always
  type: list
  elements: str
rejected:
  description: By node that failed, what was found, what was wanted and the next step.
  returned: always
  type: dict
changes:
  description: Nodes whose acceptance was (in check mode, would be) decided.
  returned: always
  type: list
  elements: dict
"""
