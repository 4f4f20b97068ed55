#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Brings up a host's Kubernetes control plane."""

from __future__ import annotations

DOCUMENTATION = r"""
module: control_plane
short_description: Bring up a Kubernetes control plane with kubeadm
description:
  - Runs C(kubeadm init) on the first and C(kubeadm join) on further control-plane hosts with a v1beta4 configuration.
  - An unfinished init or join of an earlier run is gone on with, with the same keys. Nothing is ever reset.
  - Adds an audit policy, PodSecurity defaults and the encryption of secrets at rest to the API server.
attributes:
  check_mode: {support: full, description: Predicts changes without making them.}
  diff_mode: {support: full, description: Shows each change before and after.}
  idempotent: {support: full, description: A second run changes nothing.}
options:
  mode:
    description: What a host without a control plane does. A running control plane is left in peace by both.
    type: str
    choices: [init, join]
    required: true
  node_name:
    description: Name of the Node object.
    type: str
    required: true
  cluster:
    description: kubeadm's ClusterConfiguration (v1beta4), without apiVersion and kind.
    type: dict
    required: true
  init:
    description: Parts of kubeadm's InitConfiguration (nodeRegistration, localAPIEndpoint, timeouts); a join takes them too.
    type: dict
    default: {}
  kubelet_config:
    description: KubeletConfiguration of the whole cluster.
    type: dict
    default: {}
  kube_proxy_config:
    description: KubeProxyConfiguration of the whole cluster.
    type: dict
    default: {}
  audit_policy:
    description: Audit policy without apiVersion and kind; left out, Bedplate's own; an empty one for no audit log.
    type: dict
  pod_security:
    description: The cluster's PodSecurity defaults, with the keys enforce, audit, warn and exempt_namespaces; left out,
      Bedplate's own; an empty dictionary leaves Kubernetes' default.
    type: dict
  encryption:
    description: Whether secrets are encrypted at rest with a key made on the first control-plane host.
    type: bool
    default: true
  encryption_config:
    description: Text of another control-plane host's encryption configuration, for a join.
    type: str
  token:
    description: Bootstrap token, for a join.
    type: str
  ca_cert_hashes:
    description: Hashes of the CA's public key (C(sha256:<hex>)), for a join.
    type: list
    elements: str
    default: []
  certificate_key:
    description: Key that the uploaded certificates are encrypted with, for a join.
    type: str
  timeout_seconds:
    description: How long kubeadm may take, pulling images included.
    type: int
    default: 900
extends_documentation_fragment:
  - bedplate.metal.component
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Initialise the first control plane
  bedplate.metal.control_plane:
    mode: init
    node_name: cp1
    cluster:
      clusterName: site
      kubernetesVersion: v1.36.3
      controlPlaneEndpoint: api.example.com:6443
      networking: {podSubnet: 10.244.0.0/16, serviceSubnet: 10.96.0.0/16}
    init:
      localAPIEndpoint: {advertiseAddress: 192.0.2.11}
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
from ansible_collections.bedplate.metal.plugins.module_utils.audit_policy import DEFAULT_RULES
from ansible_collections.bedplate.metal.plugins.module_utils.control_plane import ControlPlane, ControlPlaneDesired
from ansible_collections.bedplate.metal.plugins.module_utils.control_plane_files import (
    POD_SECURITY,
    Files,
    admission_text,
    audit_policy_text,
)

ARGUMENT_SPEC: dict[str, Any] = {
    "mode": {"type": "str", "choices": ["init", "join"], "required": True},
    "node_name": {"type": "str", "required": True},
    "cluster": {"type": "dict", "required": True},
    "init": {"type": "dict", "default": {}},
    "kubelet_config": {"type": "dict", "default": {}},
    "kube_proxy_config": {"type": "dict", "default": {}},
    "audit_policy": {"type": "dict"},
    "pod_security": {"type": "dict"},
    "encryption": {"type": "bool", "default": True},
    "encryption_config": {"type": "str", "no_log": True},
    "token": {"type": "str", "no_log": True},
    "ca_cert_hashes": {"type": "list", "elements": "str", "default": [], "no_log": True},
    "certificate_key": {"type": "str", "no_log": True},
    "timeout_seconds": {"type": "int", "default": 900},
}


def build_desired(parameters: dict[str, Any]) -> ControlPlaneDesired:
    """Return the desired state from the module's parameters."""
    audit, security = parameters["audit_policy"], parameters["pod_security"]
    audit = {"rules": DEFAULT_RULES} if audit is None else audit
    security = POD_SECURITY if security is None else security
    return ControlPlaneDesired(
        mode=parameters["mode"],
        node_name=parameters["node_name"],
        cluster=parameters["cluster"],
        init=parameters["init"],
        kubelet_config=parameters["kubelet_config"],
        kube_proxy_config=parameters["kube_proxy_config"],
        files=Files(
            audit_policy=audit_policy_text(audit) if audit else None,
            admission=admission_text(security) if security else None,
            encryption=parameters["encryption"],
        ),
        join={key: parameters[key] for key in ("token", "ca_cert_hashes", "certificate_key", "encryption_config")},
        timeout_seconds=parameters["timeout_seconds"],
    )


def main() -> None:
    """Run the component."""
    run_component(ControlPlane(), ARGUMENT_SPEC, build_desired)


if __name__ == "__main__":
    main()
