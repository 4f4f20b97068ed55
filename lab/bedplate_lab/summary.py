# SPDX-License-Identifier: Apache-2.0
"""What runs and how to use it: the end of `up`, and `status`."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bedplate_lab import cluster, serve, topology
from bedplate_lab.cluster import Node
from bedplate_lab.errors import LabError
from bedplate_lab.podman import Container, Podman
from bedplate_lab.state import State
from bedplate_lab.steps import Steps, duration


def rows(lab: State, containers: Mapping[str, Container], nodes: Mapping[str, Node]) -> list[dict[str, Any]]:
    """One row per host: name, role, pool, address, state, uptime in seconds, and what the cluster says of its node."""
    result = []
    for host in lab.hosts():
        container = containers.get(host.container)
        node = nodes.get(host.name)
        result.append(
            {
                "host": host.name,
                "role": host.role,
                "pool": host.pool,
                "rack": host.rack,
                "address": host.address,
                "state": container.state if container else "missing",
                "up_seconds": int(time.time()) - container.started_at if container and container.running else None,
                "node": "" if node is None else "Ready" if node.ready else "NotReady",
                "version": node.version if node else "",
                "taints": list(node.taints) if node else [],
            }
        )
    return result


def depots(containers: Mapping[str, Container]) -> dict[str, str]:
    """State of the depot's two services by their address; empty when the lab has none."""
    services = {f"https://{topology.DEPOT_NAME}/apt": serve.WEB, f"https://{topology.DEPOT_NAME}:5000": serve.REGISTRY}
    return {address: containers[name].state for address, name in services.items() if name in containers}


def status(lab: State, podman: Podman) -> dict[str, Any]:
    """All `status` shows, as data: `hosts`, `depot`, and `cluster`: "ok" or why it did not answer."""
    containers = podman.containers() if lab.hosts() else {}
    nodes: dict[str, Node] = {}
    answer = "ok"
    try:
        if any(containers[host.container].running for host in lab.planned()[:1] if host.container in containers):
            nodes = cluster.nodes(lab)
        else:
            answer = "no control-plane host runs"
    except LabError as error:
        answer = str(error)
    return {"hosts": rows(lab, containers, nodes), "depot": depots(containers), "cluster": answer}


def print_status(data: Mapping[str, Any], console: Console) -> None:
    """Print `status` data for people."""
    if not data["hosts"] and not data["depot"]:
        console.print("The lab is down. Start it with: scripts/lab up")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("HOST", "ADDRESS", "POOL", "RACK", "STATE", "UP", "NODE", "VERSION", "TAINTS"):
        table.add_column(title, no_wrap=title != "TAINTS", overflow="fold")
    for row in data["hosts"]:
        table.add_row(
            row["host"],
            row["address"],
            row["pool"] or row["role"].replace("_", " "),
            row["rack"],
            row["state"],
            "" if row["up_seconds"] is None else duration(row["up_seconds"]).replace(".0 s", " s"),
            row["node"],
            row["version"],
            " ".join(re.sub(r"^[a-z.-]*kubernetes\.io/", "", taint) for taint in row["taints"]),
        )
    console.print(table)
    for name, state in data["depot"].items():
        console.print(f"depot {name}: {state}", markup=False)
    if data["cluster"] != "ok":
        console.print(f"cluster: {data['cluster']}", markup=False)


USE: Sequence[tuple[str, str]] = (
    ("scripts/lab status", "what runs"),
    ("scripts/lab kubectl get nodes", "any kubectl command, as the cluster's administrator"),
    ("scripts/lab ssh w1", "log in to a host"),
    (".venv/bin/ansible-playbook -i inventories/lab playbooks/site.yml", "run it yourself"),
    ("scripts/lab down", "remove all of it"),
)


def show(lab: State, steps: Steps, changed: Sequence[str], podman: Podman | None = None) -> None:
    """The end of `up`: what runs now, and how to use it."""
    console = steps.console
    console.print()
    print_status(status(lab, podman or Podman()), console)
    console.print()
    width = max(len(command) for command, _ in USE)
    for command, meaning in USE:
        console.print(f"  {command:<{width}} {meaning}", markup=False)
    made = f"; booted {', '.join(changed)}" if changed else ""
    console.print(f"\nThe lab is up after {duration(time.monotonic() - steps.started)}{made}.", markup=False)
