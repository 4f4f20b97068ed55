# SPDX-License-Identifier: Apache-2.0
"""The action bedplate.metal.fabric_ring in a real playbook run: a table, JSON, and an exit code that a script can trust."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from site_directory import SiteDirectory

PLAY = """\
- name: Measure
  hosts: gpu_nodes
  gather_facts: false
  tasks:
    - name: Validate
      bedplate.metal.site:
      run_once: true
    - name: Plan
      bedplate.metal.fabric_ring: {step: plan, bedplate: "{{ bedplate }}", hosts: "{{ ansible_play_hosts }}"}
      run_once: true
      register: ring
    - name: Stand for the measurement
      ansible.builtin.set_fact:
        measured:
          - {peer: "{{ 'w9' if inventory_hostname == 'w1' else 'w1' }}", rail: rail0, device: mlx5_0, gbps: 391.5,
             floor_gbps: 360, mtu_bytes: 4096, passed: true, reason: ""}
      when: inventory_hostname in seen.split()
    - name: Report
      bedplate.metal.fabric_ring:
        step: report
        bedplate: "{{ bedplate }}"
        hosts: "{{ ansible_play_hosts_all }}"
        rounds: "{{ ring.rounds }}"
        results: measured
        path: report/fabric.json
      run_once: true
"""


@pytest.fixture
def ring(site: SiteDirectory) -> SiteDirectory:
    site.write("play/play.yml", PLAY)
    site.append("group_vars/train.yml", "  nics: [{name: rail0, fabric: infiniband, device: mlx5_0, speed_gbps: 400}]\n")
    line = "            w1: {ansible_host: 10.0.0.21, rack: r1, topology_block: b1}\n"
    site.replace("hosts.yml", line, line + line.replace("w1", "w9").replace("10.0.0.21", "10.0.0.29"))
    return site


def run(site: SiteDirectory, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    site.write("ansible.cfg", f"[defaults]\ncollections_path = {root}/.ansible/collections\n")
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    command = [program, "-i", "hosts.yml", "play/play.yml", *arguments]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=site.root)


def test_all_pairs_passed(ring: SiteDirectory, root: Path) -> None:
    answer = run(ring, root, "-e", "seen='w1 w9'")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    rows = [line.split() for line in answer.stdout.splitlines() if "mlx5_0" in line and "391.50" in line]
    assert rows == [[a, b, "rail0", "mlx5_0", "391.50", "360", "4096", "ok"] for a, b in (("w1", "w9"), ("w9", "w1"))]
    data = json.loads((ring.root / "report/fabric.json").read_text(encoding="utf-8"))
    assert data["format"] == 1 and [one["passed"] for one in data["results"]] == [True, True]


def test_a_pair_that_was_not_measured_fails(ring: SiteDirectory, root: Path) -> None:
    answer = run(ring, root, "-e", "seen=w1")
    assert answer.returncode != 0
    assert "1 of 2 measurements did not pass" in answer.stdout + answer.stderr
    assert "w9 to w1, rail0: not measured" in answer.stdout + answer.stderr


def test_no_cards_at_all_is_an_error(ring: SiteDirectory, root: Path) -> None:
    answer = run(ring, root, "--limit", "infer", "-e", "seen=")
    assert answer.returncode != 0 and "found no host in this run whose pool has a card" in answer.stdout + answer.stderr
