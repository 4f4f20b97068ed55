# SPDX-License-Identifier: Apache-2.0
"""The metal lab's machines as command lines, and what is said of one that does not come up."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from bedplate_lab import paths, ssh, topology
from bedplate_lab.errors import LabError
from bedplate_lab.metal import accel, disks, network, plan, qmp, vm


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
    disks = [json.loads(part) for part in devices if part.startswith("{")]
    assert [disk["serial"] for disk in disks] == [disk.serial for disk in plan.MACHINES[0].disks]
    slots = [part.partition("id=")[2].partition(",")[0] for part in devices if part.startswith("pcie-root-port")]
    assert [disk["bus"] for disk in disks] == slots
    cards = [part for part in devices if part.startswith("virtio-net-pci")]
    assert len({card.partition("mac=")[2].partition(",")[0] for card in cards}) == 2
    assert len(values(arguments, "-netdev")) == 2


@pytest.fixture
def asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, object]]]:
    """What a machine's monitor was asked for."""
    commands: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(qmp, "ask", lambda _machine, command, arguments, **_: commands.append((command, arguments)))
    plan.MACHINES[0].path().mkdir(parents=True)
    return commands


def test_a_pulled_disk_stays_away_and_another_takes_its_slot(asked: list[tuple[str, dict[str, object]]]) -> None:
    machine = plan.MACHINES[0]
    pulled, slot = "BPM1S2", [disk.serial for disk in machine.disks].index("BPM1S2")
    disks.pull(machine, pulled)
    assert asked == [("device_del", {"id": f"disk{slot}"}), ("blockdev-del", {"node-name": pulled})]
    assert disks.slots(machine)[slot] == "" and f'"serial": "{pulled}"' not in " ".join(disks.arguments(machine))
    disks.insert(machine, "BPM1NEW")
    assert [command for command, _ in asked[2:]] == ["blockdev-add", "device_add"]
    assert asked[-1][1]["bus"] == f"slot{slot}" and asked[-1][1]["serial"] == "BPM1NEW"
    assert machine.path("BPM1NEW.raw").stat().st_size == machine.disks[slot].size_bytes
    assert '"serial": "BPM1NEW"' in " ".join(disks.arguments(machine))


def test_a_disk_that_is_not_there_and_a_machine_without_an_empty_slot_are_told(
    asked: list[tuple[str, dict[str, object]]],
) -> None:
    with pytest.raises(LabError, match="disk BPM1S9: wanted one of BPM1N1"):
        disks.pull(plan.MACHINES[0], "BPM1S9")
    with pytest.raises(LabError, match=r"every slot taken\. next: scripts/lab metal pull m1"):
        disks.insert(plan.MACHINES[0], "BPM1NEW")
    assert asked == []


def test_the_monitor_is_waited_for_until_it_tells_the_event(home: Path) -> None:
    machine = plan.MACHINES[0]
    machine.path().mkdir(parents=True)
    answers = ['{"QMP": {}}', '{"return": {}}', '{"event": "RESET"}', '{"return": {}}', '{"event": "DEVICE_DELETED"}']
    with served(machine, answers) as told:
        qmp.ask(machine, "device_del", {"id": "disk4"}, event="DEVICE_DELETED")
    assert [json.loads(line)["execute"] for line in told] == ["qmp_capabilities", "device_del"]
    with (
        served(machine, ['{"QMP": {}}', '{"return": {}}', '{"error": {"desc": "no such device"}}']),
        pytest.raises(LabError, match="QEMU refused device_del: no such device"),
    ):
        qmp.ask(machine, "device_del", {"id": "disk99"}, event="DEVICE_DELETED")
    with served(machine, ['{"QMP": {}}']), pytest.raises(LabError, match="its monitor did not take device_del"):
        qmp.ask(machine, "device_del", {"id": "disk4"})


@contextmanager
def served(machine: plan.Machine, answers: list[str]) -> Iterator[list[str]]:
    """A monitor that says these lines, whatever it is told, and then closes; yields what it is told."""
    told: list[str] = []
    path = machine.path("qmp")
    path.unlink(missing_ok=True)
    server = socket.create_server(str(path), family=socket.AF_UNIX)

    def serve() -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rw") as stream:
            stream.write("".join(f"{line}\n" for line in answers))
            stream.flush()
            connection.shutdown(socket.SHUT_WR)
            told.extend(stream)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield told
    finally:
        thread.join(10)
        server.close()


def test_addresses_and_hardware_addresses_are_nobody_elses() -> None:
    machines = plan.MACHINES
    assert len({m.address for m in machines}) == len(machines)
    assert len({mac for m in machines for mac in (m.mac, m.fabric_mac)}) == 2 * len(machines)
    taken = {topology.address(role, index) for role in topology.MOST for index in range(topology.MOST[role])}
    assert not taken & {m.address for m in machines}
    assert all(len(tap) <= 15 for m in machines for tap in (*network.taps(m), network.UPLINK))


def test_secure_boot_has_the_firmware_that_enforces_it(home: Path) -> None:
    plain, secure = (vm.arguments(machine) for machine in plan.chosen(["m1", "m2"]))
    assert "q35,smm=off" in plain and "q35,smm=on" in secure
    assert any(".ms.fd" in drive for drive in values(secure, "-drive"))
    assert not any(".ms.fd" in drive for drive in values(plain, "-drive"))


def test_an_unknown_machine_is_refused_with_those_there_are() -> None:
    with pytest.raises(LabError, match="machine m9: the metal lab has m1 and m2 and u1"):
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
