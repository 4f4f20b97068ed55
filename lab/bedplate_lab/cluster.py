# SPDX-License-Identifier: Apache-2.0
"""Asking the lab's cluster through its first control-plane host."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bedplate_lab import ssh
from bedplate_lab.errors import LabError
from bedplate_lab.run import CommandError, run
from bedplate_lab.state import State

KUBECONFIG = "/etc/kubernetes/admin.conf"
ANSWER_SECONDS = 8


@dataclass(frozen=True)
class Node:
    """A Node object: whether it is Ready, its kubelet's version, and the keys of its taints."""

    name: str
    ready: bool
    version: str
    taints: tuple[str, ...] = ()


def kubectl_command(arguments: Sequence[str]) -> str:
    """The shell command that runs kubectl as the cluster's administrator on a control-plane host."""
    return shlex.join(["sudo", "kubectl", f"--kubeconfig={KUBECONFIG}", *arguments])


def entrance(lab: State) -> str:
    """The address of the first control-plane host. Raises LabError when the lab has none."""
    for host in lab.planned():
        if host.role == "control_plane":
            return host.address
    raise LabError("the lab has no control-plane host; start it with scripts/lab up")


def nodes(lab: State) -> dict[str, Node]:
    """The cluster's nodes by name. Raises LabError when there is no cluster, or it does not answer in time."""
    command = kubectl_command(["get", "nodes", "-o", "json", f"--request-timeout={ANSWER_SECONDS - 3}s"])
    try:
        text = run(
            ssh.command(entrance(lab), command, options_first=("-o", "ConnectTimeout=3", "-o", "BatchMode=yes")),
            timeout_seconds=ANSWER_SECONDS,
        ).stdout
        return parse_nodes(text)
    except CommandError as error:
        raise explained(error) from error


def explained(error: CommandError) -> LabError:
    """Why the first control-plane host could not be asked for the cluster; completes "cluster: "."""
    last = (error.output.strip().splitlines()[-1:] or ["no answer"])[0]
    if "not found" in last or Path(KUBECONFIG).name in last:
        return LabError("not made yet: scripts/lab up runs site.yml")
    return LabError(f"does not answer: {last}")


def parse_nodes(text: str) -> dict[str, Node]:
    """Nodes out of `kubectl get nodes -o json`. Raises LabError for anything else."""
    try:
        items = json.loads(text)["items"]
        found = {}
        for item in items:
            conditions = {row["type"]: row["status"] for row in item["status"].get("conditions", [])}
            name = item["metadata"]["name"]
            found[name] = Node(
                name=name,
                ready=conditions.get("Ready") == "True",
                version=item["status"]["nodeInfo"]["kubeletVersion"],
                taints=tuple(taint["key"] for taint in item["spec"].get("taints", [])),
            )
        return found
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(f"kubectl get nodes: wanted a list of nodes, found {text[:200]!r}") from error
