# SPDX-License-Identifier: Apache-2.0
"""What containerd's files say of its CRI plugins, whichever configuration version they are written in. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import toml_text

MAIN = "/etc/containerd/config.toml"
CRI_NAMES = ("cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime")
RUNC_TYPE = "io.containerd.runc.v2"


def runc_runtimes(files: Mapping[str, str]) -> list[str]:
    """Return the names of runtimes that are runc or wrap it (nvidia's does), which all need systemd cgroups."""
    types = {"runc": RUNC_TYPE, **runtime_types(files)}
    return sorted(name for name, kind in types.items() if kind == RUNC_TYPE)


def runtime_types(files: Mapping[str, str]) -> dict[str, str]:
    """Return runtime handlers and their types."""
    return {path[4]: value for path, value in cri_values(files, ("containerd", "runtimes")) if path[5:] == ("runtime_type",)}


def cni_directories(files: Mapping[str, str]) -> list[str]:
    """Return where the files have CRI look for CNI plugins; empty for containerd's own default."""
    found: list[str] = []
    for path, value in cri_values(files, ("cni",)):
        if path[3:] in (("bin_dir",), ("bin_dirs",)):
            found = [value] if isinstance(value, str) else list(value or ())
    return found


def cri_values(files: Mapping[str, str], under: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    """Return path and value of the CRI plugins' settings under a path, in the order containerd merges the files."""
    values = []
    for name in sorted(files, key=lambda path: (path != MAIN, path)):
        text = files[name]
        for entry in toml_text.scan(text):
            path = entry.path
            ours = entry.key and len(path) > 2 and path[0] == "plugins" and path[1] in CRI_NAMES
            if ours and path[2 : 2 + len(under)] == under:
                values.append((path, toml_text.decode(text[slice(*entry.value)])))
    return values
