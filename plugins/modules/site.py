# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: site
short_description: Validate the whole site and derive what each host should be
description:
  - Reads the inventory's own YAML, resolves its templates, and reports every error at once with file, line, key, value and rule.
  - Sets the variable C(bedplate) of all hosts of the play. It holds no secrets.
  - An action plugin; runs on the controller and contacts no host.
attributes:
  check_mode: {support: full, description: Changes nothing.}
  diff_mode: {support: none, description: Changes nothing.}
  idempotent: {support: full, description: Changes nothing.}
options:
  purpose:
    description:
      - What the playbook is about to do. A number of etcd members that cannot be kept is refused at V(create) and warned of
        otherwise, so that removal and recovery go on.
    type: str
    choices: [create, change, upgrade, remove, recover, reset, exit]
    default: create
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Validate the inventory and derive what each host should be
  bedplate.metal.site:
  run_once: true
"""

RETURN = r"""
warnings:
  description: Findings that do not stop.
  type: list
  elements: str
  returned: when there are any
"""
