# SPDX-License-Identifier: Apache-2.0
"""What nvidia-smi, /proc and the bus say, and what of it keeps a node's GPUs from service."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import nvidia_probe as probe
from ansible_collections.bedplate.metal.plugins.module_utils.host import LocalHost, Result
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_health import Expected, judge
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_probe import DriverState, Gpu, PciDevice, Probe, Xid

from recorded_host import RecordedHost

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.126.09  Release Build  (dvs-builder@U22)\nGCC version: 12\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54  Tue May  7 12:00:00 UTC 2024\n"
LINE = "{0}, GPU-{0}, 00000000:{1}:00.0, NVIDIA H100 80GB HBM3, 81559, Disabled, 580.126.09\n"
BUSES = ("1B", "43", "52", "61", "9D", "C3", "D1", "DF")


def gpus(count: int = 8, name: str = "NVIDIA H100 80GB HBM3", memory: int = 81559) -> tuple[Gpu, ...]:
    return tuple(Gpu(i, f"GPU-{i}", f"0000:{b.lower()}:00.0", name, memory) for i, b in enumerate(BUSES[:count]))


def healthy() -> DriverState:
    known = tuple(g.pci for g in gpus())
    return DriverState("580.126.09", True, ("580.126.09",), known, 4, probe=Probe("ok", gpus()))


EXPECTED = Expected(8, "H100", 80, switches=True)


def found(state: DriverState, expected: Expected = EXPECTED, fabric: str | None = "active") -> dict[str, str]:
    return {f.what: f.found for f in judge(state, expected, "580.126.09", fabric).findings}


class TestReading:
    def test_loaded_driver_and_its_kind(self) -> None:
        assert probe.parse_loaded(OPEN) == ("580.126.09", True)
        assert probe.parse_loaded(CLOSED) == ("535.54", False)
        assert probe.parse_loaded("") == (None, None)

    def test_addresses_are_written_as_the_kernel_does(self) -> None:
        assert probe.normal_pci("00000000:1B:00.0") == probe.normal_pci("0000:1b:00") == "0000:1b:00.0"

    @pytest.mark.parametrize(
        ("result", "state", "count"),
        [
            (Result(0, LINE.format(0, "1B") + LINE.format(1, "43")), "ok", 2),
            (Result(0, "No devices were found\n"), "failed", 0),
            (Result(18, "Failed to initialize NVML: Driver/library version mismatch\n"), "mismatch", 0),
            (Result(255, "", "Failed to initialize NVML: Driver/library version mismatch"), "mismatch", 0),
            (Result(15, LINE.format(0, "1B"), "Unable to determine the device handle for GPU0: GPU is lost."), "lost", 1),
            (Result(9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."), "no-driver", 0),
            (Result(127), "absent", 0),
            (Result(124), "wedged", 0),
            (Result(0, "0, [Unknown Error], 00000000:1B:00.0, NVIDIA H100, [GPU is lost], [N/A], 580\n"), "ok", 0),
        ],
    )
    def test_answers_of_nvidia_smi(self, result: Result, state: str, count: int) -> None:
        answer = probe.parse_probe(result)
        assert (answer.state, len(answer.gpus)) == (state, count)
        assert state in ("ok",) or answer.message

    def test_xids_by_gpu(self) -> None:
        line = "NVRM: Xid (PCI:0000:{}:00): {}, pid='<unknown>'\n"
        text = line.format("1b", 79) + line.format("1b", 79) + line.format("43", 13)
        xids = probe.parse_xids(text)
        assert xids == (Xid("0000:1b:00.0", 79), Xid("0000:43:00.0", 13)) and probe.fatal(xids) == xids[:1]

    @pytest.mark.parametrize(
        ("answer", "known"),
        [
            (Result(0, ""), True),
            (Result(1, ""), True),
            (Result(124), False),
            (Result(1, "", "No journal files were found."), False),
        ],
    )
    def test_a_journal_that_does_not_answer_is_not_one_without_xids(self, answer: Result, known: bool) -> None:
        host = RecordedHost()
        host.on("journalctl", lambda h, argv, stdin: answer)
        xids = probe.observe_xids(host)
        assert (xids == ()) is known
        assert list(found(replace(healthy(), xids=xids))) == ([] if known else ["XIDs"])

    def test_nonfatal_nvlink_errors_are_left_out(self) -> None:
        line = "NVRM: Xid (PCI:0000:{}:00): 149, NETIR_LINK_EVT  {}   XC0 i0 Link 09 (0x025525c6 0x00000000)\n"
        assert probe.parse_xids(line.format("1b", "Nonfatal") + line.format("43", "Fatal")) == (Xid("0000:43:00.0", 149),)

    def test_devices_on_the_bus(self) -> None:
        host = RecordedHost()
        for address, vendor, code in (
            ("0000:1b:00.0", "10de", "030200"),
            ("0000:05:00.0", "10de", "030000"),
            ("0000:03:00.0", "1a03", "030000"),
        ):
            host.files[f"/sys/bus/pci/devices/{address}/vendor"] = f"0x{vendor}\n"
            host.files[f"/sys/bus/pci/devices/{address}/class"] = f"0x{code}\n"
        assert {d.pci: d.kind for d in probe.observe_bus(host)} == {"0000:1b:00.0": "gpu", "0000:05:00.0": "display"}


class TestC27:
    def test_a_program_that_ignores_term_is_killed_in_time(self, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
        began = time.monotonic()
        result = LocalHost().run([sys.executable, "-c", code], timeout_seconds=0.5)
        assert probe.parse_probe(result).state == "wedged" and time.monotonic() - began < 5

    def test_the_time_limit_leaves_room_within_15_seconds(self) -> None:
        assert probe.PROBE_TIMEOUT_SECONDS + 2 < 15

    def test_nothing_else_is_judged_from_a_node_that_does_not_answer(self) -> None:
        state = replace(healthy(), probe=Probe("wedged", message="no answer within 12 s"))
        assert found(state) == {"nvidia-smi": "no answer within 12 s"}


class TestJudgement:
    def test_a_healthy_host_has_no_findings(self) -> None:
        assert found(healthy()) == {}

    def test_c25_seven_of_eight_by_address(self) -> None:
        state = replace(healthy(), probe=Probe("lost", gpus(7), "GPU is lost"))
        says = found(state)
        assert says["GPUs"].startswith("7 (") and "not answering: 0000:df:00.0" in says["GPUs"]
        assert "GPU 0000:df:00.0" in says

    def test_c25_one_that_no_list_knows_is_still_counted(self) -> None:
        state = replace(healthy(), known=(), probe=Probe("ok", gpus(7)))
        assert list(found(state)) == ["GPUs"]

    def test_more_than_declared_is_a_matter_of_the_site_data(self) -> None:
        assert "GPUs" in found(healthy(), replace(EXPECTED, count=4))

    def test_module_and_library_differ(self) -> None:
        state = replace(healthy(), loaded="580.105.08", probe=Probe("mismatch", message="mismatch"))
        assert found(state) == {"GPU driver": "module 580.105.08 loaded and library 580.126.09 installed"}

    def test_a_working_driver_that_is_not_the_wanted_one_is_a_warning(self) -> None:
        state = replace(healthy(), loaded="580.105.08", libraries=("580.105.08",))
        assert [f.severity for f in judge(state, EXPECTED, "580.126.09", "active").findings] == ["warning"]
        assert [f.severity for f in judge(replace(state, libraries=()), EXPECTED, "580.126.09", "active").findings] == ["error"]

    def test_no_driver_and_nouveau_in_its_place(self) -> None:
        assert found(DriverState()) == {"GPU driver": "no driver loaded"}
        assert found(DriverState(nouveau=True)) == {"GPU driver": "nouveau loaded in its place"}

    def test_c29_two_models_in_one_node(self) -> None:
        mixed = (*gpus(7), Gpu(7, "GPU-7", "0000:df:00.0", "NVIDIA A100-SXM4-80GB", 81920))
        says = found(replace(healthy(), probe=Probe("ok", mixed)))
        assert "NVIDIA A100-SXM4-80GB at 0000:df:00.0" in says["GPU models"] and "GPU model" in says
        assert found(replace(healthy(), probe=Probe("ok", mixed)), replace(EXPECTED, mixed=True)) == {}

    @pytest.mark.parametrize("by", ["name", "bus"])
    def test_c29_display_adapters_do_not_count(self, by: str) -> None:
        name = "Quadro P400" if by == "name" else "NVIDIA RTX 2000"
        display = Gpu(8, "GPU-8", "0000:05:00.0", name, 2048)
        bus = (*(PciDevice(g.pci, "gpu") for g in gpus()), PciDevice("0000:05:00.0", "display"))
        state = replace(healthy(), bus=bus if by == "bus" else (), probe=Probe("ok", (*gpus(), display)))
        judged = judge(state, EXPECTED, "580.126.09", "active")
        assert judged.findings == [] and len(judged.compute) == 8

    def test_the_wrong_accelerator_or_memory(self) -> None:
        assert "GPU model" in found(replace(healthy(), probe=Probe("ok", gpus(8, "NVIDIA L40S", 46068))))
        assert "GPU model" in found(replace(healthy(), probe=Probe("ok", gpus(8, "NVIDIA H100 NVL", 95830))))
        l40s = replace(healthy(), probe=Probe("ok", gpus(8, "NVIDIA L40S", 46068)))
        assert found(l40s, Expected(8, "L40S", 48)) == {}

    @pytest.mark.parametrize("number", [48, 64, 74, 79, 95, 109, 119, 120, 140])
    def test_xids_that_take_a_reset(self, number: int) -> None:
        assert probe.fatal((Xid("0000:1b:00.0", number),))

    def test_a_fatal_xid_and_not_an_applications_or_a_remapped_row(self) -> None:
        assert found(replace(healthy(), xids=tuple(Xid("0000:1b:00.0", n) for n in (13, 31, 43, 45, 63, 94, 154)))) == {}
        assert found(replace(healthy(), xids=(Xid("0000:1b:00.0", 79),))) == {"GPU 0000:1b:00.0": "XID 79 since the last boot"}

    def test_switches_and_fabric_manager(self) -> None:
        assert found(replace(healthy(), switches=0), fabric=None) == {"NVSwitch": "none"}
        assert found(healthy(), fabric="failed") == {"fabric manager": "failed"}
