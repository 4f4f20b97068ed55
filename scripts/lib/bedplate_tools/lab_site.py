# SPDX-License-Identifier: Apache-2.0
"""Sites beside the lab's own: its site data under another name, with hosts made by `scripts/lab host add`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bedplate_tools import ROOT
from bedplate_tools.lab import LAB

INVENTORY = ROOT / "inventories" / "lab"


def add_hosts(*names: str, gpus: str | None = None) -> dict[str, dict[str, Any]]:
    """Boot bare hosts (those that run are left alone) and return their inventory variables, place included.

    gpus: a profile of ``scripts/lab gpu HOST install``, plugged into each of them.
    """
    answer = subprocess.run(
        [LAB, "host", "add", *names, "--json"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, dict[str, Any]] = json.loads(answer.stdout)
    for name in names if gpus else ():
        subprocess.run([LAB, "gpu", name, "install", str(gpus)], cwd=ROOT, stdin=subprocess.DEVNULL, check=True)
    return {name: {**variables, "rack": "r1", "topology_block": "b1"} for name, variables in found.items()}


def remove_hosts(*names: str) -> None:
    """Remove hosts made by `add_hosts`."""
    subprocess.run([LAB, "host", "rm", *names], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def write_site(
    directory: Path,
    name: str,
    control_plane: Mapping[str, Mapping[str, Any]],
    pools: Mapping[str, Mapping[str, Mapping[str, Any]]],
    **cluster: Any,
) -> Path:
    """Write an inventory directory with the lab's site data and these hosts; ``cluster`` replaces keys of its cluster data.

    The API's address is that of the first control-plane host. Files of pools without hosts are left out.
    """
    variables = directory / "group_vars" / "all"
    variables.mkdir(parents=True, exist_ok=True)
    for source in (INVENTORY / "group_vars" / "all").glob("*.yml"):
        data = yaml.safe_load(source.read_text(encoding="utf-8"))
        if "cluster" in data:
            data["cluster"] |= {"name": name, **cluster}
            data["cluster"]["endpoint"]["address"] = next(iter(control_plane.values()))["node_ip"]
        _write(variables / source.name, data)
    for pool in pools:
        source = INVENTORY / "group_vars" / f"{pool}.yml"
        _write(directory / "group_vars" / source.name, yaml.safe_load(source.read_text(encoding="utf-8")))
    children: dict[str, Any] = {"control_plane": {"hosts": control_plane}}
    if pools:
        children["gpu_nodes"] = {"children": {pool: {"hosts": hosts} for pool, hosts in pools.items()}}
    _write(directory / "hosts.yml", {"all": {"children": children}})
    return directory


def _write(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    path.chmod(0o600)
