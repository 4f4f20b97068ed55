#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: kubelet and kubeadm."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: kubelet
short_description: Set up kubelet, kubeadm and their tools, up to where a host can join
version_added: "0.1.0"
description:
  - Installs the packages by exact version and holds them.
  - Writes KubeletConfiguration drop-ins to C(/etc/kubernetes/kubelet.conf.d), kubelet's flags, crictl's configuration and the
    endpoint's address in C(/etc/hosts).
  - Gives pods the upstream name servers where the host itself uses a local stub.
  - On a node in service a new version and a change of the CPU, memory or topology manager wait for a drain; the managers'
    state files, which kubelet would refuse, are removed with the change. Other drop-ins restart kubelet, which leaves pods
    running.
  - kubelet must be healthy after a restart; if not, the old files are put back.
attributes:
  check_mode:
    description: Predicts the same changes.
    support: full
  diff_mode:
    description: Shows the files, except those with credentials.
    support: full
  idempotent:
    description: A second run changes and restarts nothing.
    support: full
options:
  version:
    description: Exact package version of kubelet, kubeadm and kubectl.
    type: str
    required: true
  cri_tools_version:
    description: Exact package version of cri-tools; left out, whichever is installed or the repository's candidate.
    type: str
  cni_plugins_version:
    description: Exact package version of kubernetes-cni; left out, whichever is installed or the repository's candidate.
    type: str
  packages:
    description: More packages, neither exact nor held (what kubelet's package depends on comes with it).
    type: list
    elements: str
    default: []
  node_ip:
    description: Address the node is known by; two, joined by a comma, on a dual-stack host. IPv6 without brackets.
    type: str
    required: true
  endpoint:
    description: Name of the API endpoint and the address written for it to C(/etc/hosts); no address where DNS answers.
    type: dict
    required: true
    suboptions:
      name:
        description: DNS name.
        type: str
        required: true
      address:
        description: IP address; IPv6 without brackets. A host that is part of a cluster takes another one only if the cluster's
          API answers there.
        type: str
      port:
        description: Port the API answers on.
        type: int
        default: 6443
  dropins:
    description: Drop-ins by file name (C(NN-name.conf)), each a dictionary of KubeletConfiguration fields. Unknown fields are
      refused, because kubelet would ignore them in silence.
    type: dict
    default: {}
  extra_args:
    description: More flags of kubelet, by name without dashes.
    type: dict
    default: {}
  runtime_endpoint:
    description: Socket crictl talks to.
    type: str
    default: unix:///run/containerd/containerd.sock
extends_documentation_fragment:
  - bedplate.metal.component
  - bedplate.metal.component.apt
  - bedplate.metal.component.proxy
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: kubelet of a pool that pins CPUs
  bedplate.metal.kubelet:
    version: 1.36.3-1.1
    node_ip: 10.1.2.3
    endpoint:
      name: api.example.com
    dropins:
      30-pool.conf:
        cpuManagerPolicy: static
        reservedSystemCPUs: 0-3
"""

RETURN = r"""
changes:
  description: Changes applied (in check mode, that would be), with keys what, before, after, effects.
  returned: always
  type: list
  elements: dict
deferred:
  description: Changes that wait for the playbook named with each.
  returned: always
  type: list
  elements: dict
problems:
  description: Problems with keys what, found, wanted, next_step, severity.
  returned: always
  type: list
  elements: dict
"""

import ipaddress
import re
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import (
    LOCK_TIMEOUT_OPTION,
    PROXY_OPTION,
    run_component,
)
from ansible_collections.bedplate.metal.plugins.module_utils.kubeadm import API_PORT, CRI_SOCKET
from ansible_collections.bedplate.metal.plugins.module_utils.kubelet import Desired, Kubelet
from ansible_collections.bedplate.metal.plugins.module_utils.kubelet_config import check_fragments

OWN_FLAGS = {"config-dir": "dropins", "node-ip": "node_ip", "config": "dropins", "container-runtime-endpoint": "dropins"}

ARGUMENT_SPEC: dict[str, Any] = {
    "version": {"type": "str", "required": True},
    "cri_tools_version": {"type": "str"},
    "cni_plugins_version": {"type": "str"},
    "packages": {"type": "list", "elements": "str", "default": []},
    "node_ip": {"type": "str", "required": True},
    "endpoint": {
        "type": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "address": {"type": "str"},
            "port": {"type": "int", "default": API_PORT},
        },
    },
    "dropins": {"type": "dict", "default": {}},
    "extra_args": {"type": "dict", "default": {}},
    "proxy": PROXY_OPTION,
    "runtime_endpoint": {"type": "str", "default": CRI_SOCKET},
    "lock_timeout_seconds": LOCK_TIMEOUT_OPTION,
}


def build_desired(parameters: dict[str, Any]) -> Desired:
    """Make the desired state; raise ValueError for what kubelet would refuse or ignore."""
    node_ips = [_address("node_ip", part) for part in parameters["node_ip"].split(",")]
    if len(node_ips) > 2 or (
        len(node_ips) == 2 and ipaddress.ip_address(node_ips[0]).version == ipaddress.ip_address(node_ips[1]).version
    ):
        raise ValueError(f"node_ip: found {parameters['node_ip']}; wanted one address, or one of each family")
    address = parameters["endpoint"]["address"] or None
    check_fragments(parameters["dropins"])
    version = parameters["version"]
    return Desired(
        packages={
            "kubelet": version,
            "kubeadm": version,
            "kubectl": version,
            "cri-tools": parameters["cri_tools_version"] or None,
            "kubernetes-cni": parameters["cni_plugins_version"] or None,
        },
        node_ip=",".join(node_ips),
        endpoint_name=parameters["endpoint"]["name"],
        endpoint_address=_address("endpoint.address", address) if address else None,
        endpoint_port=parameters["endpoint"]["port"],
        dropins=parameters["dropins"],
        extra_args={name: _argument(name, value) for name, value in parameters["extra_args"].items()},
        extra_packages=tuple(parameters["packages"]),
        proxy=parameters["proxy"],
        runtime_endpoint=parameters["runtime_endpoint"],
        lock_timeout_seconds=parameters["lock_timeout_seconds"],
    )


def _address(option: str, text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError(f"{option}: found {text!r}; wanted an IP address, IPv6 without brackets") from None


def _argument(name: str, value: Any) -> str:
    if name in OWN_FLAGS:
        raise ValueError(f"extra_args: found {name}, which this module sets; wanted it in {OWN_FLAGS[name]}")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not re.fullmatch(r"[a-z0-9-]+", name) or re.search(r"[\s\"'\\$`]", text):
        raise ValueError(
            f"extra_args: found {name}={text}; wanted a flag's name without dashes before it, and no blanks or quotes"
        )
    return text


def main() -> None:
    """Run the component."""
    run_component(Kubelet(), ARGUMENT_SPEC, build_desired)


if __name__ == "__main__":
    main()
