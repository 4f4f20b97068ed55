# SPDX-License-Identifier: Apache-2.0
"""Rules that hold for every role: documented variables, READMEs that agree, scenarios with tests, qualified names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.versions import load_versions

from bedplate_tools.role_docs import readme, specs

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path for path in ROOT.glob("roles/*") if (path / "tasks").is_dir())
TASK_FILES = sorted([*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/handlers/*.yml")])
PLAYBOOKS = sorted([*ROOT.glob("playbooks/*.yml"), *ROOT.glob("molecule/*/*.yml")])
KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        always args any_errors_fatal async become become_method become_user block changed_when check_mode collections connection
        debugger delay delegate_facts delegate_to diff environment failed_when ignore_errors ignore_unreachable listen loop
        loop_control module_defaults name no_log notify poll port register remote_user rescue retries run_once tags throttle
        timeout until vars when
        """,
    )
)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None


def tasks(items: Any) -> Iterator[dict[str, Any]]:
    """Every task of a task list, those in blocks included."""
    for item in items or []:
        if not isinstance(item, dict):
            continue
        if {"block", "rescue", "always"} & set(item):
            for key in ("block", "rescue", "always"):
                yield from tasks(item.get(key))
        else:
            yield item


def all_tasks() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in TASK_FILES:
        for task in tasks(load(path)):
            yield f"{path.relative_to(ROOT)}: {task.get('name')}", task
    for path in PLAYBOOKS:
        for play in load(path) or []:
            for section in ("pre_tasks", "tasks", "post_tasks", "handlers") if isinstance(play, dict) else ():
                for task in tasks(play.get(section)):
                    yield f"{path.relative_to(ROOT)}: {task.get('name')}", task


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_default_is_documented_with_the_same_value(role: Path) -> None:
    documented = {name: option for spec in specs(role).values() for name, option in (spec.get("options") or {}).items()}
    defaults = load(role / "defaults" / "main.yml") or {}
    assert set(defaults) <= set(documented), "defaults without a specification"
    without_default = {name for name, option in documented.items() if "default" in option} - set(defaults)
    assert not without_default, "specified with a default that defaults/main.yml does not set"
    for name, value in defaults.items():
        assert not documented[name].get("required"), f"{name} has a default and is required"
        # A template is worked out at run time and a whole document is long: their specification says it in words.
        if "default" in documented[name]:
            assert documented[name]["default"] == value, name
        else:
            described = value is None or isinstance(value, dict) or (isinstance(value, str) and "{{" in value)
            assert described, f"{name}: the specification lacks the default {value!r}"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_public_variables_carry_the_roles_name_and_a_description(role: Path) -> None:
    assert specs(role), "no meta/argument_specs.yml"
    for spec in specs(role).values():
        assert spec.get("short_description")
        for name, option in (spec.get("options") or {}).items():
            assert name.startswith((f"{role.name}_", "bedplate_")), name
            assert option.get("description"), name
            assert option.get("type"), name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_readme_agrees_with_the_specification(role: Path) -> None:
    target = role / "README.md"
    assert target.exists() and target.read_text(encoding="utf-8") == readme(role), "next: scripts/role-docs"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_role_has_a_scenario_with_tests(role: Path) -> None:
    # One that needs a machine of its own is tested there; a scenario's host is none.
    if list((ROOT / "tests" / "e2e" / "metal").rglob(f"test_*_{role.name}.py")):
        return
    scenario = ROOT / "molecule" / role.name
    assert (scenario / "molecule.yml").exists()
    assert (scenario / "converge.yml").exists()
    tests = list(scenario.glob("tests/test_*.py"))
    assert tests, "no testinfra tests"
    assert any(re.search(r"^def test_", path.read_text(), re.MULTILINE) for path in tests)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_private_variable_carries_the_roles_name(role: Path) -> None:
    for path in role.glob("tasks/*.yml"):
        for task in tasks(load(path)):
            names = {task["register"]} if isinstance(task.get("register"), str) else set()
            names |= set(task.get("ansible.builtin.set_fact") or {}) - {"cacheable"}
            for name in names:
                assert name.startswith((f"_{role.name}_", f"{role.name}_", "bedplate")), f"{path.name}: {name}"


def test_module_names_are_fully_qualified() -> None:
    short = [
        f"{where}: {key}"
        for where, task in all_tasks()
        for key in task
        if key not in KEYWORDS and not key.startswith("with_") and key.count(".") < 2
    ]
    assert not short


def test_every_task_has_a_name() -> None:
    assert not [where for where, task in all_tasks() if not task.get("name") and "ansible.builtin.import_role" not in task]


def test_product_code_does_not_know_the_lab() -> None:
    paths = [*ROOT.glob("roles/**/*.yml"), *ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("plugins/**/*.py")]
    told = re.compile(r"\b(is_lab|in_lab|lab_mode|bedplate_lab|bedplate_depot)\b")
    assert not [str(path.relative_to(ROOT)) for path in paths if told.search(path.read_text(encoding="utf-8"))]


def test_files_fit_in_a_head() -> None:
    patterns = ("plugins/**/*.py", "lab/**/*.py", "scripts/lib/**/*.py", "tests/**/*.py", "roles/**/*.yml", "playbooks/**/*.yml")
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for pattern in patterns
        for path in ROOT.glob(pattern)
        if "__pycache__" not in path.parts
    }
    assert not {path: length for path, length in lengths.items() if length > 300}


def test_default_images_are_those_of_versions_yml() -> None:
    versions = load_versions()
    images = [versions.image(name, i) for name, row in versions.components.items() for i in range(len(row.get("images", [])))]
    wanted = {image.rpartition(":")[0]: image for image in images}
    found = {
        name: value
        for role in ROLES
        for name, value in (load(role / "defaults" / "main.yml") or {}).items()
        if isinstance(value, str) and value.rpartition(":")[0] in wanted
    }
    assert {"cni_flannel_image", "gate_image"} <= set(found)
    assert not {name: image for name, image in found.items() if image != wanted[image.rpartition(":")[0]]}
