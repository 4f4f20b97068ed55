# SPDX-License-Identifier: Apache-2.0
"""nvidia-smi over the simulator: what operators and roles ask it, and its exit codes."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from gpu_machine import VERSION, GpuMachine

from bedplate_lab import gpusim
from bedplate_lab.gpustate import GpuState

LIST = ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-", "GPU 7: NVIDIA H100 80GB HBM3 (UUID: GPU-")


def test_the_list_names_every_gpu(machine: GpuMachine) -> None:
    lines = machine.smi("-L").stdout.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith(LIST[0]) and lines[7].startswith(LIST[1])


def test_a_query_answers_in_the_order_asked(machine: GpuMachine) -> None:
    rows = machine.rows("index,pci.bus_id,memory.total,mig.mode.current,driver_version")
    assert rows[0] == ["0", "00000000:1B:00.0", "81559", "Disabled", VERSION]
    assert [row[1][9:11] for row in rows] == ["1B", "43", "52", "61", "9D", "C3", "D1", "DF"]


def test_a_header_and_units_are_there_unless_refused(machine: GpuMachine) -> None:
    lines = machine.smi("-i", "2", "--query-gpu=name,memory.total,power.limit", "--format=csv").stdout.splitlines()
    assert lines == ["name, memory.total [MiB], power.limit [W]", "NVIDIA H100 80GB HBM3, 81559 MiB, 700.00 W"]


def test_gpus_are_chosen_by_index_uuid_or_address(machine: GpuMachine) -> None:
    uuid = machine.rows("uuid")[4][0]
    for wanted in ("4", uuid, "00000000:9D:00.0", "9d:00.0"):
        assert machine.smi("-i", wanted, "--query-gpu=uuid", "--format=csv,noheader").stdout.strip() == uuid
    assert machine.smi("-i", "8").returncode == 6


def test_unknown_fields_and_options_are_usage_errors(machine: GpuMachine) -> None:
    result = machine.smi("--query-gpu=colour", "--format=csv")
    assert (result.returncode, result.stdout.strip()) == (2, 'Field "colour" is not a valid field to query.')
    assert machine.smi("--colour").returncode == 2


def test_what_a_gpu_has_not_is_said(machine: GpuMachine) -> None:
    machine.plug("l40s-48gb")
    machine.boot()
    assert machine.rows("name,mig.mode.current,fan.speed,fabric.state")[0] == ["NVIDIA L40S", "[N/A]", "[N/A]", "[N/A]"]


def test_a_mismatch_ends_with_18(machine: GpuMachine) -> None:
    machine.change(lambda state: state.section("driver").set("loaded", gpusim.driver_versions()[1]))
    result = machine.smi()
    assert result.returncode == 18
    assert result.stdout.splitlines() == [
        "Failed to initialize NVML: Driver/library version mismatch",
        "NVML library version: 580.126",
    ]


def test_a_lost_gpu_ends_with_15_and_the_others_answer(machine: GpuMachine) -> None:
    machine.change(lambda state: state.gpus[5].set("lost", 1))
    result = machine.smi("--query-gpu=index,uuid", "--format=csv,noheader")
    assert result.returncode == 15
    assert "Unable to determine the device handle for GPU5: 0000:C3:00.0: GPU is lost.  Reboot" in result.stdout
    assert [line[0] for line in result.stdout.splitlines()[:7]] == ["0", "1", "2", "3", "4", "6", "7"]
    assert machine.smi().returncode == 15


def test_no_driver_ends_with_9_no_gpu_with_6_no_library_with_12(machine: GpuMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(8):
        (machine.root / f"dev/nvidia{index}").unlink()
    result = machine.smi("-L")
    assert (result.returncode, result.stdout.strip()) == (6, "No devices were found")
    (machine.root / "dev/nvidiactl").unlink()
    result = machine.smi("-L")
    assert result.returncode == 9
    assert "couldn't communicate with the NVIDIA driver" in result.stdout
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    assert machine.smi("-L").returncode == 12


def test_a_hung_driver_holds_it_and_it_ignores_term(machine: GpuMachine) -> None:
    machine.change(lambda state: state.section("driver").set("hang", 1))
    with subprocess.Popen([machine.programs / "nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True) as process:
        wait_for_ignored(process.pid, signal.SIGTERM)
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.kill()
        assert process.wait(5) == -signal.SIGKILL


def wait_for_ignored(pid: int, number: int) -> None:
    """Wait until a process ignores a signal."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn"))
        if int(line.split()[1], 16) >> number - 1 & 1:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} does not ignore signal {number}")


def test_topology_follows_links_and_numa(machine: GpuMachine) -> None:
    before = machine.smi("topo", "-m").stdout.splitlines()
    assert before[1].split("\t")[:9] == ["GPU0", " X ", "NODE", "NODE", "NODE", "SYS", "SYS", "SYS", "SYS"]
    machine.run("nv-fabricmanager", GPU_SIM_FOREGROUND="1")
    after = machine.smi("topo", "-m").stdout.splitlines()
    assert after[1].split("\t")[1:11] == [" X ", *["NV18"] * 7, "0-47,96-143", "0"]
    assert "Link 17: 26.562 GB/s" in machine.smi("nvlink", "-s").stdout


def test_a_cube_mesh_has_different_links(machine: GpuMachine) -> None:
    machine.plug("v100-32gb")
    machine.boot(modules="proprietary")
    rows = machine.smi("topo", "-m").stdout.splitlines()
    assert rows[1].split("\t")[1:9] == [" X ", "NV1", "NV1", "NV2", "NV2", "SYS", "SYS", "SYS"]


def test_two_models_in_one_machine_are_both_listed(machine: GpuMachine) -> None:
    machine.plug("l40s-48gb", "a100-80gb")
    machine.boot()
    names = [row[0] for row in machine.rows("name")]
    assert names == ["NVIDIA L40S"] * 4 + ["NVIDIA A100-SXM4-80GB"] * 8


@pytest.mark.parametrize(
    "options", [(), ("-q",), ("-i", "0", "-q", "-d", "MEMORY"), ("--version",), ("-h",), ("--help-query-gpu",)]
)
def test_reports_for_people_come_out(machine: GpuMachine, options: tuple[str, ...]) -> None:
    result = machine.smi(*options)
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) > 3


def test_ecc_and_rows_are_reset(machine: GpuMachine) -> None:
    def broken(state: GpuState) -> None:
        for key in ("ecc_uncorrected", "ecc_uncorrected_total", "remap_pending"):
            state.gpus[1].set(key, 3)

    machine.change(broken)
    fields = "ecc.errors.uncorrected.volatile.total,ecc.errors.uncorrected.aggregate.total"
    assert machine.rows(fields)[1] == ["3", "3"]
    query = ("-i", "1", "--query-remapped-rows=remapped_rows.pending,remapped_rows.uncorrectable", "--format=csv,noheader")
    assert machine.smi(*query).stdout.strip() == "Yes, 0"
    assert "successfully reset" in machine.smi("-i", "1", "-r").stdout
    assert machine.rows(fields)[1] == ["0", "3"]
    assert machine.smi(*query).stdout.strip().startswith("No, ")
