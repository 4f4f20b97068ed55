# SPDX-License-Identifier: Apache-2.0
"""Kernel modules, sysctls and swap as a host shows them, and how they are changed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import BedplateError
from .fstab import unescape
from .host import Host

SWAP_UNITS = "/etc/systemd/system/*.swap"
DISCOVERED_UNITS = "/run/systemd/generator.late/*.swap"
"""Where systemd-gpt-auto-generator(8) puts units for swap partitions it finds by their type."""
FEATURES = {
    "br_netfilter": ("/proc/sys/net/bridge/bridge-nf-call-iptables",),
    "nf_conntrack": ("/proc/sys/net/netfilter/nf_conntrack_max",),
    "ip_vs": ("/proc/net/ip_vs",),
    "ip_tables": ("/proc/net/ip_tables_names",),
    "tun": ("/dev/net/tun", "/sys/class/misc/tun"),
    "loop": ("/dev/loop-control", "/sys/class/misc/loop-control"),
    "fuse": ("/dev/fuse",),
}
"""What a module's feature shows as when it is built into the kernel: a built-in module without parameters has no /sys/module
entry, and a kernel without module support has no list of built-in ones."""


def module_loaded(host: Host, name: str, builtin: str) -> bool:
    """Tell whether a module is there, loaded or built in; builtin is the text of the kernel's modules.builtin, or ""."""
    plain = name.replace("-", "_")
    if host.exists(f"/sys/module/{plain}"):
        return True
    if re.search(rf"/{re.escape(plain).replace('_', '[-_]')}\.ko", builtin):
        return True
    file_systems = (host.read("/proc/filesystems") or "").split()
    return plain in file_systems or any(host.exists(path) for path in FEATURES.get(plain, ()))


def sysctl_path(key: str) -> str:
    """Return a key's file; as in sysctl.d(5) the first separator decides whether dots or slashes separate."""
    first = re.search(r"[./]", key)
    if first and first.group() == ".":
        key = key.translate(str.maketrans("./", "/."))
    return f"/proc/sys/{key}"


def normal(value: object) -> str:
    """Return a sysctl value with single spaces between its numbers; true and false as 1 and 0 (YAML reads them so)."""
    if isinstance(value, bool):
        value = int(value)
    return " ".join(str(value).split())


@dataclass(frozen=True)
class SetSysctl:
    """Set a kernel parameter now (its file under sysctl.d makes it last)."""

    key: str
    value: str

    def perform(self, host: Host) -> None:
        """Write it by tee: procps, which brings sysctl(8), is not on every host."""
        result = host.run(["tee", sysctl_path(self.key)], stdin=f"{self.value}\n")
        if not result.ok:
            reason = result.err.strip() or f"return code {result.rc}"
            raise BedplateError(
                f"sysctl {self.key}: found it refused ({reason}); wanted {self.value}. "
                "Next: check the key, and the module that brings it, in the site data"
            )


@dataclass(frozen=True)
class LoadModule:
    """Load a kernel module."""

    module: str

    def perform(self, host: Host) -> None:
        """Run modprobe; raise :class:`BedplateError` with its reason."""
        result = host.run(["modprobe", self.module])
        if not result.ok:
            release = (host.read("/proc/sys/kernel/osrelease") or "").strip()
            reason = result.err.strip() or f"return code {result.rc}"
            raise BedplateError(
                f"kernel module {self.module}: found it not loadable for kernel {release} ({reason}); wanted it loaded. "
                "Next: install the kernel's modules package, or boot the kernel whose modules are installed"
            )


@dataclass(frozen=True)
class Swap:
    """One active swap area: path as /proc/swaps shows it, used bytes."""

    path: str
    used_bytes: int


def parse_swaps(text: str) -> tuple[Swap, ...]:
    """Parse /proc/swaps (sizes in KiB; blanks in paths as octal escapes)."""
    swaps = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 4:
            swaps.append(Swap(unescape(fields[0]), int(fields[3]) * 1024))
    return tuple(swaps)


@dataclass(frozen=True)
class SwapSources:
    """What would bring swap back at boot, beside fstab.

    units: names of swap units of the administrator that are enabled. discovered: units systemd made for partitions it found
    by itself. zram_services: enabled services that make zram swap. zram_generator: the generator is there and not disabled.
    """

    units: tuple[str, ...] = ()
    discovered: tuple[str, ...] = ()
    zram_services: tuple[str, ...] = ()
    zram_generator: bool = False


ZRAM_SERVICES = ("zramswap.service", "zram-config.service", "zram-swap.service")
ZRAM_GENERATOR = "/usr/lib/systemd/system-generators/zram-generator"
ZRAM_CONFIGURATION = "/etc/systemd/zram-generator.conf"
ZRAM_DISABLED = "# An empty configuration disables the generator (zram-generator.conf(5)); swap is off for Kubernetes.\n"


def observe_swap_sources(host: Host) -> SwapSources:
    """Look for everything but fstab that activates swap at boot."""
    own = [path.rpartition("/")[2] for path in host.glob(SWAP_UNITS) if (host.read(path) or "").strip()]
    wants = {p.rpartition("/")[2] for kind in ("wants", "requires") for p in host.glob(f"/etc/systemd/system/*.{kind}/*")}
    found = [path.rpartition("/")[2] for path in host.glob(DISCOVERED_UNITS)]
    return SwapSources(
        units=tuple(sorted(u for u in own if u in wants)),
        discovered=tuple(u for u in found if not host.exists(f"/etc/systemd/system/{u}")),
        zram_services=tuple(s for s in ZRAM_SERVICES if s in wants),
        zram_generator=host.exists(ZRAM_GENERATOR) and host.read(ZRAM_CONFIGURATION) != ZRAM_DISABLED,
    )
