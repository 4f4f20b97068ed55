# SPDX-License-Identifier: Apache-2.0
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_report
short_description: Write what was declared of hosts against what preflight found
version_added: "0.1.0"
description:
  - Judges what M(bedplate.metal.preflight) with O(bedplate.metal.preflight#module:report) registered against the pools' specs.
  - Writes C(preflight.json) (format 1) and C(preflight.html) (one file, nothing loaded) with mode 0600.
  - Every host is in the report, also one that could not be reached or looked at.
  - The callback P(bedplate.metal.run_report#callback) prints it at the end of the run.
  - An action plugin; runs on the controller, contacts no host, and writes in check mode too.
attributes:
  check_mode: {support: full, description: Writes the report; nothing on any host changes.}
  diff_mode: {support: none, description: Changes nothing that is compared.}
  idempotent: {support: full, description: Writes the files anew.}
options:
  hosts:
    description: The hosts of the report.
    type: list
    elements: str
    required: true
  desired:
    description: What M(bedplate.metal.site) derived (the variable C(bedplate)).
    type: dict
    required: true
  result:
    description: Name of the variable that each host's result of preflight was registered in.
    type: str
    required: true
  directory:
    description: Directory on the controller; it is made.
    type: path
    required: true
author: The Bedplate authors
"""

EXAMPLES = r"""
- name: Write the report
  bedplate.metal.preflight_report:
    hosts: "{{ ansible_play_hosts_all }}"
    desired: "{{ bedplate }}"
    result: _preflight_result
    directory: reports
  run_once: true
"""

RETURN = r"""
report:
  description: Path of the JSON file.
  returned: success
  type: str
html:
  description: Path of the HTML file.
  returned: success
  type: str
verdicts:
  description: V(ok), V(unknown) or V(differs), by host.
  returned: success
  type: dict
summaries:
  description: How many findings of each kind, in words, by host.
  returned: success
  type: dict
"""
