# SPDX-License-Identifier: Apache-2.0
"""Pruning keeps what the checkout names and drops the rest; an interrupted write leaves nothing that counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bedplate_lab import bases, components, debs, depot, hostimage, images, paths
from bedplate_lab.prune import prune
from bedplate_lab.report import silent


def put(path: Path) -> Path:
    """Something in the cache: a file, or a directory with a program in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".deb", ".tar"):
        path.write_text("content")
    else:
        (path / "bin").mkdir(parents=True)
        (path / "bin" / "program").write_text("content")
    return path


def test_only_what_the_checkout_names_is_kept() -> None:
    etcd = components.BY_COMPONENT["etcd"]
    built, upstream = components.directory(etcd), paths.cache("build", "etcd", f"{etcd.version}-upstream-0123456789ab")
    recipe = next(recipe for recipe in images.RECIPES if recipe.component == "etcd")
    kubectl = debs.packages()["kubectl"]
    kubernetes = components.directory(components.BY_COMPONENT["kubernetes"])
    kept = [
        *(built, upstream, kubernetes, hostimage.path(), bases.path("iptables")),
        debs.path(kubectl, kubernetes / "bin"),
        images.layout(recipe, built / "bin"),
        paths.cache("images", f"{images.file_name(recipe.reference)}-upstream-0123456789ab"),
    ]
    dropped = [
        paths.cache("build", "etcd", "3.0.0-0123456789ab"),
        paths.cache("build", "etcd", f"{etcd.version}-0123456789ab"),
        paths.cache("build", "etcd", f".{built.name}.killed"),
        paths.cache("build", "given-up", "1.0-0123456789ab"),
        paths.cache("debs", f"kubectl_{kubectl.version}_amd64_0123456789ab.deb"),
        paths.cache("debs", "debian-0123456789ab"),
        paths.cache("images", "registry.k8s.io_etcd_3.0.0-0-0123456789ab"),
        paths.cache("images", ".base-iptables.killed.tar"),
        paths.cache("host", "buster-0123456789ab.tar"),
        paths.cache("depot", ".apt.killed"),
    ]
    for path in (*kept, *dropped):
        put(path)
    said: list[str] = []
    pruned = prune(said.append)
    assert set(pruned.paths) == set(dropped)
    assert [path for path in kept if not path.exists()] == []
    assert [path for path in dropped if path.exists()] == []
    assert pruned.size_bytes > 0
    assert len(said) == len(dropped)
    assert prune(silent).paths == ()


def test_images_that_are_no_longer_named_leave_the_registry() -> None:
    repositories = depot.content() / "registry" / "docker" / "registry" / "v2" / "repositories"
    tags = {
        reference: repositories / reference.rpartition(":")[0] / "_manifests" / "tags" / reference.rpartition(":")[2]
        for reference in ("registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.10", "ghcr.io/gone/gone:v1")
    }
    for tag in tags.values():
        tag.mkdir(parents=True)
    (depot.content() / "registry" / "images.json").write_text(json.dumps({"registry.k8s.io/pause:3.10": "sha256:0"}))
    program = depot.content() / "program"
    program.write_text(f'#!/bin/sh\nprintf "%s " "$@" >{depot.content()}/called\n')
    program.chmod(0o755)
    depot.collect_garbage(silent)
    assert [reference for reference, tag in tags.items() if tag.exists()] == ["registry.k8s.io/pause:3.10"]
    assert (depot.content() / "called").read_text().startswith("garbage-collect --delete-untagged ")
    (depot.content() / "called").unlink()
    depot.collect_garbage(silent)
    assert not (depot.content() / "called").exists(), "nothing stale, nothing collected"


def test_an_interrupted_write_leaves_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "entry"
    with paths.new_dir(target) as temporary:
        (temporary / "file").write_text("old")
    with pytest.raises(KeyboardInterrupt), paths.new_dir(target) as temporary:
        (temporary / "file").write_text("half")
        raise KeyboardInterrupt
    assert (target / "file").read_text() == "old"
    with paths.new_dir(target) as temporary:
        (temporary / "file").write_text("new")
    assert (target / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
