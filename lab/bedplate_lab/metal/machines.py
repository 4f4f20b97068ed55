# SPDX-License-Identifier: Apache-2.0
"""`scripts/lab metal …`: the machines up, down, rebooted, looked at."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

from bedplate_lab import depot, inventory, paths, serve, ssh, state, up
from bedplate_lab.errors import LabError
from bedplate_lab.metal import accel, disks, network, qmp, vm
from bedplate_lab.metal.plan import MACHINES, Machine
from bedplate_lab.podman import Podman
from bedplate_lab.steps import Steps

NEEDS: dict[str, tuple[str, ...]] = {
    "dosfstools": ("mkfs.vfat",),
    "fdisk": ("sfdisk",),
    "mtools": ("mmd", "mcopy"),
    "ovmf": (str(vm.FIRMWARE / vm.CODE[True]),),
    "qemu-system-x86": (accel.QEMU,),
    "qemu-utils": ("qemu-img",),
}
"""Debian packages the machines need beside those of the lab, and the programs or files by which one sees that they are there."""


def up_(machines: Sequence[Machine], steps: Steps, podman: Podman | None = None) -> None:
    """Boot machines side by side, with the lab's network and depot where these do not run yet. Raises LabError."""
    podman = podman or Podman()
    with paths.lock("lab"), steps.shown():
        up.prepare(steps, podman, NEEDS)
        lab = state.load()
        with steps.step("packages and images") as report:
            depot.prepare(lab.source, report, lab.upstream_url or None)
        with steps.step("depot") as report:
            serve.start(podman, report)
        up.describe(lab, steps)
        with steps.step("the machines' network"):
            network.ensure(podman, machines)
        public_key = ssh.ensure_key()

        def boot(one: Machine) -> None:
            with steps.step(f"{one.name}: {one.suite}{', Secure Boot' if one.secure_boot else ''}") as report:
                vm.create(one, public_key, report)
                if vm.start(one):
                    report(f"boot ({accel.probe().partition(',')[0]})")
                vm.wait(one)

        up.side_by_side(*(lambda one=one: boot(one) for one in machines))


def down(steps: Steps) -> None:
    """Switch the machines off and remove them with their network; images stay in the cache. Nothing there is fine."""
    with steps.shown(), steps.step("remove the metal lab's machines") as report:
        report(" ".join(remove()) or "none there")


def remove() -> list[str]:
    """Remove all machines, their disks and their network; names of those that ran."""
    stopped = [one.name for one in MACHINES if vm.stop(one)]
    for one in MACHINES:
        if one.path().exists():
            ssh.forget(one.address)
    if shutil.which("ip"):
        network.remove()
    shutil.rmtree(paths.state("metal"), ignore_errors=True)
    return stopped


def reboot(machines: Sequence[Machine], steps: Steps, seconds: float) -> None:
    """Have machines' systems reboot, side by side, and wait for SSH. Raises LabError with the console's end."""
    with steps.shown(), steps.step(f"reboot: {' '.join(one.name for one in machines)}"):
        for one in machines:
            if not vm.running(one):
                raise LabError(f"machine {one.name}: it does not run. next: scripts/lab metal up {one.name}")
        up.side_by_side(*(lambda one=one: vm.reboot(one, seconds) for one in machines))


def reset(machines: Sequence[Machine], steps: Steps, seconds: float) -> None:
    """Press the reset button: no shut-down, as after a hang or a loss of power; wait for SSH. Raises LabError."""
    with steps.shown(), steps.step(f"reset: {' '.join(one.name for one in machines)}"):
        for one in machines:
            ssh.close(one.address)
            qmp.ask(one, "system_reset")
        up.side_by_side(*(lambda one=one: vm.wait(one, seconds) for one in machines))


def address(name: str) -> str | None:
    """The address of a machine that runs, None for another name."""
    return next((one.address for one in MACHINES if one.name == name and vm.running(one)), None)


def status() -> list[dict[str, Any]]:
    """One row per machine: name, suite, address, whether it runs, Secure Boot, serial numbers of its disks."""
    return [
        {
            "machine": one.name,
            "suite": one.suite,
            "address": one.address,
            "state": "running" if vm.running(one) else "off" if one.path().exists() else "missing",
            "secure_boot": one.secure_boot,
            "disks": _disks(one),
        }
        for one in MACHINES
    ]


def _disks(machine: Machine) -> dict[str, str]:
    known = {disk.serial: disk.content for disk in machine.disks}
    return {serial: known.get(serial, "blank") for serial in disks.slots(machine) if serial}


def variables(machines: Sequence[Machine]) -> dict[str, dict[str, str]]:
    """Ansible's variables that reach machines, by name."""
    return {one.name: {"ansible_host": one.address, "node_ip": one.address, **inventory.connection()} for one in machines}
