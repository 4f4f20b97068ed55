# SPDX-License-Identifier: Apache-2.0
"""The action bedplate.metal.site in a real playbook run: before any connection, with --limit, without secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from site_directory import SiteDirectory

PLAY = """\
- name: Validate
  hosts: all
  gather_facts: false
  tasks:
    - name: Validate
      bedplate.metal.site:
      run_once: true
    - name: Show
      ansible.builtin.debug:
        msg: "node_ip={{ bedplate.hosts[inventory_hostname].node_ip }} version={{ bedplate.cluster.kubernetes_version }}"
"""
SECRET = "hunter2hunter2"
REGISTRIES = """\
registries:
  - host: docker.io
    mirrors: [{url: "https://m.example.com", username: puller, password: "{{ depot_password }}"}]
"""


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(site: SiteDirectory, root: Path) -> Run:
    site.write("play/play.yml", PLAY)
    site.write("ansible.cfg", f"[defaults]\ncollections_path = {root}/.ansible/collections\n")
    # A connection that cannot work: nothing may try it.
    site.append(SITE, "ansible_connection: ansible.builtin.ssh\nansible_ssh_executable: /bin/false\n")

    def ansible(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "0"}
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [str(program), "-i", "hosts.yml", "play/play.yml", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=site.root)

    return ansible


SITE = "group_vars/all/site.yml"


def test_limited_to_one_host_it_is_as_unlimited(site: SiteDirectory, run: Run) -> None:
    answer = run("--limit", "w2")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "node_ip=10.0.0.22 version=1.36.3" in answer.stdout
    assert "DEPRECATION" not in answer.stderr
    everywhere = run()
    assert everywhere.returncode == 0
    for address in ("10.0.0.11", "10.0.0.21", "10.0.0.22"):
        assert f"node_ip={address} version=1.36.3" in everywhere.stdout


def test_all_errors_at_once_and_no_host_contacted(site: SiteDirectory, run: Run) -> None:
    site.site('"1.36.3"', "1.30")
    site.replace("hosts.yml", "w1:", "GPU_Node01:")
    answer = run()
    assert answer.returncode == 2
    assert "the site's data has 2 errors; no host was contacted:" in answer.stdout
    assert "cluster.kubernetes_version = 1.30" in answer.stdout
    assert "host = GPU_Node01" in answer.stdout
    assert "UNREACHABLE" not in answer.stdout


def test_secrets_are_in_no_output(site: SiteDirectory, run: Run) -> None:
    site.append(SITE, REGISTRIES)
    answer = run("-vvv", "-e", f"depot_password={SECRET}")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert SECRET not in answer.stdout + answer.stderr
