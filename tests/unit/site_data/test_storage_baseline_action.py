# SPDX-License-Identifier: Apache-2.0
"""The action bedplate.metal.storage_baseline in a real playbook run: table, JSON, baselines on Nodes or for hosts' records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_api import FakeApi, Served, node

from site_directory import SiteDirectory

PLAY = """\
- name: Judge
  hosts: gpu_nodes
  gather_facts: false
  tasks:
    - name: Validate
      bedplate.metal.site:
      run_once: true
    - name: Stand for the measurement
      ansible.builtin.set_fact:
        measured:
          results: [{place: scratch, check: large-read, value: "{{ value | float }}", unit: bytes/s, reason: "", note: ""}]
          baseline: "{{ own | default({}) }}"
      when: inventory_hostname in seen.split()
    - name: Judge
      bedplate.metal.storage_baseline:
        bedplate: "{{ bedplate }}"
        hosts: "{{ ansible_play_hosts_all }}"
        results: measured
        kubeconfig: "{{ kubeconfig | default('') }}"
        record: "{{ record | default(false) }}"
        path: report/storage.json
      run_once: true
      register: judged
    - name: Show what is to be kept
      ansible.builtin.copy:
        content: "{{ judged | to_json }}"
        dest: judged.json
        mode: "0600"
      delegate_to: localhost
      run_once: true
"""
ANNOTATION = "bedplate.dev/storage-baseline"


@pytest.fixture
def place(site: SiteDirectory) -> SiteDirectory:
    site.write("play/play.yml", PLAY.replace("judged.json", f"{site.root}/judged.json"))
    site.append("group_vars/all/site.yml", "storage: [{name: scratch, kind: local, path: /scratch}]\n")
    return site


def run(site: SiteDirectory, root: Path, **variables: Any) -> dict[str, Any]:
    site.write("ansible.cfg", f"[defaults]\ncollections_path = {root}/.ansible/collections\njinja2_native = true\n")
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    command = [program, "-i", "hosts.yml", "play/play.yml", "-e", json.dumps({"seen": "w1 w2", "value": 1e9, **variables})]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1"}
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=site.root)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found: dict[str, Any] = json.loads((site.root / "judged.json").read_text(encoding="utf-8"))
    return {**found, "output": answer.stdout + answer.stderr}


def test_without_a_cluster_the_hosts_keep_their_baselines(place: SiteDirectory, root: Path) -> None:
    judged = run(place, root)
    assert sorted(judged["keep"]) == ["w1", "w2"] and judged["failed_hosts"] == {} and not judged["changed"]
    assert judged["keep"]["w1"]["checks"] == {"scratch/large-read": {"value": 1e9, "unit": "bytes/s"}}
    rows = [line.split() for line in judged["output"].splitlines() if "large-read" in line and "MB/s" in line]
    assert [row[:3] for row in rows] == [["w1", "scratch", "large-read"], ["w2", "scratch", "large-read"]]
    data = json.loads((place.root / "report/storage.json").read_text(encoding="utf-8"))
    assert data["format"] == 1 and [row["passed"] for row in data["results"]] == [True, True]
    again = run(place, root, own=judged["keep"]["w1"], value=5e8)
    assert again["keep"] == {} and "found 500.0 MB/s; wanted at least 700.0 MB/s" in again["failed_hosts"]["w2"]


def test_a_host_that_was_not_measured_is_named(place: SiteDirectory, root: Path) -> None:
    assert run(place, root, seen="w1")["failed_hosts"] == {"w2": "- -: not measured: the host failed before"}


def test_baselines_are_on_the_nodes_that_exist(place: SiteDirectory, root: Path, tmp_path: Path) -> None:
    api = FakeApi()
    api.add("/api/v1/nodes/w1", node("w1", annotations={"kept": "yes"}))
    with Served(api, tmp_path) as kubeconfig:
        first = run(place, root, kubeconfig=str(kubeconfig))
        assert first["changed"] and list(first["keep"]) == ["w2"], "w2 has no Node yet"
        annotations = api.node("w1")["metadata"]["annotations"]
        assert (
            json.loads(annotations[ANNOTATION])["checks"]["scratch/large-read"]["value"] == 1e9 and annotations["kept"] == "yes"
        )
        patches = len([method for method, _path in api.requests if method == "PATCH"])
        slow = run(place, root, kubeconfig=str(kubeconfig), value=6e8)
        assert "wanted at least 700.0 MB/s" in slow["failed_hosts"]["w1"] and not slow["changed"]
        assert len([method for method, _path in api.requests if method == "PATCH"]) == patches
        anew = run(place, root, kubeconfig=str(kubeconfig), value=6e8, record=True)
        assert anew["failed_hosts"] == {} and anew["changed"]
        assert json.loads(api.node("w1")["metadata"]["annotations"][ANNOTATION])["checks"]["scratch/large-read"]["value"] == 6e8


def test_what_a_host_kept_moves_to_its_node(place: SiteDirectory, root: Path, tmp_path: Path) -> None:
    own = run(place, root)["keep"]["w1"]
    api = FakeApi()
    api.add("/api/v1/nodes/w1", node("w1"))
    with Served(api, tmp_path) as kubeconfig:
        judged = run(place, root, kubeconfig=str(kubeconfig), own=own, value=6e8)
    assert "wanted at least 700.0 MB/s" in judged["failed_hosts"]["w1"]
    assert json.loads(api.node("w1")["metadata"]["annotations"][ANNOTATION]) == own


def test_an_api_that_does_not_answer_is_said(place: SiteDirectory, root: Path, tmp_path: Path) -> None:
    with Served(FakeApi(), tmp_path) as kubeconfig:
        pass
    judged = run(place, root, kubeconfig=str(kubeconfig))
    assert "baselines are those of the hosts' own records" in " ".join(judged["output"].split()) and sorted(judged["keep"]) == [
        "w1",
        "w2",
    ]
