# SPDX-License-Identifier: Apache-2.0
"""The inventories of this repository, the mapping of role variables, the schema and the reference."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.bedplate.metal.plugins.plugin_utils.site import command, model_pool, schema
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.model import NOT_USED_YET, SECTIONS
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.validate import Validation, validate

WRITTEN_BY_THE_LAB = ("hosts.yml", "group_vars/all/generated.yml")


@pytest.fixture(scope="module")
def lab(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab's committed site data, with what `scripts/lab up` writes beside it."""
    directory = tmp_path_factory.mktemp("lab")
    shutil.copytree(root / "inventories/lab", directory, dirs_exist_ok=True)
    for name in WRITTEN_BY_THE_LAB:
        (directory / name).unlink(missing_ok=True)
    shutil.copytree(root / "tests/fixtures/lab", directory, dirs_exist_ok=True)
    return directory


def validated(directory: Path) -> Validation:
    return validate([str(directory)], command.inventory_resolver([str(directory)]))


@pytest.fixture(scope="module")
def bedplates(root: Path, lab: Path) -> dict[str, dict[str, Any]]:
    found = {"lab": validated(lab), "example": validated(root / "inventories/example")}
    for name, validation in found.items():
        assert [str(problem) for problem in validation.errors] == [], name
    assert found["lab"].warnings == []
    return {name: validation.bedplate or {} for name, validation in found.items()}


def test_lab_takes_everything_from_its_depot(bedplates: dict[str, dict[str, Any]]) -> None:
    roles = bedplates["lab"]["hosts"]["w1"]["roles"]
    assert [source["uris"] for source in roles["repositories"]["apt"]] == [["https://depot.lab.bedplate.test/apt"]]
    assert roles["repositories"]["exclusive"] is True
    registries = roles["container_runtime"]["registries"]
    assert {registry["host"]: registry["mirrors"][0]["url"] for registry in registries} == {
        host: f"https://depot.lab.bedplate.test:5000/v2/{host}" for host in ("registry.k8s.io", "ghcr.io", "docker.io", "nvcr.io")
    }
    assert all(registry["mirrors"][0]["override_path"] for registry in registries)
    assert roles["kubelet"]["dropins"]["20-site.conf"]["failCgroupV1"] is False


def test_sections_that_nothing_acts_on_are_named_once_each_and_change_nothing(
    root: Path, tmp_path: Path, bedplates: dict[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["validate", "-i", str(root / "inventories/example")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning:")]
    kinds = [line for line in lines if ".kind = object: is checked and kept" in line]
    assert len(kinds) == 1 and len(lines) == len(NOT_USED_YET) + 1
    for section in NOT_USED_YET:
        assert any(f": {section} = (written): is checked and kept, but nothing acts on it yet" in line for line in lines)
    shutil.copytree(root / "inventories/example", tmp_path, dirs_exist_ok=True)
    for file in (tmp_path / "group_vars/all").glob("*.yml"):
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
        file.write_text(yaml.safe_dump({key: value for key, value in data.items() if key not in NOT_USED_YET}))
    found = validated(tmp_path)
    assert [problem.key for problem in found.problems] == ["storage[4].kind"]
    assert found.bedplate == bedplates["example"], "a section that is used now leaves NOT_USED_YET"


def test_keys_of_a_pool_that_nothing_acts_on_change_no_host(
    root: Path, tmp_path: Path, bedplates: dict[str, dict[str, Any]]
) -> None:
    shutil.copytree(root / "inventories/example", tmp_path, dirs_exist_ok=True)
    for file in (tmp_path / "group_vars/l40s.yml", tmp_path / "group_vars/h100/pool.yml"):
        spec = yaml.safe_load(file.read_text(encoding="utf-8"))["gpu_pool"]
        spec = {key: value for key, value in spec.items() if key not in model_pool.NOT_USED_YET}
        file.write_text(yaml.safe_dump({"gpu_pool": spec}))
    found = validated(tmp_path).bedplate
    assert found is not None and found["hosts"] == bedplates["example"]["hosts"], "a key that is used now leaves NOT_USED_YET"


def test_example_shows_every_section(root: Path) -> None:
    written: set[str] = set()
    for file in (root / "inventories/example/group_vars/all").glob("*.yml"):
        written |= set(yaml.safe_load(file.read_text(encoding="utf-8")))
    assert set(SECTIONS) <= written


def options(bedplates: dict[str, dict[str, Any]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for bedplate in bedplates.values():
        for host in bedplate["hosts"].values():
            for role, values in host["roles"].items():
                found.setdefault(role, set()).update(values)
    return found


def test_role_variables_derived_data_and_argument_specs_agree(root: Path, bedplates: dict[str, dict[str, Any]]) -> None:
    mapping = yaml.safe_load((root / "playbooks/group_vars/all.yml").read_text(encoding="utf-8"))
    derived = options(bedplates)
    pairs = {name: set(re.findall(r"bedplate_roles\.(\w+)(?:\.|\[')(\w+)", str(text))) for name, text in mapping.items()}
    assert set().union(*pairs.values()) == {(role, option) for role, names in derived.items() for option in names}
    for role, names in derived.items():
        specs = yaml.safe_load((root / f"roles/{role}/meta/argument_specs.yml").read_text(encoding="utf-8"))
        public = specs["argument_specs"]["main"]["options"]
        for option in names:
            assert f"{role}_{option}" in public, f"{role} has no variable {role}_{option}"
            assert (role, option) in pairs[f"{role}_{option}"]


def test_required_role_variables_are_derived(root: Path, bedplates: dict[str, dict[str, Any]]) -> None:
    for role, names in options(bedplates).items():
        specs = yaml.safe_load((root / f"roles/{role}/meta/argument_specs.yml").read_text(encoding="utf-8"))
        public = specs["argument_specs"]["main"]["options"]
        required = {name for name, spec in public.items() if spec.get("required")}
        assert required <= {f"{role}_{option}" for option in names}


def test_schema_and_reference_are_as_generated(root: Path) -> None:
    hint = "run scripts/bedplate schema --write"
    assert (root / "docs/site.schema.json").read_text(encoding="utf-8") == schema.schema_text(), hint
    document = (root / "docs/site-data.md").read_text(encoding="utf-8")
    assert document == command.with_reference(document), hint


def test_every_key_is_described() -> None:
    whole = schema.schema()
    for name, definition in whole["$defs"].items():
        for key, part in definition.get("properties", {}).items():
            assert part.get("description") or "$ref" in str(part), f"{name}.{key}"


def variable_files(root: Path, lab: Path) -> Iterator[Path]:
    yield from (root / "inventories/example").rglob("group_vars/**/*.yml")
    yield from lab.rglob("group_vars/**/*.yml")


def test_inventories_pass_the_schema(root: Path, lab: Path) -> None:
    validator = jsonschema.Draft202012Validator(schema.schema())
    files = list(variable_files(root, lab))
    assert len(files) > 8
    for file in files:
        errors = [error.message for error in validator.iter_errors(yaml.safe_load(file.read_text(encoding="utf-8")))]
        assert errors == [], file


@pytest.mark.parametrize(
    "text",
    [
        "cluster: {name: x, kubernetes_version: 1.30, endpoint: {name: a}}",
        "gpu_pool: {accelerator: a, gpus_per_node: 8, topology: t, fabric: infinband, workload: dev}",
        "network: {node_cidrs: [], pod_cidrs: [a], service_cidrs: [b]}",
        "network: {node_cidr: [a], node_cidrs: [a], pod_cidrs: [a], service_cidrs: [b]}",
        "rack: 12",
    ],
)
def test_schema_refuses(text: str) -> None:
    assert not jsonschema.Draft202012Validator(schema.schema()).is_valid(yaml.safe_load(text))


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.schema())
    assert json.loads(schema.schema_text()) == schema.schema()
