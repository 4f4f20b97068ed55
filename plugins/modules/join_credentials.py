# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: join_credentials
short_description: Make or withdraw credentials for joins
description:
  - Creates a bootstrap token through the API and returns it with the hash of the CA's public key.
  - For further control-plane hosts also uploads the certificates from the host the task is delegated to, and reads that host's
    encryption configuration. These pass through the controller's memory only.
  - The result is secret, so the task needs C(no_log=true). As that hides errors too, what went wrong is
    returned in RV(problem). An action plugin; runs on the controller.
attributes:
  check_mode: {support: full, description: Makes nothing and returns empty credentials.}
  diff_mode: {support: none, description: Its changes are secret.}
  idempotent: {support: none, description: Every call makes a new token.}
options:
  kubeconfig:
    description: Path of the kubeconfig on the controller.
    type: str
  state:
    description: Whether to make credentials or to withdraw them.
    type: str
    choices: [present, absent]
    default: present
  token:
    description: The token to withdraw.
    type: str
  control_plane:
    description: Whether further control-plane hosts join.
    type: bool
    default: false
  ttl_seconds:
    description: How long the token lives if it is never withdrawn.
    type: int
    default: 1800
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Make join credentials
  bedplate.metal.join_credentials:
    kubeconfig: "{{ bedplate_kubeconfig }}"
  run_once: true
  no_log: true
  register: credentials
"""

RETURN = r"""
problem:
  description: Why no credentials could be made, without secrets; empty otherwise. The task itself does not fail.
  returned: always
  type: str
token:
  description: Bootstrap token.
  returned: always
  type: str
ca_cert_hashes:
  description: Hashes of the CA's public key.
  returned: always
  type: list
  elements: str
certificate_key:
  description: Key of the uploaded certificates.
  returned: when control_plane
  type: str
encryption_config:
  description: The encryption configuration of the delegated host, or null.
  returned: when control_plane
  type: str
"""
