# SPDX-License-Identifier: Apache-2.0
"""Hosts and desired states of the components preflight, repositories and kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.bedplate.metal.plugins.module_utils.kernel import Kernel, KernelDesired
from ansible_collections.bedplate.metal.plugins.module_utils.network import Address
from ansible_collections.bedplate.metal.plugins.module_utils.packages import UNFINISHED
from ansible_collections.bedplate.metal.plugins.module_utils.preflight import Preflight
from ansible_collections.bedplate.metal.plugins.module_utils.preflight_facts import PreflightDesired
from ansible_collections.bedplate.metal.plugins.module_utils.proxy import Proxy
from ansible_collections.bedplate.metal.plugins.module_utils.repositories import Repositories, RepositoriesDesired
from ansible_collections.bedplate.metal.plugins.module_utils.repositories_files import BUNDLE, AptSource, Authority
from interrupted import Case

from recorded_host import Package, RecordedHost

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEZ\n-----END PGP PUBLIC KEY BLOCK-----\n"
CA = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n"
OTHER_CA = "-----BEGIN CERTIFICATE-----\nb3RoZXI=\n-----END CERTIFICATE-----\n"
FSTAB = (
    "# /etc/fstab: static file system information.\n"
    "UUID=1234-abcd /               ext4    errors=remount-ro 0       1\n"
    "#/old.img none swap sw 0 0\n"
    "/swap.img\tnone\tswap\tsw\t0\t0\n"
    "UUID=swap-5678 none            swap    sw              0       0\n"
    "tmpfs /tmp tmpfs defaults 0 0\n"
)
SWAPS = (
    "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    "/swap.img                               file\t\t2097148\t\t0\t\t-2\n"
    "/dev/zram0                              partition\t1048572\t\t0\t\t100\n"
)
BRIDGE = "/proc/sys/net/bridge/bridge-nf-call-iptables"
FORWARD = "/proc/sys/net/ipv4/ip_forward"


@dataclass
class RecordedNetwork:
    """A network in memory; its clock advances only by sleeping."""

    found: list[Address] = field(default_factory=lambda: [Address("eth0", "10.0.0.11", 24)])
    clocks: dict[str, float | str] = field(default_factory=dict)
    closed: dict[str, str] = field(default_factory=dict)
    now: float = 0.0
    while_sleeping: Callable[[float], None] = lambda now: None

    def addresses(self) -> list[Address]:
        return self.found

    def offsets(self, servers: list[str]) -> dict[str, float | str]:
        return {s: self.clocks.get(s, "timed out") for s in servers}

    def unreachable(self, uris: list[str]) -> dict[str, str]:
        return {u: self.closed[u] for u in uris if u in self.closed}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.while_sleeping(self.now)

    def monotonic(self) -> float:
        return self.now


def debian(**files: str) -> RecordedHost:
    """Return a Debian 12 host that holds nothing but the system."""
    host = RecordedHost(
        files={
            "/etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n',
            "/run/systemd/system/x": "",
            "/proc/sys/kernel/osrelease": "6.1.0\n",
            "/proc/meminfo": "MemTotal:        8000000 kB\nMemAvailable:    6000000 kB\n",
            "/proc/swaps": SWAPS.splitlines(keepends=True)[0],
            "/proc/filesystems": "nodev\tsysfs\n\text4\nnodev\toverlay\n",
            "/proc/locks": "",
            "/sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
            "/usr/sbin/modprobe": "",
            FORWARD: "0\n",
            **files,
        },
        packages={"bash": Package("5.2")},
        services={"systemd-timesyncd": "active"},
    )
    host.modules["br_netfilter"] = {BRIDGE: "1\n", BRIDGE.replace("iptables", "ip6tables"): "0\n"}
    return host


def swapping() -> RecordedHost:
    """Return a host with every way of having swap."""
    host = debian()
    host.files.update(
        {
            "/etc/fstab": FSTAB,
            "/proc/swaps": SWAPS + "/dev/vda3                               partition\t1048572\t\t0\t\t-3\n",
            "/etc/systemd/system/multi-user.target.wants/zramswap.service": "",
            "/run/systemd/generator.late/dev-vda3.swap": "[Swap]\n",
            "/usr/lib/systemd/system-generators/zram-generator": "",
        }
    )
    return host


def kernel_desired() -> KernelDesired:
    return KernelDesired(
        modules=("overlay", "br_netfilter"),
        sysctl={"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"},
        limits={"memlock": "unlimited"},
        hold_unattended=("kube", "containerd"),
        packages=("conntrack",),
        journal_max_size="2G",
    )


def kernel_host() -> RecordedHost:
    host = swapping()
    host.repository["conntrack"] = ["1:1.4.7-1"]
    return host


def repositories_desired() -> RepositoriesDesired:
    return RepositoriesDesired(
        apt=(AptSource("kubernetes", ("https://depot.example:8443/apt",), ("stable",), ("main",), KEY),),
        exclusive=True,
        authorities=(Authority("site", CA),),
        proxy=Proxy("http://proxy:3128", "http://proxy:3128", ("10.0.0.0/8", ".example")),
        lock_timeout_seconds=0,
    )


def repositories_host() -> RecordedHost:
    host = debian()
    host.files["/etc/apt/sources.list"] = "deb http://mirror.example.org/debian bookworm main\n"
    host.files["/etc/apt/sources.list.d/old.list"] = "deb http://old.example/debian bookworm main\n"
    host.files["/etc/apt/sources.list.d/bedplate-gone.sources"] = "Types: deb\nURIs: http://gone\nSuites: x/\n"
    host.files["/usr/local/share/ca-certificates/bedplate-gone.crt"] = OTHER_CA
    host.files[BUNDLE] = OTHER_CA
    return host


def repositories_host_with_tool() -> RecordedHost:
    host = repositories_host()
    host.files["/usr/sbin/update-ca-certificates"] = ""
    return host


def half_configured() -> RecordedHost:
    host = debian()
    host.packages["kubelet"] = Package("1.36.3-1.1", "install ok half-configured")
    host.files[UNFINISHED] = '{"format": 1, "component": "apt", "packages": ["kubelet"]}'
    return host


def preflight_desired() -> PreflightDesired:
    return PreflightDesired(distributions=("debian-12",), apt_lock_timeout_seconds=0)


CASES = [
    Case("kernel", Kernel, kernel_desired, kernel_host),
    Case("repositories", Repositories, repositories_desired, repositories_host),
    Case("repositories with update-ca-certificates", Repositories, repositories_desired, repositories_host_with_tool),
    Case("preflight repair", lambda: Preflight(RecordedNetwork()), preflight_desired, half_configured),
]
