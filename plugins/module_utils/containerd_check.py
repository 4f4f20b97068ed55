# SPDX-License-Identifier: Apache-2.0
"""What a containerd on a host says of its own configuration and plugins, and whether that is what was asked for."""

from __future__ import annotations

from collections.abc import Iterable

from . import toml_text
from .containerd_config import MAIN, Setting, config_version
from .host import Host, Result

CTR = ("ctr", "plugins", "ls", "id==cri")
CRI_OK = "ok"


def check_configuration(host: Host, settings: Iterable[Setting]) -> list[str]:
    """Let containerd parse its files (it does not start for that); return what is wrong, nothing when all is well."""
    result = host.run(["containerd", "--config", MAIN, "config", "dump"])
    return dump_complaints(result, settings)


def dump_complaints(result: Result, settings: Iterable[Setting]) -> list[str]:
    """Compare ``containerd config dump`` (all files merged and migrated) with the settings that must be in effect."""
    if not result.ok:
        return [_last_line(result.err or result.out)]
    version = config_version(result.out)
    effective = {e.path: toml_text.decode(result.out[slice(*e.value)]) for e in toml_text.scan(result.out) if e.key}
    complaints = []
    for setting in settings:
        path = setting.at(version)
        found = effective.get(path)
        if path not in effective and setting.value not in (False, 0, "", []):  # empty values may be left out of the dump
            complaints.append(f"{toml_text.key(path)}: this containerd does not know this setting")
        elif found is not None and found != setting.value and found != [setting.value]:  # bin_dir becomes bin_dirs
            shown = toml_text.encode(found)
            wanted = toml_text.encode(setting.value)
            complaints.append(f"{toml_text.key(path)}: found {shown} in effect (from another file); wanted {wanted}")
    return complaints


def cri_status(host: Host) -> str:
    """Return the status of the CRI plugin in the running containerd: ``ok``, ``error``, ``disabled``, or ``no answer``."""
    return parse_plugins(host.run(CTR, timeout_seconds=10))


def parse_plugins(result: Result) -> str:
    """Read ``ctr plugins ls``: lines of TYPE ID PLATFORMS STATUS."""
    if not result.ok:
        return "no answer"
    for line in result.out.splitlines():
        words = line.split()
        if len(words) >= 3 and words[0] == "io.containerd.grpc.v1" and words[1] == "cri":
            return words[-1]
    return "disabled"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "containerd did not say why"
