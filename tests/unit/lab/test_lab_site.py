# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from bedplate_lab import cluster, site
from bedplate_lab.errors import LabError

HOSTS = {"bedplate-lab-cp1": "id1", "bedplate-lab-w1": "id2"}


@pytest.fixture
def tree(checkout: Path) -> Path:
    files = (
        "ansible.cfg",
        "versions.yml",
        "playbooks/site.yml",
        "roles/kernel/tasks/main.yml",
        "inventories/lab/hosts.yml",
        "docs/a.md",
    )
    for name in files:
        path = checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return checkout


@pytest.mark.parametrize("name", ["ansible.cfg", "versions.yml", "playbooks/site.yml", "roles/kernel/tasks/main.yml"])
def test_a_change_of_what_site_reads_is_seen(name: str, tree: Path) -> None:
    before = site.digest(HOSTS, tree)
    assert site.digest(HOSTS, tree) == before
    (tree / name).write_text("changed")
    assert site.digest(HOSTS, tree) != before


def test_a_new_or_a_renamed_file_is_seen(tree: Path) -> None:
    before = site.digest(HOSTS, tree)
    (tree / "roles/kernel/tasks/main.yml").rename(tree / "roles/kernel/tasks/other.yml")
    renamed = site.digest(HOSTS, tree)
    (tree / "roles/kernel/tasks/main.yml").write_text("")
    assert len({before, renamed, site.digest(HOSTS, tree)}) == 3


def test_what_site_does_not_read_is_not_looked_at(tree: Path) -> None:
    before = site.digest(HOSTS, tree)
    (tree / "docs/a.md").write_text("changed")
    (tree / "roles/kernel/__pycache__").mkdir()
    (tree / "roles/kernel/__pycache__/a.pyc").write_text("x")
    assert site.digest(HOSTS, tree) == before


def test_a_replaced_host_is_seen(tree: Path) -> None:
    assert site.digest(HOSTS, tree) != site.digest({**HOSTS, "bedplate-lab-w1": "id3"}, tree)


def test_nodes_as_kubectl_tells_them() -> None:
    text = """{"items": [
      {"metadata": {"name": "cp1"}, "spec": {"taints": [{"key": "a/b", "effect": "NoSchedule"}]},
       "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.3"}}},
      {"metadata": {"name": "w1"}, "spec": {},
       "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "nodeInfo": {"kubeletVersion": "v1.36.3"}}}]}"""
    nodes = cluster.parse_nodes(text)
    assert nodes["cp1"] == cluster.Node("cp1", True, "v1.36.3", ("a/b",))
    assert not nodes["w1"].ready


@pytest.mark.parametrize("text", ["", "error: connection refused", '{"items": [{}]}', "[]"])
def test_an_answer_that_is_no_list_of_nodes_is_an_error(text: str) -> None:
    with pytest.raises(LabError, match="kubectl get nodes: wanted a list of nodes"):
        cluster.parse_nodes(text)
