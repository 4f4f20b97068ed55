# SPDX-License-Identifier: Apache-2.0
"""Erasing a volume between tenants: the best way each controller has, never in use, with a record; and drained nodes alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.nvme_disks import scan
from ansible_collections.bedplate.metal.plugins.module_utils.nvme_erase import (
    DISCARD,
    FORMAT_CRYPTO,
    FORMAT_ERASE,
    OVERWRITE,
    SANITIZE_BLOCK,
    SANITIZE_CRYPTO,
    Clock,
    Erasure,
    erase,
    method_of,
)
from ansible_collections.bedplate.metal.plugins.plugin_utils.node_drained import require_drained, work
from fixtures_nvme import LVM, RAID0, errors, made, run, writes
from simulated_nvme import Drive, Machine, drives

from recorded_host import KilledError, RecordedHost

SCRATCH = Erasure("scratch", "/scratch")
CLOCK = Clock(lambda: datetime(2026, 3, 1, 12, 0, tzinfo=UTC), lambda seconds: None, lambda: 0.0)


def with_volume(**controller: int) -> tuple[Machine, RecordedHost]:
    machine = Machine(*drives(2), Drive(serial="OTHER"))
    machine.controller.update(controller or {"oacs": 0x2A})
    return machine, made(machine, RAID0)


def erased(host: RecordedHost) -> list[dict[str, Any]]:
    return list(json.loads(host.files["/var/lib/bedplate/nvme.json"])["data"]["erasures"])


def test_the_disks_end_blank_and_the_record_says_when_which_and_how() -> None:
    machine, host = with_volume()
    changes = erase(host, SCRATCH, check=False, clock=CLOCK)
    assert [(change.what, change.after) for change in changes] == [(f"disk {s}", f"erased: {FORMAT_ERASE}") for s in ("S1", "S2")]
    assert host.ran("nvme", "format")[1] == ["nvme", "format", "/dev/nvme1n1", "--ses=1", "--force"]
    assert "/scratch" not in machine.mounts and not machine.arrays
    assert all(drive.zeros and not drive.signatures for drive in machine.drives[:2])
    disk = {"model": "QEMU NVMe Ctrl", "bytes": 4 * 10**9, "method": FORMAT_ERASE}
    disks = [{"serial": serial, **disk} for serial in ("S1", "S2")]
    assert erased(host) == [{"when": "2026-03-01T12:00:00+00:00", "volume": "scratch", "disks": disks}]


def test_the_volume_is_made_anew_and_the_record_stays() -> None:
    machine, host = with_volume()
    erase(host, SCRATCH, check=False, clock=CLOCK)
    run(host, RAID0)
    assert machine.mounts["/scratch"] == "md127" and len(erased(host)) == 1 and machine.drives[2].writes == 0


@pytest.mark.parametrize(
    ("controller", "method"),
    [
        ({"sanicap": 0b011, "oacs": 0b10}, SANITIZE_CRYPTO),
        ({"sanicap": 0b010}, SANITIZE_BLOCK),
        ({"sanicap": 0b100, "oacs": 0b10, "fna": 0b100}, FORMAT_CRYPTO),
        ({"oacs": 0b10}, FORMAT_ERASE),
    ],
)
def test_the_best_way_of_a_controller(controller: dict[str, int], method: str) -> None:
    _machine, host = with_volume(**controller)
    (first, _second) = erase(host, SCRATCH, check=False, clock=CLOCK)
    assert first.after == f"erased: {method}"


def test_without_any_way_it_is_refused_unless_an_overwrite_is_permitted() -> None:
    machine, host = with_volume(oacs=0)
    before = writes(machine)
    with pytest.raises(BedplateError, match=r"disk S1: found no way .*-e bedplate_wipe_overwrite=true"):
        erase(host, SCRATCH, check=False, clock=CLOCK)
    assert writes(machine) == before and machine.mounts["/scratch"] == "md127"
    disk = scan(host).disk("S1")
    assert method_of(host, disk, True) == OVERWRITE
    machine.discards = 2199023255040
    machine.show(host)
    assert method_of(host, disk, True) == DISCARD


def test_a_sanitize_is_waited_for_and_a_failed_one_named() -> None:
    machine, host = with_volume(sanicap=1)
    machine.sanitized = ["0x2", "0x2", "0x101", "0x3"]
    with pytest.raises(BedplateError, match=r"disk S2: found sanitize status 3; wanted it sanitized"):
        erase(host, SCRATCH, check=False, clock=CLOCK)
    assert not machine.sanitized
    assert "half erased; wanted the erasing ended" in errors(run(host, RAID0))


@pytest.mark.parametrize("use", ["md127", "nvme1n1"])
def test_what_is_in_use_elsewhere_is_refused(use: str) -> None:
    machine, host = with_volume()
    machine.mounts["/var/lib/kubelet/pods/x"] = use
    machine.show(host)
    before = host.snapshot()
    with pytest.raises(BedplateError, match=r"found it in use \(/var/lib/kubelet/pods/x\)"):
        erase(host, SCRATCH, check=False, clock=CLOCK)
    assert host.snapshot() == before


def test_an_absent_disk_or_an_unknown_volume_is_refused() -> None:
    machine, host = with_volume()
    with pytest.raises(BedplateError, match=r"found no such volume made here \(made are scratch\)"):
        erase(host, Erasure("data", "/data"), check=False, clock=CLOCK)
    machine.boot(host, [0, 2])
    with pytest.raises(BedplateError, match="found no disk S2; wanted all of its disks"):
        erase(host, SCRATCH, check=False, clock=CLOCK)


def test_check_mode_names_the_methods_and_touches_nothing() -> None:
    _machine, host = with_volume()
    host.files["/usr/sbin/nvme"] = ""
    before = host.snapshot()
    assert erase(host, SCRATCH, check=True, clock=CLOCK)[0].after == f"erased: {FORMAT_ERASE}"
    assert host.snapshot() == before


@pytest.mark.parametrize("declared", [RAID0, LVM])
def test_killed_anywhere_the_same_call_ends_it(declared: dict[str, Any]) -> None:
    def fresh() -> tuple[Machine, RecordedHost]:
        machine = Machine(*drives(2))
        machine.controller["oacs"] = 2
        return machine, made(machine, declared)

    machine, host = fresh()
    host.kill_after(None)
    erase(host, SCRATCH, check=False, clock=CLOCK)
    for boundary in range(1, host.changes + 1):
        machine, killed = fresh()
        killed.kill_after(boundary)
        with pytest.raises(KilledError):
            erase(killed, SCRATCH, check=False, clock=CLOCK)
        killed.kill_after(None)
        erase(killed, SCRATCH, check=False, clock=CLOCK)
        assert all(drive.zeros and not drive.signatures for drive in machine.drives)
        assert run(killed, declared).changed and machine.mounts["/scratch"]


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "team", "name": name, **metadata}, "status": {"phase": metadata.pop("phase", "Running")}}


class NodeApi:
    """Answers like the API for one node."""

    def __init__(self, node: dict[str, Any] | None, pods: Sequence[dict[str, Any]] = ()) -> None:
        self.node, self.pods = node, pods

    def find(self, path: str) -> Any:
        return self.node

    def get(self, path: str, **query: str) -> Any:
        assert query == {"fieldSelector": "spec.nodeName=w1"}
        return {"items": list(self.pods)}


def test_only_a_drained_node_passes() -> None:
    cordoned = {"spec": {"unschedulable": True}}
    daemon = pod("flannel", ownerReferences=[{"kind": "DaemonSet"}])
    static = pod("etcd", annotations={"kubernetes.io/config.mirror": "x"})
    require_drained(NodeApi(None), "w1")  # type: ignore[arg-type]
    require_drained(NodeApi(cordoned, [daemon, static, pod("done", phase="Succeeded")]), "w1")  # type: ignore[arg-type]
    with pytest.raises(BedplateError, match="found it schedulable; wanted it cordoned and drained"):
        require_drained(NodeApi({"spec": {}}), "w1")  # type: ignore[arg-type]
    with pytest.raises(BedplateError, match=r"found pods on it \(team/train\).*kubectl drain w1"):
        require_drained(NodeApi(cordoned, [daemon, pod("train")]), "w1")  # type: ignore[arg-type]
    assert work([pod("b"), pod("a")]) == ["team/a", "team/b"]
