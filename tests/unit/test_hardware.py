# SPDX-License-Identifier: Apache-2.0
"""What machines are made of, read from the files their kernels show."""

from __future__ import annotations

import errno

from ansible_collections.bedplate.metal.plugins.module_utils.hardware import Hardware, observe_hardware
from ansible_collections.bedplate.metal.plugins.module_utils.hardware_disks import parse_mounts
from ansible_collections.bedplate.metal.plugins.module_utils.hardware_machine import Dimms, parse_dimms, parse_processors
from ansible_collections.bedplate.metal.plugins.module_utils.hardware_pci import (
    Function,
    Link,
    level,
    parse_acs,
    parse_spaces,
    parse_speed,
    parse_width,
)
from fixtures_host import debian
from hardware_machines import H100_RAILS, broken_h100, dgx_h100, hgx_b200, l40s_server
from hardware_trees import GIB, Tree, config_space, dimms, machine, processors

from recorded_host import RecordedHost


def observed(host: RecordedHost) -> Hardware:
    found = observe_hardware(host)
    assert host.changes == 0
    return found


def test_an_sxm_machine_is_read_whole_by_files_and_one_command() -> None:
    host = dgx_h100()
    found = observed(host)
    assert [gpu.address for gpu in found.gpus] == [f"0000:{gpu}:00.0" for gpu, _card in H100_RAILS]
    assert {(gpu.id, gpu.driver, gpu.bar1_bytes, gpu.link) for gpu in found.gpus} == {
        ("10de:2330", "nvidia", 128 * GIB, Link(32.0, 16, 32.0, 16))
    }
    assert [gpu.numa_node for gpu in found.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert found.nvswitches == tuple(f"0000:0{bus}:00.0" for bus in (5, 6, 7, 8))
    cards = {nic.rdma: nic for nic in found.nics if nic.rdma}
    assert len(cards) == 8 and {(c.link_type, c.speed_gbps, c.up, c.virtual_functions) for c in cards.values()} == {
        ("infiniband", 400.0, True, (0, 16))
    }
    assert (found.machine.processors.sockets, found.machine.processors.cores, found.machine.processors.threads) == (2, 112, 224)
    assert found.machine.numa_nodes == {"0": "0-55", "1": "56-111"}
    assert found.machine.dimms == (Dimms(32, 64 * GIB, 4800),)
    assert (found.machine.firmware.secure_boot, found.machine.firmware.bmc) == ("off", True)
    assert (found.machine.iommu.kind, found.machine.iommu.options) == ("identity", ("iommu=pt",))
    assert host.commands == [["dmidecode", "--type", "17"]]


def test_every_gpu_has_the_card_behind_its_own_switch_nearest() -> None:
    found = observed(dgx_h100())
    for gpu, card in H100_RAILS:
        ways = found.affinity[f"0000:{gpu}:00.0"]
        assert [nic for nic, way in ways.items() if way == "PIX"] == [f"0000:{card}:00.0"]
    ways = found.affinity["0000:1b:00.0"]
    assert (ways["0000:40:00.0"], ways["0000:9a:00.0"]) == ("NODE", "SYS")


def test_cards_that_manage_nvswitches_are_no_cards_of_the_fabric() -> None:
    found = observed(hgx_b200())
    managers = [nic.address for nic in found.nics if nic.link_type == "nvlink"]
    assert managers == ["0000:eb:00.0", "0000:ec:00.0", "0000:ed:00.0", "0000:ee:00.0"]
    assert found.nvswitches == () and not set(managers) & set(found.affinity["0000:1b:00.0"])


def test_gpus_in_slots_reach_a_card_of_their_socket_through_the_host_bridge() -> None:
    found = observed(l40s_server())
    assert [ways["0000:25:00.0"] for ways in found.affinity.values()] == ["PHB", "PHB", "SYS", "SYS"]
    assert (found.nics[0].link_type, found.nics[0].speed_gbps) == ("roce", 100.0)


def test_what_is_broken_is_seen() -> None:
    found = observed(broken_h100())
    assert len(found.gpus) == 7 and len(found.nvswitches) == 3
    assert {gpu.address: gpu.link for gpu in found.gpus}["0000:43:00.0"] == Link(8.0, 8, 32.0, 16)
    assert found.affinity["0000:df:00.0"]["0000:39:00.0"] == "SYS"
    assert set(found.acs.values()) == {True} and set(observed(dgx_h100()).acs.values()) == {False}
    down = next(nic for nic in found.nics if nic.rdma == "mlx5_3")
    assert (down.up, down.speed_gbps) == (False, None)


class TestDisks:
    def test_content_is_told_without_opening_a_disk(self) -> None:
        disks = {disk.serial: disk for disk in observed(dgx_h100()).disks}
        assert disks["S6CKOS1"].carries == ("gpt", "part of md0, mounted at /", "2 partitions")
        assert (disks["S6CKDATA1"].blank, disks["S6CKDATA1"].size_bytes) == (True, 3840 * 10**9)
        assert (disks["S6CKDATA3"].blank, disks["S6CKDATA3"].carries) == (False, ("ext4",))

    def test_a_disk_that_udev_does_not_know_is_not_called_blank(self) -> None:
        host = dgx_h100()
        for path in [path for path in host.files if path.startswith("/run/udev")]:
            del host.files[path]
        disks = {disk.serial: disk for disk in observed(host).disks}
        assert disks["S6CKDATA1"].blank is None and disks["S6CKOS1"].blank is False

    def test_a_disk_of_several_paths_is_one_disk(self) -> None:
        base = "/sys/class/nvme-subsystem/nvme-subsys3"
        host = debian(
            **{
                "/sys/class/nvme/nvme0/serial": "S1\n",
                "/sys/class/nvme/nvme0/nvme3c0n1/size": "1\n",
                **{f"{base}/{name}/x": "" for name in ("nvme0", "nvme3n1")},
                "/sys/block/nvme3n1/size": "2000\n",
            }
        )
        assert [(disk.name, disk.serial, disk.size_bytes) for disk in observed(host).disks] == [("nvme3n1", "S1", 1024000)]

    def test_mounts(self) -> None:
        assert parse_mounts("/dev/sda1 /a\\040b ext4 rw 0 0\nproc /proc proc rw 0 0\n") == {"/dev/sda1": ["/a b"]}


class TestWhatAHostDoesNotShow:
    def test_a_container_shows_little_and_nothing_is_made_up(self) -> None:
        found = observed(debian())
        assert (found.pci, found.gpus, found.nics, found.disks) == (False, (), (), ())
        assert (found.machine.firmware.secure_boot, found.machine.firmware.bmc) == (None, None)
        assert (found.machine.numa_nodes, found.machine.dimms) == (None, None)

    def test_gpus_that_only_the_driver_lists_are_listed(self) -> None:
        files = {"/proc/driver/nvidia/gpus/0000:1b:00.0/information": "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 1\n"}
        (gpu,) = observed(debian(**files)).gpus
        assert (gpu.address, gpu.model, gpu.on_bus) == ("0000:1b:00.0", "NVIDIA H100 80GB HBM3", False)

    def test_a_refusal_is_kept_with_its_reason(self) -> None:
        class Refusing(RecordedHost):
            def read_bytes(self, path: str, size: int) -> bytes | None:
                raise PermissionError(errno.EACCES, "Permission denied", path)

            def read(self, path: str) -> str | None:
                if path.endswith("/speed"):
                    raise OSError(errno.EINVAL, "Invalid argument", path)
                return super().read(path)

        host = dgx_h100()
        found = observed(Refusing(files=host.files))
        assert set(found.acs.values()) == {None}
        assert set(found.refused.values()) == {"Permission denied"}
        assert all(path.endswith("/config") or "SecureBoot" in path for path in found.refused)
        assert next(nic for nic in found.nics if nic.interface == "eno1").speed_gbps is None

    def test_virtual_functions_are_no_cards(self) -> None:
        tree = Tree("pci0000:15 numa=0\n  01.0 bridge\n    18:00.0 cx7 rdma=mlx5_0\n    18:00.1 cx7 rdma=mlx5_1\n")
        files = tree.build()
        files["/sys/devices/pci0000:15/0000:15:01.0/0000:18:00.1/physfn/uevent"] = ""
        assert [nic.rdma for nic in observed(debian(**files)).nics] == ["mlx5_0"]

    def test_a_service_of_a_port_is_no_function(self) -> None:
        files = Tree("pci0000:15 numa=0\n  01.0 bridge\n    18:00.0 x550 net=eno1\n").build()
        files["/sys/devices/pci0000:15/0000:15:01.0/0000:15:01.0:pcie001/uevent"] = "DRIVER=pcieport\n"
        assert [nic.address for nic in observed(debian(**files)).nics] == ["0000:18:00.0"]


class TestLevel:
    @staticmethod
    def function(*way: str, numa: int | None = 0) -> Function:
        return Function("x", "10de:1", "0302", "", way, numa_node=numa)

    def test_two_switches_one_below_the_other(self) -> None:
        gpu = self.function("pci0000:15", "root", "up", "down1", "up2", "down2")
        assert level(gpu, self.function("pci0000:15", "root", "up", "down3"), 2) == "PXB"
        assert level(gpu, self.function("pci0000:15", "root", "up", "down1", "up2", "down4"), 2) == "PIX"

    def test_numa_nodes_that_the_firmware_does_not_name(self) -> None:
        one, other = self.function("pci0000:15", "a", numa=None), self.function("pci0000:40", "b", numa=None)
        assert (level(one, other, 1), level(one, other, 2), level(one, other, None)) == ("NODE", None, None)


def test_values_that_say_nothing() -> None:
    assert (parse_speed("Unknown"), parse_speed("8 GT/s"), parse_speed(None)) == (None, 8.0, None)
    assert (parse_width("255"), parse_width("0"), parse_width("8"), parse_width(None)) == (None, None, 8, None)
    assert parse_spaces("0x0000000000000000 0x0000000000000000 0x0\n" * 7) == (0,) * 6


def test_access_control_of_bridges_without_it_and_of_a_short_configuration() -> None:
    def space(acs: str) -> bytes:
        return config_space(acs).encode("latin-1")

    assert [parse_acs(space(acs)) for acs in ("on", "off", "none")] == [True, False, False]
    assert (parse_acs(space("on")[:64]), parse_acs(None)) == (None, None)
    looping = bytearray(4096)
    looping[0x100:0x104] = (0x0001 | 1 << 16 | 0x100 << 20).to_bytes(4, "little")
    assert parse_acs(bytes(looping)) is False


def test_processors_and_modules() -> None:
    assert parse_processors(processors(1, 2, "AMD  EPYC 9654")).model == "AMD EPYC 9654"
    assert parse_processors("processor : 0\nBogoMIPS : 50\n\nprocessor : 1\n").threads == 2
    assert parse_dimms(dimms(2, 32, 4400)) == (Dimms(2, 32 * GIB, 4400),)
    assert parse_dimms("# dmidecode 3.4\nScanning /dev/mem for entry point.\n") is None


def test_a_machine_booted_without_uefi() -> None:
    host = machine(Tree(""), {"/sys/class/dmi/id/sys_vendor": "QEMU\n"})
    host.files = {path: text for path, text in host.files.items() if not path.startswith("/sys/firmware")}
    assert observed(host).machine.firmware.secure_boot == "no UEFI"
