# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's programs in the depot: images as its manifests expect them, the toolkit's package, charts for the controller."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from bedplate_lab import bases, charts, components, debs, images, oci, paths
from bedplate_lab.components import BY_COMPONENT
from bedplate_lab.images import ImageRecipe
from bedplate_lab.report import silent


@pytest.fixture
def empty_base(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Base layers without a mirror of Debian."""
    layer = tmp_path / "base.tar"
    with oci.Layer(layer) as writer:
        writer.directory("tmp")
    monkeypatch.setattr(bases, "build", lambda *_: layer)


def recipe(repository: str) -> ImageRecipe:
    return next(one for one in images.RECIPES if one.repository.endswith(repository))


def programs(component: str) -> Path:
    """Stand-ins for what a build makes."""
    directory = paths.cache("build", component, "stand-in", "bin")
    directory.mkdir(parents=True)
    for name in BY_COMPONENT[component].programs:
        (directory / name).write_text(f"#!/bin/sh\necho {name}\n")
    return directory


def entries(layout: Path) -> dict[str, int]:
    """Paths in the image's own layer to their modes."""
    manifest = json.loads(oci.blob_path(layout, oci.manifest_of(layout)["digest"]).read_text())
    with tarfile.open(oci.blob_path(layout, manifest["layers"][-1]["digest"])) as tar:
        return {member.name: member.mode for member in tar if member.isreg()}


def settings(layout: Path) -> dict[str, list[str]]:
    """What a container of the image runs by default."""
    manifest = json.loads(oci.blob_path(layout, oci.manifest_of(layout)["digest"]).read_text())
    found: dict[str, list[str]] = json.loads(oci.blob_path(layout, manifest["config"]["digest"]).read_text())["config"]
    return found


def test_the_operator_finds_its_assets(empty_base: None) -> None:
    layout = images.build(recipe("nvidia/gpu-operator"), programs("gpu-operator"), silent)
    found = entries(layout)
    assert found["usr/bin/gpu-operator"] == 0o755
    assert found["opt/gpu-operator/state-device-plugin/0500_daemonset.yaml"] == 0o644
    assert any(path.startswith("opt/gpu-operator/manifests/state-driver/") for path in found)
    assert "NVIDIA_VISIBLE_DEVICES=void" in settings(layout)["Env"]


def test_the_validator_has_its_workload(empty_base: None) -> None:
    layout = images.build(recipe("gpu-operator-validator"), programs("gpu-operator"), silent)
    found = entries(layout)
    assert {path: found[path] for path in ("usr/bin/nvidia-validator", "usr/bin/vectorAdd")} == {
        "usr/bin/nvidia-validator": 0o755,
        "usr/bin/vectorAdd": 0o755,
    }
    assert "var/nvidia/manifests/plugin-workload-validation.yaml" in found


def test_a_changed_file_of_its_own_is_another_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "OWN", tmp_path)
    script = tmp_path / "gpu-operator-validator" / "root" / "vectorAdd"
    script.parent.mkdir(parents=True)
    keys = set()
    for text in ("one", "two"):
        script.write_text(text)
        keys.add(images.key(recipe("gpu-operator-validator"), tmp_path / "build" / "bin"))
    assert len(keys) == 2


def test_programs_that_load_nvml_leave_its_symbols_open() -> None:
    for name in components.ALWAYS_BUILT:
        environment = components._environment(BY_COMPONENT[name])
        assert environment["CGO_ENABLED"] == "1"
        assert "ignore-in-object-files" in environment["CGO_LDFLAGS"]
        assert "-static" not in " ".join(components._flags(BY_COMPONENT[name]))


def test_a_changed_source_of_our_own_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "COMPONENTS", tmp_path)
    own = tmp_path / "dcgm-exporter"
    own.mkdir()
    for name in ("go.mod", "go.sum", "main.go"):
        (own / name).write_text(name)
    before = components.key(BY_COMPONENT["dcgm-exporter"])
    (own / "main.go").write_text("changed")
    assert components.key(BY_COMPONENT["dcgm-exporter"]) != before


def test_the_toolkit_carries_its_own_units(tmp_path: Path) -> None:
    package = debs.packages()["nvidia-container-toolkit-base"]
    deb = debs.pack(package, programs("nvidia-container-toolkit"), silent)
    subprocess.run(["dpkg-deb", "-x", str(deb), str(tmp_path / "files")], check=True)
    subprocess.run(["dpkg-deb", "-e", str(deb), str(tmp_path / "control")], check=True)
    unit = tmp_path / "files/usr/lib/systemd/system/nvidia-cdi-refresh.service"
    assert "nvidia-ctk cdi generate" in unit.read_text()
    assert (tmp_path / "control/conffiles").read_text() == "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env\n"
    assert "nvidia-ctk --quiet config" in (tmp_path / "control/postinst").read_text()


def test_charts_come_out_of_their_modules() -> None:
    said: list[str] = []
    made = charts.build_all(said.append)
    assert set(made) == set(charts.CHARTS)
    assert len(said) == len(made)
    for name, directory in made.items():
        assert yaml.safe_load((directory / "Chart.yaml").read_text())["name"] == name
        assert directory == charts.path(name)
    charts.build_all(said.append)
    assert len(said) == len(made), "what is there is kept"
