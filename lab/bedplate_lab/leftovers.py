# SPDX-License-Identifier: Apache-2.0
"""What a lab of another checkout left behind when it was cut off: its hosts are all dead, its names are still taken."""

from __future__ import annotations

from bedplate_lab import labels, network, topology
from bedplate_lab.podman import Podman
from bedplate_lab.steps import Steps


def dead_labs(podman: Podman) -> list[str]:
    """Labels of labs of other checkouts that have something here and nothing that runs. Raises CommandError."""
    found: set[str] = set()
    alive: set[str] = set()
    for container in podman.labelled():
        owner = container.labels[labels.LAB]
        found.add(owner)
        if container.running:
            alive.add(owner)
    network_owner = network.owner(podman)
    if network_owner is not None:
        found.add(network_owner)
    return sorted(found - alive - {labels.INSTANCE})


def remove_dead(steps: Steps, podman: Podman | None = None) -> None:
    """Remove dead labs of other checkouts with all their hosts held; a lab of which anything runs is left alone."""
    podman = podman or Podman()
    with steps.shown(), steps.step("remove dead labs of other checkouts") as report:
        owners = dead_labs(podman)
        report(" ".join(owners) or "none there")
        for container in podman.labelled():
            if container.labels[labels.LAB] in owners:
                podman.remove_container(container.name)
        for owner in owners:
            for volume in podman.volumes(owner):
                podman.remove_volume(volume)
        if network.owner(podman) in owners:
            podman("network", "rm", "--force", "--time", "0", topology.NETWORK)
