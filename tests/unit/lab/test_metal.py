# SPDX-License-Identifier: Apache-2.0
"""The metal lab's machines as command lines, and what is said of one that does not come up."""

from __future__ import annotations

import os
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from bedplate_lab import paths, ssh, topology
from bedplate_lab.errors import LabError
from bedplate_lab.metal import accel, network, plan, vm


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(accel, "probe", lambda: accel.TCG)
    return tmp_path


def values(arguments: list[str], option: str) -> list[str]:
    return [value for name, value in pairwise(arguments) if name == option]


def test_a_machine_has_its_disks_by_serial_and_a_card_for_each_network(home: Path) -> None:
    arguments = vm.arguments(plan.MACHINES[0])
    devices = values(arguments, "-device")
    serials = [part.partition("serial=")[2] for part in devices if part.startswith("nvme,")]
    assert serials == ["BPM1N1", "BPM1N2", "BPM1N3", "BPM1DATA"]
    cards = [part for part in devices if part.startswith("virtio-net-pci")]
    assert len({card.partition("mac=")[2].partition(",")[0] for card in cards}) == 2
    assert len(values(arguments, "-netdev")) == 2


def test_addresses_and_hardware_addresses_are_nobody_elses() -> None:
    machines = plan.MACHINES
    assert len({m.address for m in machines}) == len(machines)
    assert len({mac for m in machines for mac in (m.mac, m.fabric_mac)}) == 2 * len(machines)
    taken = {topology.address(role, index) for role in topology.MOST for index in range(topology.MOST[role])}
    assert not taken & {m.address for m in machines}
    assert all(len(tap) <= 15 for m in machines for tap in (*network.taps(m), network.UPLINK))


def test_secure_boot_has_the_firmware_that_enforces_it(home: Path) -> None:
    plain, secure = (vm.arguments(machine) for machine in plan.MACHINES)
    assert "q35,smm=off" in plain and "q35,smm=on" in secure
    assert any(".ms.fd" in drive for drive in values(secure, "-drive"))
    assert not any(".ms.fd" in drive for drive in values(plain, "-drive"))


def test_an_unknown_machine_is_refused_with_those_there_are() -> None:
    with pytest.raises(LabError, match="machine m9: the metal lab has m1 and m2"):
        plan.chosen(["m9"])


def test_a_machine_that_stops_while_booting_is_told_with_its_consoles_end(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = plan.MACHINES[0]
    machine.path().mkdir(parents=True)
    machine.path("console").write_text("\x1b[0mGRUB\n" + "line\n" * 100 + "Kernel panic - not syncing\r\n")

    def stopped(*_: object) -> None:
        raise LabError("it stopped while booting")

    monkeypatch.setattr(ssh, "wait", stopped)
    with pytest.raises(LabError) as caught:
        vm.wait(machine)
    text = str(caught.value)
    assert "machine m1" in text and "Kernel panic - not syncing" in text and "GRUB" not in text and "\x1b" not in text
    assert "scripts/lab metal" in text


def test_a_process_that_has_the_number_of_a_dead_machine_is_not_taken_for_it(home: Path) -> None:
    machine = plan.MACHINES[0]
    machine.path().mkdir(parents=True)
    machine.path("pid").write_text(f"{os.getpid()}\n")
    assert vm.running(machine) is None
    assert vm.stop(machine) is False


def test_acceleration_is_what_boots_not_what_has_a_device_file(monkeypatch: pytest.MonkeyPatch) -> None:
    accel.probe.cache_clear()
    monkeypatch.setattr(Path, "exists", lambda _: True)

    def hangs(command: list[str], **options: float) -> None:
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(subprocess, "run", hangs)
    try:
        assert accel.probe() == accel.TCG
    finally:
        accel.probe.cache_clear()
