# SPDX-License-Identifier: Apache-2.0
"""The simulated NVML answers as its users expect: devices, faults, versions, MIG, events, containers."""

from __future__ import annotations

import ctypes
import re
import threading
import time

import pytest
from gpu_machine import GpuMachine, Nvml, NvmlError

from bedplate_lab import gpusim
from bedplate_lab.gpustate import GpuState

GPU_IS_LOST, MISMATCH, NOT_LOADED, NOT_SUPPORTED, TIMEOUT = 15, 18, 9, 3, 10


class EventData(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def count(nvml: Nvml) -> int:
    return nvml.number("nvmlDeviceGetCount_v2")


def test_it_has_every_function_of_the_header(machine: GpuMachine) -> None:
    """NVIDIA's Go bindings end the process at the first function that a library lacks."""
    header = (gpusim.header_directory() / "nvml.h").read_text()
    names = set(re.findall(r"nvmlReturn_t DECLDIR (nvml\w+)", header))
    library = machine.nvml().library
    assert len(names) > 400
    assert [name for name in names if not hasattr(library, name)] == []
    assert library.nvmlDeviceGetVgpuMetadata(0, 0, 0) == NOT_SUPPORTED


def test_devices_are_those_of_the_profile(machine: GpuMachine) -> None:
    nvml = machine.nvml()
    assert count(nvml) == 8
    device = nvml.device(3)
    assert nvml.text("nvmlDeviceGetName", device) == "NVIDIA H100 80GB HBM3"
    uuid = nvml.text("nvmlDeviceGetUUID", device)
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid)
    again = ctypes.c_void_p()
    nvml("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(again))
    assert again.value == device.value
    assert nvml.number("nvmlDeviceGetMinorNumber", device) == 3
    memory = Memory()
    nvml("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
    assert memory.total == 81559 * 2**20
    assert memory.free + memory.used == memory.total


def test_a_lost_gpu_says_so_and_is_gone_after_a_reboot(machine: GpuMachine) -> None:
    nvml = machine.nvml()
    device = nvml.device(5)
    uuid = nvml.text("nvmlDeviceGetUUID", device)
    machine.change(lambda state: state.gpus[5].set("lost", 1))
    with pytest.raises(NvmlError) as error:
        nvml.device(5)
    assert error.value.code == GPU_IS_LOST
    assert nvml.code("nvmlDeviceGetPowerUsage", device, ctypes.byref(ctypes.c_uint())) == GPU_IS_LOST
    assert nvml.text("nvmlDeviceGetUUID", device) == uuid, "who it was is known: NVIDIA's plugin asks when an event comes"
    assert count(nvml) == 8
    machine.boot()
    assert count(nvml) == 7
    assert uuid not in [nvml.text("nvmlDeviceGetUUID", nvml.device(index)) for index in range(7)]


def test_another_version_is_loaded_only_by_a_boot(machine: GpuMachine) -> None:
    library = Nvml(machine.programs)
    other = gpusim.driver_versions()[1]
    (machine.root / "usr/share/gpu-sim/module").write_text(f"{other} open\n")
    machine.load()
    assert library.code("nvmlInit_v2") == 0
    assert library.text("nvmlSystemGetDriverVersion") == gpusim.driver_versions()[0]
    machine.boot(other)
    assert library.code("nvmlInit_v2") == MISMATCH
    assert other in (machine.root / "proc/driver/nvidia/version").read_text()


def test_without_a_driver_nothing_answers(machine: GpuMachine) -> None:
    machine.change(lambda state: state.section("driver").set("loaded", ""))
    assert Nvml(machine.programs).code("nvmlInit_v2") == NOT_LOADED
    machine.state.unlink()
    assert Nvml(machine.programs).code("nvmlInit_v2") == NOT_LOADED


@pytest.mark.parametrize(
    ("profile", "refused", "driven"), [("b200-180gb", "proprietary", "open"), ("v100-32gb", "open", "proprietary")]
)
def test_kernel_modules_that_do_not_know_the_gpu_do_not_load(
    machine: GpuMachine, profile: str, refused: str, driven: str
) -> None:
    machine.plug(profile)
    assert "none of the GPUs is supported" in machine.boot(modules=refused).stderr
    assert Nvml(machine.programs).code("nvmlInit_v2") == NOT_LOADED
    machine.boot(modules=driven)
    assert count(machine.nvml()) == 8


def test_a_container_has_the_devices_whose_nodes_it_has(machine: GpuMachine) -> None:
    nvml = machine.nvml()
    wanted = [nvml.text("nvmlDeviceGetUUID", nvml.device(index)) for index in (1, 6)]
    for index in (0, 2, 3, 4, 5, 7):
        (machine.root / f"dev/nvidia{index}").unlink()
    assert [nvml.text("nvmlDeviceGetUUID", nvml.device(index)) for index in range(count(nvml))] == wanted
    assert nvml.number("nvmlDeviceGetIndex", nvml.device(1)) == 1


def test_a_hung_driver_answers_when_it_is_healed(machine: GpuMachine) -> None:
    nvml = machine.nvml()
    machine.change(lambda state: state.section("driver").set("hang", 1))
    answers: list[int] = []
    asking = threading.Thread(target=lambda: answers.append(count(nvml)))
    asking.start()
    asking.join(0.5)
    assert asking.is_alive()
    machine.change(lambda state: state.section("driver").set("hang", 0))
    asking.join(5)
    assert answers == [8]


def test_an_xid_comes_as_an_event_of_its_device(machine: GpuMachine) -> None:
    nvml = machine.nvml()
    machine.change(lambda state: add_xid(state, 2, 31))
    events = ctypes.c_void_p()
    nvml("nvmlEventSetCreate", ctypes.byref(events))
    for index in range(8):
        nvml("nvmlDeviceRegisterEvents", nvml.device(index), ctypes.c_ulonglong(8), events)
    data = EventData()
    assert nvml.code("nvmlEventSetWait_v2", events, ctypes.byref(data), 200) == TIMEOUT, "an XID of before is none"
    machine.change(lambda state: add_xid(state, 2, 79))
    nvml("nvmlEventSetWait_v2", events, ctypes.byref(data), 2000)
    assert (data.data, data.device, data.type) == (79, nvml.device(2).value, 8)
    assert nvml.code("nvmlEventSetWait_v2", events, ctypes.byref(data), 200) == TIMEOUT
    nvml("nvmlEventSetFree", events)


def add_xid(state: GpuState, gpu: int, code: int) -> None:
    machine = state.section("host")
    machine.set("xid_sequence", int(machine.get("xid_sequence")) + 1)
    state.gpus[gpu].add("xid", f"{machine.get('xid_sequence')} {code} {int(time.time())}")


def test_a_file_that_is_being_written_is_not_believed(machine: GpuMachine) -> None:
    whole = machine.state.read_text()
    machine.state.write_text(whole[: len(whole) // 2])
    assert Nvml(machine.programs).code("nvmlInit_v2") == NOT_LOADED
    machine.state.write_text(whole.replace("generation = 2", "generation = 3", 1))
    assert Nvml(machine.programs).code("nvmlInit_v2") == NOT_LOADED


def test_what_the_library_writes_the_lab_reads(machine: GpuMachine) -> None:
    before = machine.read()
    nvml = machine.nvml()
    nvml("nvmlDeviceSetPersistenceMode", nvml.device(4), 1)
    after = machine.read()
    assert after.generation == before.generation + 1
    assert after.gpus[4].get("persistence") == "1"
    for old, new in zip(before.gpus, after.gpus, strict=True):
        assert {key: value for key, value in new.lines if key != "persistence"}.items() >= dict(old.lines).items() - {
            ("persistence", "0")
        }
        assert old.all("link") == new.all("link")
    assert before.section("mig").lines == after.section("mig").lines


def test_links_to_switches_come_up_with_the_fabric_manager(machine: GpuMachine) -> None:
    nvml = machine.nvml()
    assert nvml.number("nvmlDeviceGetNvLinkState", nvml.device(0), 0) == 0
    result = machine.run("nv-fabricmanager", GPU_SIM_FOREGROUND="1")
    assert result.returncode == 0, result.stderr
    assert [nvml.number("nvmlDeviceGetNvLinkState", nvml.device(0), link) for link in range(18)] == [1] * 18
    assert nvml.code("nvmlDeviceGetNvLinkState", nvml.device(0), 20, ctypes.byref(ctypes.c_uint())) != 0
