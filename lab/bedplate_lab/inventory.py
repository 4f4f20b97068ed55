# SPDX-License-Identifier: Apache-2.0
"""The generated part of inventories/lab: the hosts, how to reach them, and the depot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bedplate_lab import charts, ssh
from bedplate_lab.paths import ROOT, new_file
from bedplate_lab.topology import DEPOT_NAME, POOLS, Host

INVENTORY = ROOT / "inventories" / "lab"
HOSTS = INVENTORY / "hosts.yml"
GENERATED = INVENTORY / "group_vars" / "all" / "generated.yml"
HEADER = "# Written by scripts/lab up; changes are overwritten.\n"


@dataclass(frozen=True)
class Depot:
    """What hosts must know of the depot; `ca_pem` and `signing_key` are PEM and ASCII-armoured text. `helm` is a program."""

    ca_pem: str
    signing_key: str
    helm: str


def hosts_data(hosts: Sequence[Host]) -> dict[str, Any]:
    """The content of hosts.yml: control planes, and the pools below gpu_nodes; a pool without hosts is left out."""
    pools = {
        pool: {"hosts": {host.name: _variables(host) for host in hosts if host.pool == pool}}
        for pool in POOLS
        if any(host.pool == pool for host in hosts)
    }
    control_plane = {host.name: _variables(host) for host in hosts if host.role == "control_plane"}
    return {"all": {"children": {"control_plane": {"hosts": control_plane}, "gpu_nodes": {"children": pools}}}}


def connection() -> dict[str, str]:
    """The variables by which Ansible, and what reads its inventory, reaches a host."""
    return {
        "ansible_user": ssh.USER,
        "ansible_ssh_private_key_file": str(ssh.key()),
        "ansible_ssh_common_args": ssh.common_args(),
    }


def generated_data(depot: Depot) -> dict[str, Any]:
    """The content of group_vars/all/generated.yml."""
    return {
        **connection(),
        "bedplate_depot": {
            "apt": {
                "uri": f"https://{DEPOT_NAME}/apt",
                "suite": "bookworm",
                "components": ["main"],
                "signing_key": depot.signing_key,
            },
            "registry": {"endpoint": f"https://{DEPOT_NAME}:5000", "ca": depot.ca_pem},
            "ca": depot.ca_pem,
            "charts": {name.replace("-", "_"): str(charts.path(name)) for name in charts.CHARTS},
        },
        "bedplate_helm_binary": depot.helm,
    }


def write(hosts: Sequence[Host], depot: Depot) -> bool:
    """Write both files where they differ; True when one did."""
    wrote = [_write(HOSTS, hosts_data(hosts)), _write(GENERATED, generated_data(depot))]
    return any(wrote)


def remove() -> None:
    """Remove both files, and the directories that held nothing else."""
    for path in (HOSTS, GENERATED):
        path.unlink(missing_ok=True)
    for directory in (GENERATED.parent, GENERATED.parent.parent, INVENTORY):
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def render(data: dict[str, Any]) -> str:
    """YAML text of `data`, in its order."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=4096, allow_unicode=True)
    return f"{HEADER}---\n{text}"


def _write(path: Path, data: dict[str, Any]) -> bool:
    text = render(data)
    if path.is_file() and path.read_text() == text:
        return False
    with new_file(path) as temporary:
        temporary.write_text(text)
    return True


def _variables(host: Host) -> dict[str, str]:
    return {"ansible_host": host.address, "node_ip": host.address, "rack": host.rack, "topology_block": host.block}
