# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: queue_objects
short_description: Bring queues, and what teams need to use them, to what the site data say
description:
  - Makes the objects of a queue plan in one pass - teams' namespaces, topologies, flavors, priorities, cohorts, queues, the
    policy in writing, and the right to read. One list per kind, one request per object that differs; a second run applies
    nothing.
  - Fields that the site data do not say are left to whoever set them. What somebody changed otherwise is named with who and when,
    and put back; with the annotation C(bedplate.dev/tuned) it is named and left.
  - Removes objects of its own that the plan names no more. A queue with work in it stays until the work is gone, a
    namespace always.
  - An action plugin; runs on the controller.
attributes:
  check_mode: {support: full, description: Predicts changes without making them.}
  diff_mode: {support: full, description: Shows each change before and after.}
  idempotent: {support: full, description: A second run changes nothing.}
options:
  kubeconfig:
    description: Path of the kubeconfig on the controller.
    type: str
  plan:
    description:
      - The queue plan as M(bedplate.metal.site) derives it (C(bedplate.queue)) - flavors, priorities, cohorts, queues, tenants.
    type: dict
    required: true
  wait_seconds:
    description: How long webhooks of the queue system may take until they serve, all together.
    type: int
    default: 120
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Make the queues
  bedplate.metal.queue_objects:
    kubeconfig: "{{ bedplate_kubeconfig }}"
    plan: "{{ bedplate.queue }}"
  run_once: true
"""

RETURN = r"""
changes:
  description: What was (in check mode, would be) changed, each with before and after.
  returned: always
  type: list
  elements: dict
problems:
  description: What cannot be applied, with the next step.
  returned: always
  type: list
  elements: dict
"""
