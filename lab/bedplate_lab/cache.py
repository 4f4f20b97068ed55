# SPDX-License-Identifier: Apache-2.0
"""`scripts/lab cache prune` and `down --cache`: the cache on disk and the images podman holds of it."""

from __future__ import annotations

import shutil
from collections.abc import Collection

from bedplate_lab import hostimage, paths, prune, serve
from bedplate_lab.podman import Podman
from bedplate_lab.steps import Steps


def drop_outdated(steps: Steps, podman: Podman | None = None) -> None:
    """Drop what versions.yml and the recipes no longer name. Raises LabError."""
    with paths.lock("lab"), steps.shown(), steps.step("drop outdated entries of the cache") as report:
        pruned = prune.prune(report)
        if shutil.which("podman") is not None:
            remove_images(podman or Podman(), keep={hostimage.reference()})
        report(f"{len(pruned.paths)} entries, {pruned.size_bytes / 1e6:.0f} MB")


def remove_images(podman: Podman, keep: Collection[str] = ()) -> None:
    """Remove the lab's images from podman but those in `keep` (full names) and those in use."""
    for repository in (hostimage.NAME, serve.IMAGE):
        listed = podman("images", "--format", "{{.Repository}}:{{.Tag}}", "--filter", f"reference={repository}").stdout.split()
        for name in listed:
            if name not in keep and name.startswith(f"{repository}:"):
                podman("rmi", name, check=False)


def remove() -> None:
    """Remove the whole cache, but for the locks: the command that asks for it holds one."""
    if not paths.cache().is_dir():
        return
    for entry in paths.cache().iterdir():
        if entry.name == "locks":
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
