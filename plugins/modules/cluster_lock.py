# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_lock
short_description: Hold the cluster's lock while nodes are disturbed
description:
  - The lock is the Lease C(kube-system/bedplate); it names its owner and expires unless renewed.
  - Taken over are a released or expired lock, and one whose owner was a run on this machine that no longer runs.
  - An action plugin; runs on the controller.
attributes:
  check_mode: {support: full, description: Takes no lock.}
  diff_mode: {support: none, description: Has nothing to show.}
  idempotent: {support: full, description: Holding it again renews it.}
options:
  kubeconfig:
    description: Path of the kubeconfig on the controller.
    type: str
  state:
    description: Whether this run shall hold the lock (also renews it) or give it back.
    type: str
    choices: [held, released]
    required: true
  purpose:
    description: What the lock is held for; shown to whoever finds it held.
    type: str
    default: ""
  duration_seconds:
    description: How long the lock lives without being renewed.
    type: int
    default: 900
  force:
    description: Whether to take a lock that somebody else holds.
    type: bool
    default: false
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Take the cluster lock
  bedplate.metal.cluster_lock:
    kubeconfig: "{{ bedplate_kubeconfig }}"
    state: held
    purpose: rolling pool train
  run_once: true
"""

RETURN = r"""
owner:
  description: This run, as others see it.
  returned: when not in check mode
  type: str
reason:
  description: Why the lock could be taken.
  returned: when held
  type: str
"""
