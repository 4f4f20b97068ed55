# SPDX-License-Identifier: Apache-2.0
"""The modules of host components document the options they take, with the same types and defaults."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.bedplate.metal.plugins.doc_fragments.component import ModuleDocFragment
from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import COMMON_OPTIONS

COLLECTION = "ansible_collections.bedplate.metal.plugins"
MODULES = {
    path.stem: importlib.import_module(f"{COLLECTION}.modules.{path.stem}")
    for path in sorted((Path(__file__).resolve().parents[2] / "plugins" / "modules").glob("*.py"))
    if "run_component(" in path.read_text(encoding="utf-8")
}
"""Imported before a test makes Ansible's own loader responsible for collections."""


def documented(documentation: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for name in documentation["extends_documentation_fragment"]:
        part = name.removeprefix("bedplate.metal.component").lstrip(".").upper() or "DOCUMENTATION"
        options.update(yaml.safe_load(getattr(ModuleDocFragment, part))["options"])
    return {**options, **documentation["options"]}


def taken(specification: Mapping[str, Any], inner: str) -> dict[str, Any]:
    """Options as name to type, elements, default, choices, required and suboptions; raw ones are refused by the module itself."""
    keys = ("type", "elements", "default", "choices", "required")
    return {
        name: {key: option[key] for key in keys if option.get(key) is not None} | {"in": taken(option.get(inner) or {}, inner)}
        for name, option in specification.items()
        if option["type"] != "raw"
    }


@pytest.mark.parametrize("name", MODULES)
def test_documented_options_are_those_the_module_takes(name: str) -> None:
    module = MODULES[name]
    options = documented(yaml.safe_load(module.DOCUMENTATION))
    assert taken(options, "suboptions") == taken({**module.ARGUMENT_SPEC, **COMMON_OPTIONS}, "options")


def test_every_component_module_is_looked_at() -> None:
    assert {"container_runtime", "control_plane", "kernel", "kubelet", "preflight", "repositories", "worker"} <= set(MODULES)


def test_no_module_imports_another() -> None:
    """Ansible sends plugins/module_utils along with a module, and nothing of plugins/modules."""
    modules = Path(__file__).resolve().parents[2] / "plugins" / "modules"
    assert not [p.name for p in modules.glob("*.py") if f"{COLLECTION}.modules" in p.read_text(encoding="utf-8")]
