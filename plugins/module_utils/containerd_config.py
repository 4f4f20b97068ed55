# SPDX-License-Identifier: Apache-2.0
"""containerd's configuration as texts: what its files should say, given what they say. Pure.

Our settings live in a drop-in, written in the configuration version of the main file, so the main file keeps its version,
comments and order. The main file itself is edited only where it must be: it imports the drop-in directory, does not
disable CRI, and has a version (a file without one counts as version 1, which names plugins differently and is migrated to 2).
containerd 2 migrates each imported file on its own and merges them key by key; with containerd 1 a drop-in would replace whole
plugin sections, and Kubernetes 1.36 needs 2 anyway, so 1 is refused.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from . import toml_text
from .containerd_values import CRI_NAMES as CRI_NAMES
from .containerd_values import MAIN as MAIN
from .containerd_values import RUNC_TYPE, cni_directories, cri_values, runc_runtimes, runtime_types
from .core import Problem

DROPIN = "/etc/containerd/conf.d/50-bedplate.toml"
IMPORTS = "/etc/containerd/conf.d/*.toml"
REGISTRY_DIRECTORY = "/etc/containerd/certs.d"
CNI_BIN_DIR = "/opt/cni/bin"
"""Where the kubernetes-cni package and every CNI daemon put their plugins."""

NEW_MAIN = f"""# Settings are in conf.d; those of bedplate.metal.container_runtime in 50-bedplate.toml.
version = 3
imports = ["{IMPORTS}"]
"""
NEWEST_VERSION = 4
"""containerd 2.4 knows versions up to 4, which names the CRI plugins as 3 does."""

REMOVED_TYPES = ("io.containerd.runtime.v1.linux", "io.containerd.runc.v1")
"""Runtime types containerd 2.0 removed (its release notes)."""

VERSION_1_PLUGINS = {
    "cri": "io.containerd.grpc.v1.cri",
    "cgroups": "io.containerd.monitor.v1.cgroups",
    "linux": "io.containerd.runtime.v1.linux",
    "scheduler": "io.containerd.gc.v1.scheduler",
    "bolt": "io.containerd.metadata.v1.bolt",
    "task": "io.containerd.runtime.v2.task",
    "opt": "io.containerd.internal.v1.opt",
    "restart": "io.containerd.internal.v1.restart",
    "tracing": "io.containerd.internal.v1.tracing",
    "otlp": "io.containerd.tracing.processor.v1.otlp",
    **{name: f"io.containerd.snapshotter.v1.{name}" for name in ("aufs", "btrfs", "devmapper", "native", "overlayfs", "zfs")},
}
"""Short plugin names of configuration version 1 (containerd's own migration, cmd/containerd/server/config)."""

OWNED = ("version", "imports", "disabled_plugins")


@dataclass(frozen=True)
class Settings:
    """What the site wants of containerd.

    sandbox_image: the pause image, None for containerd's own. registries: whether hosts.toml files are used. handlers: further
    runtime handlers by name, each with the program that wraps runc. cdi: device specifications (CDI) must not be off. extra:
    settings by dotted key; ``runtime.`` and ``images.`` stand for the CRI plugins whatever their names in the file's version are.
    """

    sandbox_image: Optional[str] = None
    restrict_oom_score_adj: bool = False
    registries: bool = False
    handlers: Mapping[str, str] = field(default_factory=dict)
    cdi: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """One value: of the CRI plugin part ``runtime`` or ``images`` (or of the whole file, part None) at a path in it.

    old: the path in version 2, where it differs.
    """

    part: Optional[str]
    path: tuple[str, ...]
    value: Any
    old: tuple[str, ...] = ()

    def at(self, version: int) -> tuple[str, ...]:
        """Return the full path in a file of that version."""
        if self.part is None:
            return self.path
        if version == 2:
            return ("plugins", "io.containerd.grpc.v1.cri", *(self.old or self.path))
        return ("plugins", f"io.containerd.cri.v1.{self.part}", *self.path)


@dataclass(frozen=True)
class Wanted:
    """The files as they should be (only those that matter to us), the settings in our drop-in, and what prevents it."""

    files: Mapping[str, str]
    settings: tuple[Setting, ...]
    problems: tuple[Problem, ...] = ()


def wanted_files(files: Mapping[str, str], settings: Settings) -> Wanted:
    """Return what the files should be. files: path to text of the main file (if any) and of every file it may import."""
    try:
        main = migrate(files.get(MAIN, NEW_MAIN))
        version = config_version(main)
        if version > NEWEST_VERSION:
            wanted = f"a version up to {NEWEST_VERSION}"
            return _refused(MAIN, f"configuration version {version}", wanted, "use the Bedplate release that knows it")
        others = {path: text for path, text in files.items() if path != DROPIN}
        problems = _conflicts({**others, MAIN: main}, settings)
        result = {path: enable_cri(text) for path, text in others.items() if path != MAIN and enable_cri(text) != text}
        result[MAIN] = import_dropins(enable_cri(main))
        ours = plan_settings({**others, MAIN: main}, version, settings)
    except toml_text.TomlError as error:
        return _refused(_broken(files), str(error), "TOML", "correct the file on the host, or move it away")
    header = "# Written by bedplate.metal.container_runtime; changes here are overwritten.\n"
    result[DROPIN] = f"{header}version = {version}\n\n" + toml_text.render({s.at(version): s.value for s in ours})
    return Wanted(result, tuple(ours), tuple(problems))


def plan_settings(files: Mapping[str, str], version: int, settings: Settings) -> list[Setting]:
    """Return the settings of our drop-in, given the other files."""
    systemd = ("options", "SystemdCgroup")
    names = sorted({*runc_runtimes(files), *settings.handlers})
    ours = [Setting("runtime", ("containerd", "runtimes", name, *systemd), True) for name in names]
    for name, program in sorted(settings.handlers.items()):
        ours.append(Setting("runtime", ("containerd", "runtimes", name, "runtime_type"), RUNC_TYPE))
        ours.append(Setting("runtime", ("containerd", "runtimes", name, "options", "BinaryName"), program))
    if settings.cdi and cri_values(files, ("enable_cdi",)):  # on by default since containerd 2.0; later ones lost the switch
        ours.append(Setting("runtime", ("enable_cdi",), True))
    if settings.sandbox_image:
        ours.append(Setting("images", ("pinned_images", "sandbox"), settings.sandbox_image, ("sandbox_image",)))
    if settings.registries:
        ours.append(Setting("images", ("registry", "config_path"), REGISTRY_DIRECTORY))
    if settings.restrict_oom_score_adj:
        ours.append(Setting("runtime", ("restrict_oom_score_adj",), True))
    directories = cni_directories(files)
    if directories and CNI_BIN_DIR not in directories:  # a packaged main file may point at the distribution's own plugins
        value: Any = CNI_BIN_DIR if version == 2 else [*directories, CNI_BIN_DIR]
        ours.append(Setting("runtime", ("cni", "bin_dirs"), value, ("cni", "bin_dir")))
    ours.extend(extra_settings(settings.extra))
    return ours


def extra_settings(extra: Mapping[str, Any]) -> list[Setting]:
    """Turn the site's extra settings into ours. Raises ValueError, naming the key, for what it may not set."""
    result = []
    for name, value in extra.items():
        path = toml_text.dotted(name)
        if path[0] in OWNED or path[-1] == "SystemdCgroup" or path[-1] in ("sandbox_image", "sandbox", "config_path"):
            raise ValueError(
                f"extra_config {name}: this role sets it itself (sandbox_image and registries are options of their own; "
                "cgroups are systemd's, because kubelet's are)"
            )
        toml_text.encode(value)
        part = path[0] if path[0] in ("runtime", "images") else None
        result.append(Setting(part, path[1:] if part else path, value))
    return result


def config_version(text: str) -> int:
    """Return a file's configuration version; 1 when it states none."""
    entry = toml_text.find(text, ("version",))
    version = toml_text.decode(text[slice(*entry.value)]) if entry else 1
    return version if isinstance(version, int) else 0


def migrate(text: str) -> str:
    """Turn a file of version 1 or without version into version 2, keeping its text otherwise; others stay as they are."""
    if config_version(text) > 1:
        return text
    edits: list[tuple[int, int, str]] = []
    for entry in toml_text.scan(text):
        path = entry.path
        if path == ("version",):
            edits.append((*entry.value, "2"))
        elif path[:1] == ("plugins",) and len(path) > 1 and "." not in path[1]:
            if not entry.key:
                brackets = 2 if text.startswith("[[", entry.start) else 1
                renamed = toml_text.key(("plugins", _version_2_name(path[1]), *path[2:]))
                edits.append((entry.start, entry.key_end, "[" * brackets + renamed + "]" * brackets))
            elif len(entry.table) < 2:
                full = ("plugins", _version_2_name(path[1]), *path[2:])
                edits.append((entry.start, entry.key_end, toml_text.key(full[len(entry.table) :])))
    text = _edit(text, edits)
    return text if toml_text.find(text, ("version",)) else _insert(text, "version = 2\n")


def import_dropins(text: str) -> str:
    """Make a main file import the drop-in directory, in addition to what it imports already."""
    entry = toml_text.find(text, ("imports",))
    if entry is None:
        return _insert(text, f'imports = ["{IMPORTS}"]\n')
    found = toml_text.decode(text[slice(*entry.value)]) or []
    if any(fnmatch.fnmatch(DROPIN, posixpath.join(posixpath.dirname(MAIN), pattern)) for pattern in found):
        return text
    return _edit(text, [(*entry.value, toml_text.encode([*found, IMPORTS]))])


def enable_cri(text: str) -> str:
    """Take CRI out of a file's ``disabled_plugins``: lists of imported files are joined, so a drop-in could not."""
    entry = toml_text.find(text, ("disabled_plugins",))
    found = toml_text.decode(text[slice(*entry.value)]) if entry else None
    if entry is None or not isinstance(found, list) or not set(found) & set(CRI_NAMES):
        return text
    return _edit(text, [(*entry.value, toml_text.encode([name for name in found if name not in CRI_NAMES]))])


def import_patterns(text: Optional[str]) -> list[str]:
    """Return the absolute patterns a main file imports (the drop-in directory always among them)."""
    entry = toml_text.find(text or "", ("imports",))
    found = toml_text.decode((text or "")[slice(*entry.value)]) if entry else None
    patterns = [posixpath.join(posixpath.dirname(MAIN), pattern) for pattern in (found or [])]
    return list(dict.fromkeys([*patterns, IMPORTS]))


def _conflicts(files: Mapping[str, str], settings: Settings) -> list[Problem]:
    problems = []
    tables = {path[3] for path, _value in cri_values(files, ("registry",)) if path[3:4] and len(path) > 4}
    if settings.registries and tables & {"mirrors", "configs"}:
        problems.append(
            Problem(
                f"registries of containerd in {MAIN} or the files it imports",
                "older tables " + ", ".join(f"registry.{t}" for t in sorted(tables & {"mirrors", "configs"})),
                "hosts.toml files only (containerd loads no CRI with both)",
                "take these tables out and declare the mirrors in the site data (registries)",
            )
        )
    for path, _value in cri_values(files, ("containerd", "runtimes")):
        if path[4] in settings.handlers and path[5:] == ("options", "BinaryName"):
            problems.append(_second_owner(path[4], files))
    for name, kind in sorted(runtime_types(files).items()):
        if kind in REMOVED_TYPES:
            found = f"runtime_type {kind}, which containerd 2 removed"
            problems.append(
                Problem(f"runtime {name} of containerd", found, RUNC_TYPE, f"correct it in {MAIN} or the file it imports")
            )
    return problems


def _second_owner(name: str, files: Mapping[str, str]) -> Problem:
    where = next((path for path in files if re.search(rf"runtimes\.[\"']?{re.escape(name)}\b", files[path])), "another file")
    step = (
        f"take it out of {where}: the GPU operator's toolkit writes there unless its chart has toolkit.enabled=false; or take "
        "the handler out of the site data"
    )
    return Problem(
        f"runtime handler {name} of containerd", f"it defined in {where} too", "one owner of containerd's settings", step
    )


def _refused(path: str, found: str, wanted: str, next_step: str) -> Wanted:
    return Wanted({}, (), (Problem(f"file {path}", found, wanted, next_step),))


def _broken(files: Mapping[str, str]) -> str:
    for path, text in files.items():
        try:
            toml_text.scan(text)
        except toml_text.TomlError:
            return path
    return MAIN


def _version_2_name(name: str) -> str:
    if name.endswith("-service"):
        return f"io.containerd.service.v1.{name}"
    return VERSION_1_PLUGINS.get(name, f"io.containerd.grpc.v1.{name}")


def _insert(text: str, line: str) -> str:
    """Insert a top-level line behind the top-level ``version``, or before the first entry (behind leading comments)."""
    entries = toml_text.scan(text)
    version = toml_text.find(text, ("version",))
    if version is not None:
        at = text.find("\n", version.end)
        return f"{text}\n{line}" if at < 0 else text[: at + 1] + line + text[at + 1 :]
    at = entries[0].start if entries else len(text)
    gap = "\n" if at and not text[:at].endswith("\n") and not re.search(r"\n[ \t]*$", text[:at]) else ""
    return text[:at] + gap + line + text[at:]


def _edit(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
