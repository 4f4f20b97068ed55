# SPDX-License-Identifier: Apache-2.0
"""Machines that are not here, as the files their kernels would show; written by hand from public documentation.

- DGX H100/H200 User Guide: PCI addresses of GPUs, NVSwitches and ConnectX-7
- NVIDIA Fabric Manager User Guide: baseboards, functions that manage NVSwitches
- kernel ABI documentation: sysfs-bus-pci, sysfs-class-infiniband, sysfs-class-net
- SMBIOS 3 as dmidecode prints it; The PCI ID Repository

A machine is a text with a device per line and its depth by indentation::

    pci0000:15 numa=0
      01.0 bridge
        16:00.0 bridge

Words after the address name the kind (``bridge``, ``h100``, …) and its attributes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from fixtures_host import debian

from recorded_host import RecordedHost

GIB = 1024**3
KINDS = {
    "bridge": "class=60400 id=1000:c030 max=32x16",
    "plainbridge": "class=60400 id=8086:352a max=32x16 acs=none",
    "h100": "class=30200 id=10de:2330 max=32x16 bar=128",
    "b200": "class=30200 id=10de:2901 max=32x16 bar=256",
    "l40s": "class=30200 id=10de:26b9 max=16x16 bar=64",
    "nvswitch": "class=68000 id=10de:22a3 max=16x2",
    "cx7": "class=20700 id=15b3:1021 max=32x16 driver=mlx5_core layer=InfiniBand rate=400 vfs=16",
    "cx7eth": "class=20000 id=15b3:1021 max=32x16 driver=mlx5_core layer=Ethernet rate=200 vfs=16",
    "manager": "class=20700 id=15b3:1021 max=32x2 driver=mlx5_core layer=InfiniBand rate=400 vpd=SMDL=SW_MNG",
    "x550": "class=20000 id=8086:1563 max=8x4 driver=ixgbe rate=10",
    "nvme": "class=10802 id=144d:a80a max=16x4 driver=nvme",
}


def config_space(acs: str) -> str:
    """Return a bridge's configuration space, a character a byte: no ACS capability, or one that redirects (on) or not (off)."""
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x148 << 20)  # advanced error reporting, then what follows
    if acs != "none":
        struct.pack_into("<IHH", space, 0x148, 0x000D | 1 << 16, 0x001F, 0x001D if acs == "on" else 0)
    return space.decode("latin-1")


@dataclass
class Tree:
    """Builds the files of a machine. acs: of bridges that do not say. bound: driver of the GPUs."""

    text: str
    acs: str = "off"
    bound: str = ""
    files: dict[str, str] = field(default_factory=dict)

    def build(self) -> dict[str, str]:
        """Return the files by path."""
        above: list[tuple[int, str, str]] = []
        for line in self.text.splitlines():
            if line.strip():
                depth = len(line) - len(line.lstrip())
                above = [entry for entry in above if entry[0] < depth]
                above.append(self._device(depth, line.split(), above))
        return self.files

    def _device(self, depth: int, words: list[str], above: list[tuple[int, str, str]]) -> tuple[int, str, str]:
        name, *more = words
        if name.startswith("pci"):
            return depth, f"/sys/devices/{name}", dict(word.split("=") for word in more).get("numa", "-1")
        _depth, parent, numa = above[-1]
        kind, *given = more
        says = dict(word.split("=", 1) for word in [*KINDS[kind].split(), *given])
        bus = above[0][1].rpartition("/")[2].removeprefix("pci")
        address = f"{bus}:{name}" if name.count(":") == 0 else f"0000:{name}"
        path = f"{parent}/{address}"
        self._write(path, kind, address, {"numa": numa, **says})
        return depth, path, says.get("numa", numa)

    def _write(self, path: str, kind: str, address: str, says: dict[str, str]) -> None:
        driver = says.get("driver") or (self.bound if kind in ("h100", "b200", "l40s") else "")
        lines = [f"DRIVER={driver}"] * bool(driver) + [f"PCI_CLASS={says['class']}", f"PCI_ID={says['id'].upper()}"]
        most, current = says["max"], says.get("link", says["max"])
        self.files[f"{path}/uevent"] = "\n".join([*lines, f"PCI_SLOT_NAME={address}", ""])
        self.files[f"{path}/numa_node"] = f"{says['numa']}\n"
        for which, link in (("current", current), ("max", most)):
            speed, width = link.split("x")
            self.files[f"{path}/{which}_link_speed"] = f"{float(speed)} GT/s PCIe\n"
            self.files[f"{path}/{which}_link_width"] = f"{width}\n"
        if says["class"] == "60400":
            self.files[f"{path}/config"] = config_space(says.get("acs", self.acs))
        if "bar" in says:
            self.files[f"{path}/resource"] = spaces(int(says["bar"]) * GIB)
        if "vfs" in says:
            self.files |= {f"{path}/sriov_totalvfs": f"{says['vfs']}\n", f"{path}/sriov_numvfs": "0\n"}
        if "vpd" in says:
            self.files[f"{path}/vpd"] = f"\x82\x10ConnectX-7\x90{says['vpd']}"
        if says["class"].startswith("20"):
            self._card(path, says)
        if kind == "nvme":
            self._disk(address, says)

    def _card(self, path: str, says: dict[str, str]) -> None:
        up, rate = says.get("state", "up") == "up", says.get("rate")
        if "net" in says:
            self.files |= {f"{path}/net/{says['net']}/operstate": "up\n" if up else "down\n"}
            self.files |= {f"{path}/net/{says['net']}/speed": f"{int(rate) * 1000}\n"} if up and rate else {}
        if "rdma" in says:
            port = f"{path}/infiniband/{says['rdma']}/ports/1"
            self.files |= {f"{port}/link_layer": f"{says['layer']}\n", f"{port}/rate": f"{rate} Gb/sec (4X NDR)\n"}
            self.files[f"{port}/state"] = "4: ACTIVE\n" if up else "1: DOWN\n"

    def _disk(self, address: str, says: dict[str, str]) -> None:
        name, controller = says["name"], says["name"].partition("n1")[0]
        number = f"259:{len(self.files)}"
        base, block = f"/sys/class/nvme/{controller}", f"/sys/block/{name}"
        self.files |= {f"{base}/serial": f"{says['serial']}  \n", f"{base}/model": "SAMSUNG MZWLO3T8HCLS  \n"}
        self.files |= {f"{base}/address": f"{address}\n", f"{base}/{name}/size": "1\n"}
        self.files |= {f"{block}/size": f"{int(says.get('gb', '3840')) * 10**9 // 512}\n", f"{block}/dev": f"{number}\n"}
        self.files[f"/run/udev/data/b{number}"] = "E:DEVTYPE=disk\n" + "".join(
            f"E:ID_{key}_TYPE={says[word]}\n" for word, key in (("fs", "FS"), ("table", "PART_TABLE")) if word in says
        )
        for part in range(1, int(says.get("parts", "0")) + 1):
            self.files[f"{block}/{name}p{part}/dev"] = f"259:{len(self.files)}\n"
        if "holder" in says:
            self.files[f"{block}/holders/{says['holder']}/x"] = ""


def spaces(window: int) -> str:
    """Return ``resource``: 16 MiB of registers, the window to memory, 32 MiB more; each of 64 bits, which takes two lines."""
    lines, start = [], 0x4A000000000
    for number in (16 * 1024**2, window, 32 * 1024**2):
        lines += [f"0x{start:016x} 0x{start + number - 1:016x} 0x000000000014220c" if number else "0x0 0x0 0x0", "0x0 0x0 0x0"]
    return "\n".join(lines) + "\n"


def processors(sockets: int, cores: int, model: str) -> str:
    """Return /proc/cpuinfo of processors with two threads a core."""
    blocks = []
    for thread in range(sockets * cores * 2):
        socket, core = divmod(thread % (sockets * cores), cores)
        blocks.append(f"processor\t: {thread}\nmodel name\t: {model}\nphysical id\t: {socket}\ncore id\t\t: {core}\n")
    return "\n".join(blocks)


def machine(
    tree: Tree, files: Mapping[str, str], *, sockets: int = 2, cores: int = 56, memory_kb: int = 2113410760
) -> RecordedHost:
    """Return the host of a tree, with two NUMA nodes for two sockets."""
    numa = {f"/sys/devices/system/node/node{n}/cpulist": f"{n * cores}-{(n + 1) * cores - 1}\n" for n in range(sockets)}
    return debian(
        **{
            "/proc/cpuinfo": processors(sockets, cores, "Intel(R) Xeon(R) Platinum 8480C"),
            "/proc/meminfo": f"MemTotal:       {memory_kb} kB\n",
            "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=1 ro iommu=pt\n",
            "/proc/version": "Linux version 6.1.0-37-amd64 (x@y) (gcc) #1 SMP Debian 6.1.140-1 (2025-05-22)\n",
            "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\x00\x00\x00\x00",
            "/sys/firmware/dmi/entries/38-0/raw": "",
            **{f"/sys/kernel/iommu_groups/{number}/type": "identity\n" for number in range(96)},
            **numa,
            **tree.build(),
            **files,
        }
    )


def dmi(vendor: str, product: str) -> dict[str, str]:
    """Return what the firmware says of the machine."""
    values = {"sys_vendor": vendor, "product_name": product, "bios_version": "1.1.3", "bios_date": "06/20/2025"}
    return {f"/sys/class/dmi/id/{name}": f"{value}\n" for name, value in values.items()}


def dimms(count: int, gigabytes: int, speed: int) -> str:
    """Return ``dmidecode --type 17`` of modules of one kind and a slot that is empty."""
    one = "Handle 0x0{0:03x}, DMI type 17, 92 bytes\nMemory Device\n\tTotal Width: 80 bits\n\tSize: {1} GB\n"
    one += "\tSpeed: 5600 MT/s\n\tConfigured Memory Speed: {2} MT/s\n\tVolatile Size: {1} GB\n"
    empty = "Handle 0x0999, DMI type 17, 92 bytes\nMemory Device\n\tSize: No Module Installed\n\tConfigured Memory Speed: Unknown"
    return "\n".join([*(one.format(number, gigabytes, speed) for number in range(count)), empty])
