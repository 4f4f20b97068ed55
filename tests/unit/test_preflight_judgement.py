# SPDX-License-Identifier: Apache-2.0
"""Declared against found: the verdicts on whole machines, and on each thing that can be wrong or unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.nvme_volumes import LAYOUTS
from ansible_collections.bedplate.metal.plugins.module_utils.preflight import Preflight
from ansible_collections.bedplate.metal.plugins.module_utils.preflight_facts import PreflightDesired, public_facts
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.table import load_table
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.devices import load_devices
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.judge import judge
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.row import OK, UNKNOWN, Row, size
from fixtures_host import RecordedNetwork, debian
from hardware_machines import B200, H100, L40S, broken_h100, dgx_h100, h100_spec, hgx_b200, l40s_server

from recorded_host import RecordedHost

DESIRED = PreflightDesired(distributions=("debian-12",), report=True)


def facts(host: RecordedHost) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(public_facts(Preflight(RecordedNetwork()).observe(host, DESIRED), None)))
    return found


def verdicts(spec: dict[str, Any], host: RecordedHost) -> dict[str, Row]:
    return {row.what: row for row in judge(spec, facts(host), [])}


def not_ok(rows: dict[str, Row]) -> dict[str, str]:
    assert all(row.next_step for row in rows.values() if row.verdict != OK), "what is not ok names its next step"
    return {row.what: row.verdict for row in rows.values() if row.verdict != OK}


@pytest.mark.parametrize(("spec", "build"), [(H100, dgx_h100), (B200, hgx_b200)], ids=["h100", "b200"])
def test_a_machine_as_declared_is_ok_in_every_row(spec: dict[str, Any], build: Callable[[], RecordedHost]) -> None:
    rows = verdicts(spec, build())
    assert not_ok(rows) == {}
    wanted = {"operating system", "kernel", "CPUs", "NUMA nodes", "memory", "memory modules", "GPUs", "GPU model"}
    wanted |= {
        "GPU PCIe links",
        "GPU BAR1",
        "GPU kernel driver",
        "NVSwitches",
        "NIC mlx5_0",
        "GPU–NIC affinity",
        "PCIe access control (ACS)",
    }
    assert wanted | {"NVMe disks of scratch"} <= set(rows)


def test_every_fault_of_the_broken_machine_is_named_with_its_place() -> None:
    rows = verdicts(H100, broken_h100())
    faults = ["memory", "GPUs", "GPU PCIe links", "NVSwitches", "NIC mlx5_3", "GPU–NIC affinity", "PCIe access control (ACS)"]
    assert not_ok(rows) == dict.fromkeys(faults, "differs")
    assert (rows["GPUs"].declared, rows["GPUs"].found) == ("8", "7")
    assert rows["GPU PCIe links"].found == "0000:43:00.0 8 GT/s x8 of 32 GT/s x16"
    assert "far: 0000:df:00.0 NODE" in rows["GPU–NIC affinity"].found
    assert rows["NIC mlx5_3"].found.endswith("link is down")
    assert rows["NVSwitches"].found == "3"
    assert rows["PCIe access control (ACS)"].found.startswith("on at 0000:15:01.0, ")
    assert rows["memory"].found == "1.94 TiB of 1.94 TiB installed"


def test_the_slow_link_of_an_idle_gpu_is_unknown_and_of_one_without_a_driver_differs() -> None:
    rows = verdicts(L40S, l40s_server())
    assert not_ok(rows) == {"GPU PCIe links": UNKNOWN} and "while the GPUs work" in rows["GPU PCIe links"].next_step
    host = l40s_server()
    host.files = {path: text.replace("DRIVER=nvidia\n", "") for path, text in host.files.items()}
    assert not_ok(verdicts(L40S, host)) == {"GPU PCIe links": "differs"}


def test_a_fast_gpu_in_a_slower_machine_is_ok() -> None:
    host = dgx_h100()
    for path in [path for path in host.files if "link_speed" in path]:
        if "current" in path or "/0000:17:02.0/max_link" in path:
            host.files[path] = "16.0 GT/s PCIe\n"
    rows = verdicts(H100, host)
    assert "0000:1b:00.0" not in rows["GPU PCIe links"].found and "0000:43:00.0" in rows["GPU PCIe links"].found


class TestGpus:
    def test_another_model_differs_and_an_unknown_one_is_looked_up(self) -> None:
        rows = verdicts({**H100, "accelerator": "h200-141gb"}, dgx_h100())
        assert (rows["GPU model"].verdict, rows["GPU model"].found) == ("differs", "8 × NVIDIA H100 SXM5 80GB")
        host = dgx_h100()
        host.files = {path: text.replace("10DE:2330", "10DE:2999") for path, text in host.files.items()}
        rows = verdicts(H100, host)
        assert rows["GPU model"].verdict == UNKNOWN and "8 × 10de:2999" in rows["GPU model"].found

    def test_more_than_declared(self) -> None:
        rows = verdicts({**H100, "gpus_per_node": 4, "topology": "4gpu-sxm-nvlink"}, dgx_h100())
        assert not_ok(rows).keys() >= {"GPUs", "NVSwitches"} and "pool of its own" in rows["GPUs"].next_step

    def test_one_that_fell_off_the_bus(self) -> None:
        host = broken_h100()
        host.files["/proc/driver/nvidia/gpus/0000:d1:00.0/information"] = "Model: \t NVIDIA H100 80GB HBM3\n"
        assert verdicts(H100, host)["GPUs"].found == "7, and 0000:d1:00.0 fell off the bus"

    def test_gpus_that_only_a_driver_shows_are_counted_and_the_rest_is_unknown(self) -> None:
        host = debian()
        for bus in range(8):
            host.files[f"/proc/driver/nvidia/gpus/0000:{bus}b:00.0/information"] = "Model: \t NVIDIA H100 80GB HBM3\n"
        rows = verdicts({**H100, "nics": [], "nvme": {}, "cpus": None, "memory": None, "numa_nodes": None, "kernel": None}, host)
        assert (rows["GPUs"].verdict, rows["GPU model"].verdict) == (OK, OK)
        assert not_ok(rows) == {"GPU PCIe links": UNKNOWN, "GPU BAR1": UNKNOWN, "NVSwitches": UNKNOWN}

    def test_a_window_that_the_firmware_did_not_assign(self) -> None:
        host = dgx_h100()
        path = next(path for path in host.files if path.endswith("0000:1b:00.0/resource"))
        host.files[path] = "0x00000000d0000000 0x00000000d0ffffff 0x0\n" + "0x0 0x0 0x0\n" * 5
        rows = verdicts(H100, host)
        assert not_ok(rows) == {"GPU BAR1": "differs"} and "none for 0000:1b:00.0" in rows["GPU BAR1"].found
        assert "4G" in rows["GPU BAR1"].next_step

    def test_nouveau_is_named(self) -> None:
        host = dgx_h100()
        host.files = {path: text.replace("DRIVER=nvidia\n", "DRIVER=nouveau\n") for path, text in host.files.items()}
        assert "0000:1b:00.0: nouveau" in verdicts(H100, host)["GPU kernel driver"].found


class TestNics:
    def test_names_of_rails_take_the_cards_that_suit(self) -> None:
        nics = [{"name": f"rail{n}", "fabric": "infiniband", "speed_gbps": 400} for n in range(9)]
        rows = verdicts({**H100, "nics": nics}, dgx_h100())
        assert not_ok(rows) == {"NIC rail8": "differs"}
        assert len({rows[f"NIC rail{n}"].found for n in range(8)}) == 8, "no card is taken twice"

    def test_too_slow_and_of_the_wrong_kind(self) -> None:
        slow: dict[str, Any] = {"name": "eno1", "fabric": "ethernet", "speed_gbps": 100}
        nics = [slow, {"name": "mlx5_0", "fabric": "roce", "speed_gbps": None}]
        rows = verdicts({**H100, "nics": nics}, dgx_h100())
        assert not_ok(rows) == {"NIC eno1": "differs", "NIC mlx5_0": "differs"}
        assert "LINK_TYPE" in rows["NIC mlx5_0"].next_step

    def test_a_card_that_does_not_say_its_speed(self) -> None:
        host = dgx_h100()
        del host.files[next(path for path in host.files if path.endswith("net/eno1/speed"))]
        assert not_ok(verdicts(H100, host)) == {"NIC eno1": UNKNOWN}

    def test_no_card_of_the_fabric_and_no_bus_at_all(self) -> None:
        rows = verdicts({**H100, "fabric": "roce", "nics": []}, dgx_h100())
        assert not_ok(rows) == {"GPU–NIC affinity": "differs"}
        assert verdicts(H100, debian())["NIC eno1"].verdict == UNKNOWN

    def test_ethernet_pools_are_not_judged_by_affinity(self) -> None:
        assert not {"GPU–NIC affinity", "PCIe access control (ACS)"} & set(verdicts(L40S, l40s_server()))


class TestMachine:
    @pytest.mark.parametrize(("memory", "verdict"), [("2Ti", OK), ("2000Gi", OK), ("1Ti", "differs"), ("4Ti", "differs")])
    def test_memory_is_what_is_installed_less_what_kernel_and_firmware_keep(self, memory: str, verdict: str) -> None:
        host = dgx_h100()
        del host.handlers["dmidecode"]
        assert verdicts({**H100, "memory": memory}, host)["memory"].verdict == verdict

    def test_a_missing_module_shows_without_dmidecode_too(self) -> None:
        host = broken_h100()
        del host.handlers["dmidecode"]
        rows = verdicts(H100, host)
        assert rows["memory"].verdict == "differs" and "memory modules" not in rows

    def test_cpus_kernel_and_system(self) -> None:
        spec = {**H100, "cpus": 112, "numa_nodes": 8, "os": "ubuntu-24.04", "kernel": "6.1.14"}
        assert set(not_ok(verdicts(spec, dgx_h100()))) == {"CPUs", "NUMA nodes", "operating system", "kernel"}
        assert verdicts(H100, dgx_h100())["kernel"].found == "6.1.0, built as 6.1.140-1"
        assert verdicts({**H100, "kernel": "6.1.0"}, dgx_h100())["kernel"].found == "6.1.0"

    def test_a_container_shows_no_numa_nodes(self) -> None:
        assert verdicts(H100, debian())["NUMA nodes"].verdict == UNKNOWN


class TestDisks:
    @staticmethod
    def row(layout: str, **rule: object) -> Row:
        volume = {"disks": {"serials": [], "min_size": None, "model": None, **rule}, "layout": layout, "mount": "/scratch"}
        return verdicts({**H100, "nvme": {"scratch": volume}}, dgx_h100())["NVMe disks of scratch"]

    def test_a_serial_that_is_not_there(self) -> None:
        row = self.row("raid0", serials=["S6CKDATA1", "S6CKGONE"])
        assert row.verdict == "differs" and row.found == "1 × 3.49 TiB blank; absent: S6CKGONE"

    def test_the_disk_of_the_system_is_never_a_volumes(self) -> None:
        assert "S6CKOS1 carries the system" in self.row("single", serials=["S6CKOS1"]).next_step
        assert self.row("raid10", min_size="1T").found == "3 × 3.49 TiB blank; 1 × 3.49 TiB ext4"

    def test_a_rule_that_too_few_disks_match(self) -> None:
        assert self.row("raid1", model="samsung").verdict == OK
        assert self.row("raid1", min_size="10T").found == "none"
        assert self.row("raid0", min_size="1T", count=8).next_step.startswith("raid0 needs 8 disks")

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_each_layout_of_volumes_is_judged(self, layout: str) -> None:
        assert self.row(layout, min_size="1T").verdict == OK
        assert self.row(layout, serials=["S6CKDATA1", "S6CKDATA2"]).verdict == OK


def test_a_host_without_gpus_has_what_preflight_objects_to_and_nothing_else() -> None:
    problem = {"what": "clock", "found": "7 s ahead", "wanted": "within 5 s", "next_step": "set it", "severity": "error"}
    assert judge({}, facts(debian()), [problem]) == [Row("clock", "within 5 s", "7 s ahead", "differs", "set it")]
    assert [row.verdict for row in judge({}, facts(debian()), [])] == [OK]


def test_the_devices_table_names_every_accelerator_of_the_compatibility_table() -> None:
    devices = load_devices()
    assert set(devices.accelerators.values()) == set(load_table().accelerators)
    assert all(len(device) == 9 and device == device.lower() for device in devices.names)


def test_sizes() -> None:
    assert [size(n) for n in (0, 2048, 3 * 1024**3, 3840 * 10**9)] == ["0 B", "2 KiB", "3 GiB", "3.49 TiB"]


def test_specs_of_the_fixtures_have_the_keys_that_the_site_derives() -> None:
    from ansible_collections.bedplate.metal.plugins.plugin_utils.site.model_pool import GpuPool

    assert set(h100_spec()) <= set(GpuPool.model_fields)
