# SPDX-License-Identifier: Apache-2.0
"""`scripts/lab host …`: single hosts, most of them bare ones outside the inventory, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from bedplate_lab import hostimage, hosts, inventory, network, ssh, state, topology
from bedplate_lab.errors import LabError
from bedplate_lab.podman import Podman
from bedplate_lab.steps import Steps


def add(names: Sequence[str], steps: Steps, podman: Podman | None = None) -> dict[str, dict[str, str]]:
    """Boot bare hosts; Ansible's variables for each name. Hosts that run are left alone. Raises LabError."""
    podman = podman or Podman()
    for name in names:
        topology.check_extra_name(name)
    if not network.owned(podman):
        raise LabError("the lab is down: hosts need its network and its depot. next: scripts/lab up, or scripts/lab up --no-site")
    with state.update() as record:
        for name in names:
            if name not in record.extra:
                record.extra[name] = topology.free_extra_address(record.extra.values())
        wanted = [record.host(name) for name in dict.fromkeys(names)]
    with steps.shown(), steps.step(f"hosts: {' '.join(names)}") as report:
        hosts.ensure(podman, wanted, hostimage.ensure(report), ssh.ensure_key(), report)
    return {host.name: {"ansible_host": host.address, "node_ip": host.address, **inventory.connection()} for host in wanted}


def remove(names: Sequence[str], steps: Steps, podman: Podman | None = None) -> None:
    """Remove extra hosts; unknown names are fine, the inventory's hosts are refused. Raises LabError."""
    podman = podman or Podman()
    for name in names:
        topology.check_extra_name(name)
    record = state.load()
    wanted = [record.host(name) for name in dict.fromkeys(names) if name in record.extra]
    with steps.shown(), steps.step(f"remove hosts: {' '.join(host.name for host in wanted) or 'none there'}"):
        hosts.remove(podman, wanted)
    with state.update() as record:
        for host in wanted:
            record.extra.pop(host.name, None)


def reboot(names: Sequence[str], steps: Steps, podman: Podman | None = None) -> None:
    """Reboot hosts side by side and wait for SSH. Raises LabError."""
    record = state.load()
    wanted = [record.host(name) for name in dict.fromkeys(names)]
    with steps.shown(), steps.step(f"reboot: {' '.join(names)}"):
        hosts.reboot(podman or Podman(), wanted)
