# SPDX-License-Identifier: Apache-2.0
"""Hosts with cards of each fabric, built from the kernel's sysfs ABI and the tools' documentation, and networkd in small."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.fabric import Fabric, FabricDesired
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_devices import Nic, Traffic
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_network import SERVICE
from ansible_collections.bedplate.metal.plugins.module_utils.fabric_roce import SCRIPT
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.module_utils.network import Address
from fixtures_host import RecordedNetwork, debian
from interrupted import Case

from recorded_host import Package, RecordedHost

ROUTE = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n{0}\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"
SOFT = Nic("rail0", "soft-roce", "ens4", "10.88.0.251/24")
IB = Nic("rail0", "infiniband", "mlx5_0", "10.88.0.11/24", None, 400)
ROCE = Nic("rail1", "roce", "0000:c1:00.0", "10.89.0.11/24", 9000, 200, Traffic())
TOOLS = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "rdmacm-utils", "perftest", "infiniband-diags")
MLX5 = {"/sys/module/mlx5_ib/refcnt": "0"}


def card(netdev: str, pci: str, index: int, vendor: str = "0x1af4", virtio: bool = False, mtu: int = 1500) -> dict[str, str]:
    """Files of a card under /sys; a MAC that ends in the index."""
    function = f"/sys/bus/pci/devices/{pci}"
    return {
        f"/sys/class/net/{netdev}/address": f"52:54:00:00:00:{index:02x}\n",
        f"/sys/class/net/{netdev}/mtu": f"{mtu}\n",
        f"/sys/class/net/{netdev}/ifindex": f"{index}\n",
        f"{function}/vendor": f"{vendor}\n",
        f"{function}{'/virtio1' if virtio else ''}/net/{netdev}/address": "",
    }


def adapter(rdma: str, pci: str, layer: str, **files: str) -> dict[str, str]:
    """Files of an RDMA device with an active port."""
    base = f"/sys/class/infiniband/{rdma}/ports/1"
    found = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "sm_lid": "0x1", **files}
    port = {f"{base}/{name}": f"{text}\n" for name, text in {**found, "link_layer": layer}.items()}
    owner = {f"/sys/bus/pci/devices/{pci}/infiniband/{rdma}/node_desc": ""} if pci else {}
    return {**port, **owner, f"/sys/bus/pci/devices/{pci}/vendor": "0x15b3\n"}


class Machine:
    """A host and its network, which networkd changes. management: the interface of the default route."""

    def __init__(self, *parts: dict[str, str], management: str = "ens3") -> None:
        self.network = RecordedNetwork([Address(management, "10.0.0.11", 24)])
        self.host = debian()
        self.host.files.update(card("ens3", "0000:00:03.0", 2, virtio=True))
        for part in parts:
            self.host.files.update(part)
        self.host.files["/proc/net/route"] = ROUTE.format(management)
        self.host.repository.update({name: ["1.0"] for name in (*TOOLS, "iproute2", "doca-ofed")})
        self.host.packages["iproute2"] = Package("6.1.0-3")
        for module in ("ib_uverbs", "rdma_ucm", "ib_umad", "mlx5_ib", "rdma_rxe"):
            self.host.modules[module] = {}
        self.pfc: dict[str, list[bool]] = {}
        self.dscp: dict[str, dict[int, int]] = {}
        self.dcb = True
        handlers = {"networkctl": self._networkctl, "dcb": self._dcb, SCRIPT.rpartition("/")[2]: self._script}
        for program, handler in handlers.items():
            self.host.on(program, handler)

    def run(self, *nics: Nic, **options: Any) -> Outcome:
        policy = options.pop("policy", Policy())
        return execute(Fabric(self.network), self.host, FabricDesired(nics, **options), policy)

    def _networkctl(self, host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        if host.services.get(SERVICE) != "active":
            return Result(1, "", "Failed to connect to bus")
        if argv[1] == "reload":
            host.changing()
            for path in host.glob("/etc/systemd/network/*.network"):
                self._configure(host, path)
        return Result(0, "State: routable\n")

    def _configure(self, host: RecordedHost, path: str) -> None:
        text = host.files[path]
        wanted = dict(re.findall(r"^(Name|Path|MACAddress|Address|MTUBytes)=(\S+)", text, re.MULTILINE))
        for address in host.glob("/sys/class/net/*/address"):
            netdev = address.split("/")[4]
            pci = next((p.split("/")[5] for p in host.glob(f"/sys/bus/pci/devices/*/net/{netdev}")), "")
            mac = host.files[address].strip()
            if not (wanted.get("Name") == netdev or wanted.get("Path") == f"pci-{pci}" or wanted.get("MACAddress") == mac):
                continue
            index = host.files.get(f"/sys/class/net/{netdev}/ifindex", "").strip()
            host.files[f"/run/systemd/netif/links/{index}"] = f"NETWORK_FILE={path}\n"
            host.files[f"/sys/class/net/{netdev}/mtu"] = wanted.get("MTUBytes", "1500") + "\n"
            plain, prefix = wanted["Address"].split("/")
            self.network.found = [a for a in self.network.found if a.interface != netdev] + [Address(netdev, plain, int(prefix))]

    def _dcb(self, host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        if not self.dcb:
            return Result(1, "", "Attribute read: Operation not supported")
        netdev = argv[argv.index("dev") + 1]
        if "pfc" in argv:
            states = self.pfc.get(netdev, [False] * 8)
            return Result(0, '{"prio_pfc":[' + ",".join(str(s).lower() for s in states) + "]}")
        table = ",".join(f"[{dscp},{priority}]" for dscp, priority in self.dscp.get(netdev, {}).items())
        return Result(0, f'{{"dscp_prio":[{table}]}}' if table else "{}")

    def _script(self, host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        """What the script's lines do."""
        host.changing()
        for line in host.files[SCRIPT].splitlines():
            if match := re.search(r"rdma link add (\S+) type rxe netdev (\S+)", line):
                host.files.update(adapter(match[1], "", "Ethernet", rate="2.5 Gb/sec (1X SDR)", sm_lid="0x0"))
                host.files[f"/sys/class/infiniband/{match[1]}/parent"] = f"{match[2]}\n"
            elif match := re.search(r"pfc set dev (\S+) prio-pfc all:off(?: (\d):on)?", line):
                self.pfc[match[1]] = [str(priority) == match[2] for priority in range(8)]
            elif match := re.search(r"app replace dev (\S+) dscp-prio (\d+):(\d)", line):
                self.dscp[match[1]] = {int(match[2]): int(match[3])}
            elif match := re.search(r"(?:\[ ! -e (\S+) \] \|\| )?echo (\d+) > (\S+)$", line):
                host.files.update({match[3]: f"{match[2]}\n"} if not match[1] or match[1] in host.files else {})
        return Result(0)


def soft_machine() -> Machine:
    """A virtual machine with a card of its own for the fabric."""
    return Machine(card("ens4", "0000:00:04.0", 3, virtio=True))


def infiniband_machine() -> Machine:
    """An InfiniBand card whose interface ib_ipoib makes."""
    machine = Machine(adapter("mlx5_0", "0000:41:00.0", "InfiniBand"), MLX5)
    machine.host.modules["ib_ipoib"] = card("ibp65s0", "0000:41:00.0", 7, "0x15b3", mtu=2044)
    return machine


def roce_machine() -> Machine:
    """A RoCE card."""
    rate = {"rate": "200 Gb/sec (4X HDR)"}
    return Machine(card("enp193s0", "0000:c1:00.0", 5), adapter("mlx5_1", "0000:c1:00.0", "Ethernet", **rate), MLX5)


def doca_host(machine: Machine, booted: bool = False) -> Machine:
    """Headers for the running kernel, so that DKMS compiles. booted: as if the boot that loads the modules came at once."""
    machine.host.files["/lib/modules/6.1.0/build"] = ""

    def compiled(host: RecordedHost) -> None:
        host.files["/lib/modules/6.1.0/updates/dkms/mlx5_core.ko"] = ""
        if booted:
            host.files["/sys/module/mlx_compat/version"] = "25.07-0.9.7\n"

    machine.host.installs["doca-ofed"] = compiled
    return machine


def _case(name: str, make: Any, *nics: Nic, **options: Any) -> Case:
    """A case whose component speaks to the network of the host it was made for."""
    made: list[Machine] = []

    def host() -> RecordedHost:
        made.append(make())
        return made[-1].host

    policy = options.pop("policy", Policy())
    return Case(name, lambda: Fabric(made[-1].network), lambda: FabricDesired(nics, **options), host, policy)


def configured(machine: Machine, *nics: Nic) -> Machine:
    machine.run(*nics)
    machine.host.commands.clear()
    return machine


CASES = [
    _case("fabric soft-RoCE", soft_machine, SOFT),
    _case("fabric InfiniBand", infiniband_machine, IB),
    _case("fabric lossless RoCE", roce_machine, ROCE),
    _case("fabric no longer declared", lambda: configured(soft_machine(), SOFT)),
    _case(
        "fabric by DOCA-OFED",
        lambda: doca_host(roce_machine(), booted=True),
        ROCE,
        stack="doca",
        policy=Policy(allow=frozenset({"reboot"})),
    ),
]
