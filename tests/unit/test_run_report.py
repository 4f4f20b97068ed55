# SPDX-License-Identifier: Apache-2.0
"""The run report, fed by hand and by a real ansible-playbook on local connections."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.plugin_utils.run_report import RunReport, TaskEvent, findings

LEFT = {"what": "package kubelet", "before": "1", "after": "2", "effects": ["drain"], "playbook": "bedplate.metal.roll_pool"}


def event(**values: Any) -> TaskEvent:
    return TaskEvent(
        **{"host": "w1", "ran_on": "w1", "task": "kernel : Kernel", "action": "bedplate.metal.kernel", "runs": 1, **values}
    )


def test_counts_for_the_host_it_ran_on_and_findings_for_the_host_they_are_about() -> None:
    report = RunReport("site.yml")
    report.add(event(outcome="ok", changed=True, seconds=1.5, changes=({"what": "sysctl a"},)))
    report.add(event(ran_on="localhost", outcome="ok", changed=True, changes=({"what": "label x", "host": "w2"},)))
    report.add(event(outcome="skipped"))
    report.add(event(outcome="failed"))
    report.add(event(host="w3", ran_on="w3", outcome="unreachable"))
    hosts = report.public(2.0)["hosts"]
    assert (hosts["w1"]["executed"], hosts["w1"]["changed"], hosts["w1"]["failed"], hosts["w1"]["skipped"]) == (2, 1, 1, 1)
    assert (hosts["controller"]["executed"], hosts["controller"]["changes"]) == (1, [])
    assert hosts["w2"]["changes"] == [{"what": "label x"}]
    assert (hosts["w3"]["executed"], hosts["w3"]["unreachable"]) == (0, 1)


def test_summary_names_every_deferred_change_with_effects_and_a_command_to_paste() -> None:
    report = RunReport("site.yml", command=".venv/bin/ansible-playbook -i inventories/lab")
    report.add(event(outcome="ok", deferred=(LEFT,), pool="train"))
    report.add(event(host="w2", ran_on="w2", outcome="ok", deferred=(LEFT,), pool="infer"))
    lines = "\n".join(report.lines(3.21))
    assert "w1  1 executed, changed nothing, 1 left for later" in lines
    command = ".venv/bin/ansible-playbook -i inventories/lab bedplate.metal.roll_pool -e bedplate_pool="
    assert f"running work:\n  w1: package kubelet (drain)\nthis rolls it out: {command}train" in lines
    assert f"running work:\n  w2: package kubelet (drain)\nthis rolls it out: {command}infer" in lines


def test_a_reboot_that_nobody_allowed_is_named_with_what_to_paste() -> None:
    report = RunReport("site.yml", command="ansible-playbook -i inventories/lab")
    module = {"what": "kernel module nvidia", "effects": ["drain", "reboot"], "playbook": "bedplate.metal.site"}
    report.add(event(outcome="ok", deferred=(module,), pool="train"))
    report.add(event(host="w2", ran_on="w2", outcome="ok", deferred=(module,), pool="train"))
    report.add(event(host="w2", ran_on="w2", outcome="ok", action="bedplate.metal.worker", pool="train"))
    lines = "\n".join(report.lines(1))
    alone = "ansible-playbook -i inventories/lab bedplate.metal.site --limit w1 -e bedplate_allow=reboot"
    assert f"nobody allowed:\n  w1: kernel module nvidia (drain, reboot)\nthis reboots the host and applies it: {alone}" in lines
    node = "ansible-playbook -i inventories/lab bedplate.metal.roll_pool -e bedplate_pool=train"
    assert f"running work:\n  w2: kernel module nvidia (drain, reboot)\nthis rolls it out: {node}" in lines, "w2 has joined"


def test_what_the_same_run_applied_later_is_not_left() -> None:
    other = {**LEFT, "what": "file /etc/x"}
    report = RunReport("roll_pool.yml")
    report.add(event(outcome="ok", changed=True, changes=({"what": "sysctl a"},), deferred=(LEFT, other), planned=True))
    report.add(event(host="w2", ran_on="w2", outcome="ok", deferred=(LEFT,), planned=True))
    report.add(event(outcome="ok", action="bedplate.metal.kubelet", deferred=(), changed=False))
    report.add(event(outcome="ok", changed=True, changes=({"what": "sysctl a"}, LEFT), deferred=(other,)))
    hosts = report.public(1.0)["hosts"]
    assert [change["what"] for change in hosts["w1"]["deferred"]] == ["file /etc/x"]
    assert [change["what"] for change in hosts["w1"]["changes"]] == ["sysctl a", "package kubelet"]
    assert hosts["w1"]["changed"] == 1
    assert hosts["w2"]["deferred"] == [LEFT]


def test_what_was_planned_is_still_left_after_a_failure() -> None:
    report = RunReport("roll_pool.yml")
    report.add(event(outcome="ok", deferred=(LEFT,), planned=True))
    report.add(event(outcome="failed"))
    assert report.public(1.0)["hosts"]["w1"]["deferred"] == [LEFT]


def test_summary_of_check_mode_does_not_claim_to_have_changed_anything() -> None:
    report = RunReport("site.yml", check=True)
    report.add(event(outcome="ok", changed=True, changes=({"what": "a"}, {"what": "b"})))
    assert "would change 2 things" in "\n".join(report.lines(1))


def test_results_of_other_modules_are_left_alone() -> None:
    assert findings({"changes": "yes", "deferred": ["x", {"no": "what"}]}, "changes") == ()
    assert findings({"deferred": ["x", {"no": "what"}]}, "deferred") == ()
    assert findings({"results": [{"changes": [{"what": "a"}]}, {"changes": [{"what": "b"}]}]}, "changes") == (
        {"what": "a"},
        {"what": "b"},
    )


PLAYBOOK = """
- hosts: a, b
  gather_facts: false
  tasks:
    - {name: Counts, ansible.builtin.command: "true"}
    - {name: Skipped, ansible.builtin.command: "true", when: false}
    - {name: Fact, ansible.builtin.set_fact: {x: 1}}
    - {name: Include, ansible.builtin.include_tasks: included.yml}
    - {name: Loop, ansible.builtin.command: "true", changed_when: false, loop: [1, 2, 3], when: item != 2}
    - {name: For a, ansible.builtin.command: "true", changed_when: false, delegate_to: a, run_once: true}
    - {name: Here, ansible.builtin.command: "true", changed_when: false, delegate_to: localhost, run_once: true}
    - {name: Each, ansible.builtin.command: "true", changed_when: false, loop: [a, b], delegate_to: "{{ item }}", run_once: true}
    - {name: None, ansible.builtin.command: "true", loop: [a], delegate_to: "{{ item }}", when: false}
    - {name: Secret, ansible.builtin.command: "echo {{ lookup('env', 'A_SECRET') }}", no_log: true}
    - {name: Ignored, ansible.builtin.command: "false", ignore_errors: true}
    - {name: Fails, ansible.builtin.command: "false", when: inventory_hostname == 'b'}
"""
ROLLING = """
- hosts: a, b, c
  gather_facts: false
  tasks:
    - {ansible.builtin.include_tasks: {file: component.yml, apply: {check_mode: true}}}
    - {ansible.builtin.include_tasks: component.yml, when: inventory_hostname == 'a'}
"""
COMPONENT = """
import json, sys
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={}, supports_check_mode=True)
change = [{"what": "package kubelet", "effects": ["drain"], "playbook": "bedplate.metal.roll_pool"}]
kept = change if module.check_mode else []
changes = [{"what": "sysctl a", "effects": []}] + ([] if kept else change)
module.exit_json(changed=True, changes=changes, deferred=kept)
"""


@pytest.fixture(scope="module")
def ran(root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, int]:
    """The report of a real run, its text and the mode of the report's file."""
    directory = tmp_path_factory.mktemp("run")
    (directory / "play.yml").write_text(PLAYBOOK)
    (directory / "included.yml").write_text('- {name: Inner, ansible.builtin.command: "true", changed_when: false}\n')
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (directory / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"a": {}, "b": {}}, "vars": variables}}))
    report = directory / "reports" / "run.json"
    env = {**os.environ, "ANSIBLE_CONFIG": str(root / "ansible.cfg"), "BEDPLATE_REPORT": str(report)}
    env |= {"ANSIBLE_LOCALHOST_WARNING": "false", "A_SECRET": "hunter2"}
    result = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", directory / "hosts.yml", directory / "play.yml", "-v"],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
    )
    assert report.exists(), result.stdout + result.stderr
    return json.loads(report.read_text()), result.stdout + report.read_text(), report.stat().st_mode & 0o777


def test_a_real_run_counts_module_runs_only(ran: tuple[dict[str, Any], str, int]) -> None:
    hosts = ran[0]["hosts"]
    # Counts, Inner, two items of Loop, one of Each, Secret, Ignored; a also runs the delegated task, b the failing one.
    assert (hosts["a"]["executed"], hosts["a"]["failed"], hosts["a"]["ignored"]) == (8, 0, 1)
    assert (hosts["b"]["executed"], hosts["b"]["failed"], hosts["b"]["ignored"]) == (8, 1, 1)
    assert set(hosts) == {"a", "b", "controller"}
    assert hosts["controller"]["executed"] == 1
    assert hosts["a"]["changed"] == 3
    assert hosts["a"]["seconds"] > 0
    assert ran[0]["format"] == 1


def test_a_real_run_prints_its_summary_and_no_secret(ran: tuple[dict[str, Any], str, int]) -> None:
    assert "RUN REPORT" in ran[1]
    assert "8 executed" in ran[1]
    assert "hunter2" not in ran[1]
    assert ran[2] == 0o600


def test_a_real_rolling_run_names_what_is_left_with_a_command_for_each_pool(root: Path, tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "component.py").write_text(COMPONENT)
    (tmp_path / "component.yml").write_text("- {name: Component, component: {}}\n")
    (tmp_path / "play.yml").write_text(ROLLING)
    variables = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    pools: dict[str, Any] = {"train": {"hosts": {"a": {}, "b": {}}}}
    children = {"gpu_nodes": {"children": pools}, "control_plane": {"hosts": {"c": {}}}}
    (tmp_path / "hosts.yml").write_text(json.dumps({"all": {"children": children, "vars": variables}}))
    program = Path(sys.executable).with_name("ansible-playbook")
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(root / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(root / ".ansible/collections"),
    }
    result = subprocess.run(
        [program, "-i", "hosts.yml", "play.yml"], capture_output=True, text=True, env=env, timeout=120, cwd=tmp_path
    )
    left = result.stdout.partition("RUN REPORT")[2].splitlines()
    assert "  a: package kubelet (drain)" not in left, result.stdout + result.stderr
    assert any(line.startswith("  a ") and line.endswith("changed 2 things") for line in left)
    assert any(line.startswith("  b ") and line.endswith("changed nothing, 1 left for later") for line in left)
    for host, pool in (("b", "train"), ("c", "control_plane")):
        place = left.index(f"  {host}: package kubelet (drain)")
        assert left[place + 1].endswith(f"ansible-playbook -i hosts.yml bedplate.metal.roll_pool -e bedplate_pool={pool}")
