#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Joins a host to the cluster as a worker."""

from __future__ import annotations

DOCUMENTATION = r"""
module: worker
short_description: Join a host to the cluster with kubeadm
description:
  - Runs C(kubeadm join) where the host is not a member, and goes on with an unfinished join of an earlier run.
  - Nothing is ever reset.
attributes:
  check_mode: {support: full, description: Predicts changes without making them.}
  diff_mode: {support: full, description: Shows each change before and after.}
  idempotent: {support: full, description: A second run changes nothing.}
options:
  node_name:
    description: Name of the Node object.
    type: str
    required: true
  endpoint:
    description: The cluster's API endpoint as name:port.
    type: str
    required: true
  token:
    description: Bootstrap token; needed where a join is due.
    type: str
  ca_cert_hashes:
    description: Hashes of the CA's public key (C(sha256:<hex>)); needed where a join is due.
    type: list
    elements: str
    default: []
  labels:
    description: Labels the node registers with; only such as a kubelet may set itself.
    type: dict
    default: {}
  taints:
    description: Taints the node registers with.
    type: list
    elements: dict
    default: []
    suboptions:
      key: {description: Key of the taint., type: str, required: true}
      value: {description: Value of the taint., type: str}
      effect: {description: Effect of the taint., type: str, required: true}
  kubelet_extra_args:
    description: Further kubelet flags of this node.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Flag without dashes., type: str, required: true}
      value: {description: Value of the flag., type: str, required: true}
  ignore_preflight_errors:
    description: kubeadm preflight errors to ignore on this host, by kubeadm's names.
    type: list
    elements: str
    default: []
  timeout_seconds:
    description: How long kubeadm may take.
    type: int
    default: 600
extends_documentation_fragment:
  - bedplate.metal.component
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Join the cluster
  bedplate.metal.worker:
    node_name: w1
    endpoint: api.example.com:6443
    token: "{{ credentials.token }}"
    ca_cert_hashes: "{{ credentials.ca_cert_hashes }}"
    taints: [{key: bedplate.dev/unaccepted, effect: NoSchedule}]
"""

RETURN = r"""
changes:
  description: What was (in check mode, would be) changed, each with before, after and effects.
  returned: always
  type: list
  elements: dict
deferred:
  description: Changes that wait for a rolling playbook or a flag.
  returned: always
  type: list
  elements: dict
problems:
  description: What stops the component.
  returned: always
  type: list
  elements: dict
"""

from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import run_component
from ansible_collections.bedplate.metal.plugins.module_utils.worker import Worker, WorkerDesired

ARGUMENT_SPEC: dict[str, Any] = {
    "node_name": {"type": "str", "required": True},
    "endpoint": {"type": "str", "required": True},
    "token": {"type": "str", "no_log": True},
    "ca_cert_hashes": {"type": "list", "elements": "str", "default": [], "no_log": True},
    "labels": {"type": "dict", "default": {}},
    "taints": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "key": {"type": "str", "required": True, "no_log": False},
            "value": {"type": "str"},
            "effect": {"type": "str", "required": True},
        },
    },
    "kubelet_extra_args": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"name": {"type": "str", "required": True}, "value": {"type": "str", "required": True}},
    },
    "ignore_preflight_errors": {"type": "list", "elements": "str", "default": []},
    "timeout_seconds": {"type": "int", "default": 600},
}


def build_desired(parameters: dict[str, Any]) -> WorkerDesired:
    """Return the desired state from the module's parameters."""
    taints = [{key: value for key, value in taint.items() if value is not None} for taint in parameters["taints"]]
    return WorkerDesired(
        node_name=parameters["node_name"],
        endpoint=parameters["endpoint"],
        token=parameters["token"] or "",
        ca_cert_hashes=tuple(parameters["ca_cert_hashes"]),
        labels={key: str(value) for key, value in parameters["labels"].items()},
        taints=tuple(taints),
        kubelet_extra_args=tuple(parameters["kubelet_extra_args"]),
        ignore_preflight_errors=tuple(parameters["ignore_preflight_errors"]),
        timeout_seconds=parameters["timeout_seconds"],
    )


def main() -> None:
    """Run the component."""
    run_component(Worker(), ARGUMENT_SPEC, build_desired)


if __name__ == "__main__":
    main()
