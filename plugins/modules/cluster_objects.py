# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_objects
short_description: Bring objects of a cluster to what they shall be
description:
  - Looks at all of them with few requests, compares field by field, and applies server-side those that differ, definitions of
    resources first. A run with nothing to do applies nothing.
  - Fields that an object does not say are left to others. A field taken out of an object leaves the cluster again.
  - Definitions are not replaced by those of an older release, nor by ones that lack a version in which objects are stored.
  - An object with the annotation C(bedplate.dev/tuned) is left as it is; each run warns of how it differs.
  - An action plugin; runs on the controller.
attributes:
  check_mode: {support: full, description: Predicts changes without making them.}
  diff_mode: {support: full, description: Shows each change before and after.}
  idempotent: {support: full, description: A second run changes nothing.}
options:
  kubeconfig:
    description: Path of the kubeconfig on the controller.
    type: str
  objects:
    description: The objects, in the order in which they are made.
    type: list
    elements: dict
    required: true
  namespace:
    description: Where objects land that are in a namespace and name none.
    type: str
    default: default
  wait_seconds:
    description: How long definitions and webhooks may take until they serve, all together.
    type: int
    default: 120
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Apply what the chart renders
  bedplate.metal.cluster_objects:
    kubeconfig: "{{ bedplate_kubeconfig }}"
    objects: "{{ chart.stdout | from_yaml_all | select }}"
    namespace: kueue-system
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
