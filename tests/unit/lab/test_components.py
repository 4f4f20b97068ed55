# SPDX-License-Identifier: Apache-2.0
"""versions.yml, the modules' go.mod files, the recipes, the packages and the images say the same."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from bedplate_lab import components, debs, gpudebs, gpusim, images, versions
from bedplate_lab.components import RECIPES, Recipe
from bedplate_lab.errors import LabError
from bedplate_lab.paths import COMPONENTS

STAGING = re.compile(r"^\s*(?:replace )?(k8s\.io/[\w.-]+) => (\S+) (v0\.\S+)$", re.MULTILINE)


@cache
def go_mod(directory: Path) -> str:
    return (directory / "go.mod").read_text()


def tools(directory: Path) -> set[str]:
    text = go_mod(directory)
    block = re.search(r"^tool \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    lines = block.group(1).split() if block else []
    return {*lines, *re.findall(r"^tool ([^(\s]\S*)$", text, re.MULTILINE)}


def required(directory: Path, module: str) -> str | None:
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", go_mod(directory), re.MULTILINE)
    return found.group(1) if found else None


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.component)
def test_go_mod_pins_the_version_of_versions_yml(recipe: Recipe) -> None:
    pinned_by = versions.load()[recipe.pinned_by or recipe.component]
    assert required(recipe.path, recipe.module) == f"v{pinned_by.version}"


def test_other_modules_of_a_component_are_of_the_same_version() -> None:
    etcd = components.BY_COMPONENT["etcd"]
    for module in ("server", "etcdctl", "etcdutl"):
        assert required(etcd.path, f"go.etcd.io/etcd/{module}/v3") == f"v{etcd.version}"


def test_kubernetes_staging_modules_are_of_its_release() -> None:
    recipe = components.BY_COMPONENT["kubernetes"]
    replaced = STAGING.findall(go_mod(recipe.path))
    assert len(replaced) > 30
    wanted = "v0." + recipe.version.partition(".")[2]
    assert {(module, target, version) for module, target, version in replaced if (target, version) != (module, wanted)} == set()


@pytest.mark.parametrize("directory", sorted(COMPONENTS.iterdir()), ids=lambda directory: directory.name)
def test_tools_of_go_mod_are_what_the_recipes_build(directory: Path) -> None:
    built = {package for recipe in RECIPES if recipe.path == directory for package in recipe.programs.values()}
    assert tools(directory) == built
    assert (directory / "go.sum").stat().st_size > 0


def test_every_row_is_built() -> None:
    """pause and what stands in for NVIDIA's driver are compiled from C; of Cilium the chart is used, of go-nvml a header."""
    assert set(versions.load()) == {*components.BY_COMPONENT, "pause", *gpusim.DRIVERS, "cilium", "go-nvml"}


def test_every_package_of_versions_yml_is_packed_from_its_component() -> None:
    named = {package: row.name for row in versions.load().values() for package in row.packages}
    driver = gpudebs.packages(versions.load()["nvidia-driver"].version)
    assert named == {package.name: package.component for package in [*debs.packages().values(), *driver.values()]}


def test_every_program_of_a_package_is_built() -> None:
    for package in debs.packages().values():
        built = components.BY_COMPONENT[package.component].programs
        assert {name for _, name in package.programs} <= set(built), package.name


def test_every_image_of_versions_yml_is_made() -> None:
    named = {image for row in versions.load().values() for image in row.images}
    assert named == {recipe.reference for recipe in images.RECIPES}


def test_agnhost_is_the_version_of_its_sources() -> None:
    recipe = components.BY_COMPONENT["agnhost"]
    sources = components.module_directory(recipe) / "test" / "images" / "agnhost" / "VERSION"
    assert sources.read_text().strip() == recipe.version


def test_pause_is_the_version_kubeadm_asks_for() -> None:
    module = components.module_directory(components.BY_COMPONENT["kubernetes"])
    found = re.search(r'PauseVersion = "([^"]+)"', (module / "cmd/kubeadm/app/constants/constants.go").read_text())
    assert found and found.group(1) == versions.load()["pause"].version


def test_rows_are_sorted() -> None:
    names = list(yaml.safe_load(versions.FILE.read_text())["components"])
    assert names == sorted(names)


def test_a_changed_recipe_has_another_key() -> None:
    recipe = components.BY_COMPONENT["etcd"]
    changed = Recipe(recipe.component, recipe.module, recipe.programs, symbols={"a.b": "{v}"})
    assert components.key(recipe) == components.key(components.BY_COMPONENT["etcd"])
    assert components.key(changed) != components.key(recipe)
    assert components.key(changed).startswith(f"{recipe.version}-")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"version": 1.1, "source": "x"}, "demo.version is 1.1, a quoted string is wanted"),
        ({"version": "1.1"}, "demo.source is None"),
        ({"version": "1.1", "source": "x", "image": []}, "demo has the unknown key image"),
        (None, "demo is not a mapping"),
    ],
)
def test_a_bad_row_is_named(row: object, message: str) -> None:
    with pytest.raises(LabError, match=re.escape(message)):
        versions.parse({"format": 1, "components": {"demo": row}})


def test_another_format_is_refused() -> None:
    with pytest.raises(LabError, match="format is 2, this lab reads format 1"):
        versions.parse({"format": 2, "components": {}})


def test_the_pinned_cilium_module_is_the_chart_the_role_installs() -> None:
    wanted = versions.load()["cilium"].version
    assert required(COMPONENTS / "cilium", "github.com/cilium/cilium") == f"v{wanted}"
    defaults = yaml.safe_load((COMPONENTS.parents[1] / "roles" / "cni" / "defaults" / "main.yml").read_text())
    assert defaults["cni_cilium_version"] == wanted


def test_the_header_of_nvml_is_of_the_pinned_module() -> None:
    assert required(gpusim.NVML.path, gpusim.NVML.module) == f"v{gpusim.NVML.version}"
    assert (gpusim.header_directory() / "nvml.h").is_file()
