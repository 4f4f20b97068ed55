# SPDX-License-Identifier: Apache-2.0
"""Four machines for the preflight report: as they should be, and one that is not. See hardware_trees.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from hardware_trees import GIB, Tree, dimms, dmi, machine

from recorded_host import RecordedHost

H100_RAILS = (("1b", "18"), ("43", "40"), ("52", "4f"), ("61", "5e"), ("9d", "9a"), ("c3", "c0"), ("d1", "ce"), ("df", "dc"))
"""Buses of GPU and ConnectX-7 behind the same switch; the first four belong to socket 0 (DGX H100/H200 User Guide)."""
SWITCHES = """\
pci0000:00 numa=0
  01.0 bridge
    02:00.0 bridge
      03:00.0 bridge
        05:00.0 nvswitch
      03:01.0 bridge
        06:00.0 nvswitch
      03:02.0 bridge
        07:00.0 nvswitch
      03:03.0 bridge
        08:00.0 nvswitch
  1c.0 bridge
    0b:00.0 x550 net=eno1 rate=25
"""
DISKS = """\
pci0000:a2 numa=1
  01.0 bridge
    a3:00.0 nvme name=nvme0n1 serial=S6CKOS1 gb=1920 table=gpt parts=2 holder=md0
  02.0 bridge
    a4:00.0 nvme name=nvme1n1 serial=S6CKOS2 gb=1920 table=gpt parts=2 holder=md0
  03.0 bridge
    a5:00.0 nvme name=nvme2n1 serial=S6CKDATA1
  04.0 bridge
    a6:00.0 nvme name=nvme3n1 serial=S6CKDATA2
  05.0 bridge
    a7:00.0 nvme name=nvme4n1 serial=S6CKDATA3 fs=ext4
  06.0 bridge
    a8:00.0 nvme name=nvme5n1 serial=S6CKDATA4
"""
MANAGERS = """\
pci0000:e8 numa=1
  01.0 bridge
    e9:00.0 bridge
      ea:00.0 bridge
        eb:00.0 manager rdma=mlx5_8
      ea:01.0 bridge
        ec:00.0 manager rdma=mlx5_9
      ea:02.0 bridge
        ed:00.0 manager rdma=mlx5_10
      ea:03.0 bridge
        ee:00.0 manager rdma=mlx5_11
"""
MD = {"/sys/block/md0/size": "1\n", "/proc/mounts": "/dev/md0 / ext4 rw 0 0\nproc /proc proc rw 0 0\n"}


def before(bus: str, number: int) -> str:
    """Return the bus some numbers below another."""
    return f"{int(bus, 16) - number:02x}"


def rail(number: int, gpu: str, card: str, *, kind: str = "h100", more: str = "", numa: int | None = None) -> str:
    """Return the tree of a GPU and its card behind one switch. more: attributes of the GPU, "absent" for none."""
    node = number // 4 if numa is None else numa
    up, down = before(card, 2), before(card, 1)
    below = "" if more == "absent" else f"      {down}:02.0 bridge\n        {gpu}:00.0 {kind} {more}\n"
    return (
        f"pci0000:{before(card, 3)} numa={node}\n  01.0 bridge\n    {up}:00.0 bridge\n      {down}:00.0 bridge\n"
        f"        {card}:00.0 cx7 rdma=mlx5_{number} net=ibp{int(card, 16)}s0\n{below}"
    )


def rails(kind: str = "h100", buses: Sequence[tuple[str, str]] = H100_RAILS) -> str:
    return "".join(rail(number, gpu, card, kind=kind) for number, (gpu, card) in enumerate(buses))


def with_dimms(host: RecordedHost, count: int, gigabytes: int, speed: int = 4800) -> RecordedHost:
    host.on("dmidecode", lambda _host, _argv, _stdin: Result(0, dimms(count, gigabytes, speed)))
    return host


def dgx_h100() -> RecordedHost:
    """Eight H100 SXM, four NVSwitches, eight ConnectX-7 of 400 Gb/s, 2 TiB."""
    tree = Tree(rails() + SWITCHES + DISKS, bound="nvidia")
    return with_dimms(machine(tree, {**MD, **dmi("NVIDIA", "DGXH100")}), 32, 64)


def hgx_b200() -> RecordedHost:
    """Eight B200 before a driver; their NVSwitches are no PCI devices, four ConnectX functions manage them."""
    tree = Tree(rails("b200") + MANAGERS + DISKS)
    return with_dimms(machine(tree, {**MD, **dmi("Supermicro", "SYS-A22GA-NBRT")}), 32, 64)


def l40s_server() -> RecordedHost:
    """Four L40S in slots, two behind each of two switches, one of them idle; Ethernet; 512 GiB."""
    text = """\
pci0000:20 numa=0
  01.0 bridge
    21:00.0 bridge
      22:00.0 bridge
        23:00.0 l40s link=2.5x16
      22:01.0 bridge
        24:00.0 l40s
  02.0 bridge
    25:00.0 cx7eth net=ens5f0np0 rdma=mlx5_0 rate=100
pci0000:80 numa=1
  01.0 bridge
    81:00.0 bridge
      82:00.0 bridge
        83:00.0 l40s
      82:01.0 bridge
        84:00.0 l40s
"""
    host = machine(Tree(text, "on", "nvidia"), dmi("Dell Inc.", "PowerEdge R760xa"), cores=16, memory_kb=527_800_000)
    return with_dimms(host, 16, 32)


def broken_h100() -> RecordedHost:
    """A DGX H100 with a GPU at x8 Gen3; a GPU, an NVSwitch and a memory module missing; a card at the wrong socket; ACS on."""
    parts = []
    for number, (gpu, card) in enumerate(H100_RAILS):
        more = {1: "link=8x8", 6: "absent"}.get(number, "")
        parts.append(rail(number, gpu, card, more=more))
    text = "".join(parts).replace("        dc:00.0 cx7 rdma=mlx5_7 net=ibp220s0\n", "")
    text = text.replace("5e:00.0 cx7", "5e:00.0 cx7 state=down")
    wrong = "pci0000:38 numa=0\n  01.0 bridge\n    39:00.0 cx7 rdma=mlx5_7 net=ibp57s0\n"
    switches = SWITCHES.replace("      03:03.0 bridge\n        08:00.0 nvswitch\n", "")
    tree = Tree(text + wrong + switches + DISKS, acs="on", bound="nvidia")
    host = machine(tree, {**MD, **dmi("NVIDIA", "DGXH100")}, memory_kb=2047 * GIB * 31 // 32 // 1024)
    return with_dimms(host, 31, 64)


def h100_spec(**values: Any) -> dict[str, Any]:
    """Return a pool's spec as action site derives it."""
    spec: dict[str, Any] = {
        **{"accelerator": "h100-80gb", "gpus_per_node": 8, "topology": "8gpu-sxm-nvlink", "fabric": "infiniband"},
        **{"cpus": 224, "numa_nodes": 2, "memory": "2Ti", "os": "debian-12", "kernel": "6.1.140-1"},
        "driver": {"branch": "580", "version": "580.126.09", "modules": "open"},
        "mixed_gpus": False,
        "nics": [
            *({"name": f"mlx5_{n}", "fabric": "infiniband", "speed_gbps": 400} for n in range(8)),
            {"name": "eno1", "fabric": "ethernet", "speed_gbps": 25},
        ],
        "nvme": {
            "scratch": {"disks": {"serials": [], "min_size": "3T", "model": None}, "layout": "raid0", "mount": "/scratch"},
        },
    }
    return {**spec, **values}


H100 = h100_spec()
B200 = h100_spec(accelerator="b200-180gb", nics=H100["nics"][:8])
L40S = h100_spec(
    **{"accelerator": "l40s-48gb", "gpus_per_node": 4, "topology": "4gpu-pcie", "fabric": "ethernet", "cpus": 64},
    **{"memory": "512Gi", "nvme": {}, "nics": [{"name": "uplink", "fabric": "ethernet", "speed_gbps": 100}]},
)
