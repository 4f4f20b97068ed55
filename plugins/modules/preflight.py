#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: look at a host once and report everything that would stop it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: preflight
short_description: Look at a host once and report everything that would stop it
version_added: "0.1.0"
description:
  - Observes the system, disks, package manager, addresses, clock, reachability of the package and image sources, and what the
    host already is to Kubernetes, in one round trip.
  - All problems of a host are reported together, each with what was found, what was wanted and the next step.
  - Changes nothing, but for finishing a package transaction of this project that was killed.
attributes:
  check_mode:
    description: Reports the same problems; repairs nothing.
    support: full
  diff_mode:
    description: Shows the repair.
    support: full
  idempotent:
    description: A host without an interrupted transaction is never changed.
    support: full
options:
  requirements:
    description: What the host must have.
    type: dict
    suboptions:
      min_disk_bytes:
        description: Free bytes under C(/var/lib) on a host that is not yet a node. A working node only must not be full.
        type: int
        default: 10737418240
      min_memory_bytes:
        description: Memory in bytes. The default is kubeadm's own floor for a control plane (1700 MB).
        type: int
        default: 1700000000
      distributions:
        description: Accepted distributions as C(ID-VERSION_ID) of C(/etc/os-release).
        type: list
        elements: str
        default: [debian-12, debian-13, ubuntu-22.04, ubuntu-24.04]
  kind:
    description: What the host is to become.
    type: str
    choices: [control-plane, worker]
    default: worker
  node_ip:
    description: The node's declared address. Without one, the host must have exactly one candidate.
    type: str
  node_cidrs:
    description: Ranges that node addresses are in.
    type: list
    elements: str
    default: []
  endpoint:
    description: The API endpoint; an address of it on an interface is never a node's own.
    type: dict
    suboptions:
      name:
        description: Name of the endpoint.
        type: str
      port:
        description: Port of the endpoint.
        type: int
        default: 6443
      address:
        description: Address of the endpoint, for instance a virtual IP.
        type: str
  time:
    description: How the clock is judged.
    type: dict
    suboptions:
      servers:
        description: SNTP servers to compare with, C(host), C(host:port) or C([v6]:port).
        type: list
        elements: str
        default: []
      max_offset_seconds:
        description: Largest accepted difference.
        type: float
        default: 5
      service_required:
        description: Whether a time service must be active.
        type: bool
        default: true
  apt_lock_timeout_seconds:
    description: How long to wait for a held package lock before naming its holder. The lock is never removed.
    type: int
    default: 300
  depot_uris:
    description: URIs whose host and port must accept a TCP connection.
    type: list
    elements: str
    default: []
  kubernetes_ports_free:
    description: Whether a host without Kubernetes state must have Kubernetes' ports free.
    type: bool
    default: true
  report:
    description:
      - Look at the hardware as well (C(observed.hardware)), for the report of M(bedplate.metal.preflight_report).
      - No finding fails the task then, not even a host that cannot be reached; C(refused) says why there is nothing observed.
    type: bool
    default: false
extends_documentation_fragment:
  - bedplate.metal.component
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Look at the host
  bedplate.metal.preflight:
    kind: worker
    node_ip: 10.0.0.11
    node_cidrs: [10.0.0.0/24]
    time:
      servers: [time.example.com]
"""

RETURN = r"""
observed:
  description:
    - "What was found: distribution, architecture, kernel, python, memory_bytes, disk_free_bytes (by path), cgroup_version,
      addresses, default_interfaces, node_ip (declared or the only candidate), clock_offset_seconds, time_services, held_packages,
      kubelet."
    - "C(kubelet) has state (none, partial, complete), ca_sha256 (of the CA's DER form), server, ours, control_plane, phases."
    - "With O(report) also C(hardware): machine, gpus, nvswitches, nics, affinity, acs, disks."
  returned: when nothing stops the host; with O(report) whenever it could be looked at
  type: dict
refused:
  description: Why the host could not be looked at; C(state) is C(unreachable) or C(failed), C(message) names the next step.
  returned: with O(report), when it could not
  type: dict
problems:
  description: Problems with keys what, found, wanted, next_step, severity.
  returned: always
  type: list
  elements: dict
changes:
  description: Repairs applied (in check mode, that would be).
  returned: always
  type: list
  elements: dict
deferred:
  description: Always empty for this module.
  returned: always
  type: list
  elements: dict
"""

import ipaddress
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import run_component
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.preflight import Preflight
from ansible_collections.bedplate.metal.plugins.module_utils.preflight_checks import node_ip
from ansible_collections.bedplate.metal.plugins.module_utils.preflight_facts import PreflightDesired, public_facts

DISTRIBUTIONS = ["debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04"]

ARGUMENT_SPEC: dict[str, Any] = {
    "requirements": {
        "type": "dict",
        "apply_defaults": True,
        "options": {
            "min_disk_bytes": {"type": "int", "default": 10 * 1024**3},
            "min_memory_bytes": {"type": "int", "default": 1_700_000_000},
            "distributions": {"type": "list", "elements": "str", "default": DISTRIBUTIONS},
        },
    },
    "kind": {"type": "str", "choices": ["control-plane", "worker"], "default": "worker"},
    "node_ip": {"type": "str"},
    "node_cidrs": {"type": "list", "elements": "str", "default": []},
    "endpoint": {
        "type": "dict",
        "apply_defaults": True,
        "options": {"name": {"type": "str"}, "port": {"type": "int", "default": 6443}, "address": {"type": "str"}},
    },
    "time": {
        "type": "dict",
        "apply_defaults": True,
        "options": {
            "servers": {"type": "list", "elements": "str", "default": []},
            "max_offset_seconds": {"type": "float", "default": 5},
            "service_required": {"type": "bool", "default": True},
        },
    },
    "apt_lock_timeout_seconds": {"type": "int", "default": 300},
    "depot_uris": {"type": "list", "elements": "str", "default": []},
    "kubernetes_ports_free": {"type": "bool", "default": True},
    "report": {"type": "bool", "default": False},
}


def build_desired(parameters: dict[str, Any]) -> PreflightDesired:
    """Make the desired state; raise :class:`BedplateError` for an address or range that is none."""
    address = parameters["node_ip"] or None
    try:
        if address:
            ipaddress.ip_address(address)
        for cidr in parameters["node_cidrs"]:
            ipaddress.ip_network(cidr, strict=False)
    except ValueError as error:
        raise BedplateError(
            f"node_ip or node_cidrs: found {error}; wanted plain addresses. Next: correct the inventory"
        ) from error
    requirements, clock = parameters["requirements"], parameters["time"]
    return PreflightDesired(
        kind=parameters["kind"],
        node_ip=address,
        node_cidrs=tuple(parameters["node_cidrs"]),
        endpoint_address=parameters["endpoint"]["address"],
        min_disk_bytes=requirements["min_disk_bytes"],
        min_memory_bytes=requirements["min_memory_bytes"],
        distributions=tuple(requirements["distributions"]),
        time_servers=tuple(clock["servers"]),
        max_offset_seconds=clock["max_offset_seconds"],
        time_service_required=clock["service_required"],
        apt_lock_timeout_seconds=parameters["apt_lock_timeout_seconds"],
        depot_uris=tuple(parameters["depot_uris"]),
        kubernetes_ports_free=parameters["kubernetes_ports_free"],
        report=parameters["report"],
    )


def main() -> None:
    """Run the component."""
    desired: list[PreflightDesired] = []

    def build(parameters: dict[str, Any]) -> PreflightDesired:
        desired.append(build_desired(parameters))
        return desired[0]

    def returns(outcome: Outcome) -> dict[str, Any]:
        return {"observed": public_facts(outcome.observed, node_ip(outcome.observed, desired[0]))}

    run_component(Preflight(), ARGUMENT_SPEC, build, returns=returns, stops=lambda: not desired[0].report)


if __name__ == "__main__":
    main()
