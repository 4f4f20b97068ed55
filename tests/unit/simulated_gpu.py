# SPDX-License-Identifier: Apache-2.0
"""A GPU host in memory: driver packages that build and load a module, nvidia-smi over the loaded one, kernels and headers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import simulated_commands
from ansible_collections.bedplate.metal.plugins.module_utils import nvidia_probe, secure_boot
from ansible_collections.bedplate.metal.plugins.module_utils.host import TIMED_OUT, Result
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_packages import driver_packages, upstream_version
from fixtures_host import debian

from recorded_host import Package, RecordedHost

OLD, NEW = "580.105.08", "580.126.09"
KERNEL, NEXT_KERNEL = "6.1.0-30-amd64", "6.1.0-37-amd64"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so."
BUILT = "/lib/modules/{}/updates/dkms/nvidia.ko"
ADDRESSES = tuple(f"0000:{bus:02x}:00.0" for bus in (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF))
H100 = ("NVIDIA H100 80GB HBM3", 81559)
L40S = ("NVIDIA L40S", 46068)


class Machine:
    """What a GPU host is made of: GPUs as (PCI address, name, MiB), addresses that are lost, NVSwitches, a hung nvidia-smi."""

    def __init__(self, gpus: Sequence[tuple[str, str, int]], switches: int = 0) -> None:
        self.gpus = list(gpus)
        self.switches = switches
        self.lost: set[str] = set()
        self.hung = False
        self.builds = True
        self.xids = ""


def h100(count: int = 8) -> Machine:
    return Machine([(pci, *H100) for pci in ADDRESSES[:count]], switches=4)


def gpu_host(machine: Machine, versions: Sequence[str] = (OLD, NEW), distribution: str = "debian-12") -> RecordedHost:
    """Return a bare host whose repository carries these driver versions whole."""
    host = debian()
    name, _dash, release = distribution.partition("-")
    host.files["/etc/os-release"] = f'VERSION_ID="{release}"\nID={name}\n'
    host.files["/proc/sys/kernel/osrelease"] = KERNEL + "\n"
    host.files[f"/boot/vmlinuz-{KERNEL}"] = ""
    host.files[f"/lib/modules/{KERNEL}/modules.builtin"] = ""
    host.files["/usr/sbin/update-initramfs"] = ""
    host.packages[f"linux-image-{KERNEL}"] = Package("6.1.1")
    host.packages["linux-image-amd64"] = Package("6.1.1")
    for header in (f"linux-headers-{KERNEL}", f"linux-headers-{NEXT_KERNEL}", "linux-headers-amd64"):
        host.repository[header] = ["6.1.1"]
        host.installs[header] = _headers(header)
    for version in versions:
        for modules in ("open", "proprietary"):
            for package in driver_packages(distribution, version, modules, fabric=True):
                offered = host.repository.setdefault(package.name, [])
                if package.version and package.version not in offered:
                    offered.append(package.version)
                host.installs[package.name] = _installs(package.name, machine)
    host.repository["nvlsm"] = ["2025.06.10-1", "2025.10.11-1"]
    host.modules["nvidia"] = {}
    host.on("modprobe", _modprobe(machine))
    host.on("nvidia-smi", _smi(machine))
    host.on("modinfo", modinfo)
    host.on("dkms", _dkms(machine))
    host.on("update-initramfs", lambda h, argv, stdin: _touched(h))
    host.on("systemctl", _systemctl(machine))
    host.on("nvidia-ctk", _ctk)
    for name in ("nvidia-container-toolkit-base", "nvidia-container-toolkit"):
        host.repository[name] = ["1.17.8-1", "1.20.1-1", "1.20.2-1"]
    host.on("journalctl", lambda h, argv, stdin: Result(0, machine.xids if "NVRM: Xid" in argv else ""))
    return host


def _touched(host: RecordedHost) -> Result:
    host.changing()
    return Result(0)


def _headers(name: str) -> Callable[[RecordedHost], None]:
    def install(host: RecordedHost) -> None:
        release = name.removeprefix("linux-headers-")
        if release[0].isdigit():
            host.files[f"/lib/modules/{release}/build/Makefile"] = ""
            compile_for(host, release)

    return install


def compile_for(host: RecordedHost, release: str) -> None:
    """What DKMS's hooks do when headers or sources arrive."""
    source = next((p for n, p in host.packages.items() if "dkms" in n and n.startswith("nvidia")), None)
    if source and f"/lib/modules/{release}/build/Makefile" in host.files:
        host.files[BUILT.format(release)] = upstream_version(source.version)


def _installs(name: str, machine: Machine) -> Callable[[RecordedHost], None]:
    def install(host: RecordedHost) -> None:
        version = upstream_version(host.packages[name].version)
        if name in ("libnvidia-ml1", "libnvidia-compute-550", "libnvidia-compute-580"):
            for path in [p for p in host.files if p.startswith(LIBRARY)]:
                del host.files[path]
            host.files[LIBRARY + version] = ""
        if "dkms" in name:
            for path in [p for p in host.files if p.endswith("/build/Makefile")]:
                if machine.builds:
                    compile_for(host, path.split("/")[3])

    return install


def load(host: RecordedHost, machine: Machine, version: str, kind: str = "open") -> None:
    """Load a driver, as a boot does."""
    text = "NVIDIA UNIX Open Kernel Module for x86_64" if kind == "open" else "NVIDIA UNIX x86_64 Kernel Module"
    host.files[nvidia_probe.LOADED] = f"NVRM version: {text}  {version}  Release Build\nGCC version:\n"
    for pci, name, _memory in machine.gpus:
        host.files[f"/proc/driver/nvidia/gpus/{pci}/information"] = f"Model: {name}\n"
    for number in range(machine.switches):
        host.files[f"/proc/driver/nvidia-nvswitch/devices/0000:0{number}:00.0"] = ""


def _modprobe(machine: Machine) -> Callable[..., Result]:
    def modprobe(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        if argv[-1] != "nvidia":
            host.changing()
            host.files[f"/sys/module/{argv[-1].replace('-', '_')}/refcnt"] = "0"
            return Result(0)
        release = host.files["/proc/sys/kernel/osrelease"].strip()
        version = host.files.get(BUILT.format(release))
        if version is None:
            return Result(1, "", f"modprobe: FATAL: Module nvidia not found in directory /lib/modules/{release}")
        host.changing()
        load(host, machine, version, "open" if any("open" in n for n in host.packages) else "proprietary")
        return Result(0)

    return modprobe


def _smi(machine: Machine) -> Callable[..., Result]:
    def smi(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        loaded, _open = nvidia_probe.parse_loaded(host.files.get(nvidia_probe.LOADED, ""))
        library = next((p.removeprefix(LIBRARY) for p in host.files if p.startswith(LIBRARY)), None)
        if machine.hung:
            return Result(TIMED_OUT, "", "nvidia-smi: no answer within 12 s")
        if loaded != library:
            return Result(18, "Failed to initialize NVML: Driver/library version mismatch\n")
        answering = [gpu for gpu in machine.gpus if gpu[0] not in machine.lost]
        lines = [
            f"{i}, GPU-{i}, 0000{pci.upper()}, {name}, {memory}, Disabled, {loaded}\n"
            for i, (pci, name, memory) in enumerate(answering)
        ]
        if machine.lost:
            return Result(15, "".join(lines), "Unable to determine the device handle for GPU: GPU is lost.\n")
        return Result(0, "".join(lines) or "No devices were found\n")

    return smi


def modinfo(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    """``modinfo -k RELEASE -F FIELD nvidia``."""
    version = host.files.get(BUILT.format(argv[2]))
    if version is None:
        return Result(1, "", "modinfo: ERROR: Module nvidia not found.")
    return Result(0, f"{version}\n" if argv[4] == "version" else f"{argv[2]} SMP preempt mod_unload modversions \n")


def _dkms(machine: Machine) -> Callable[..., Result]:
    def dkms(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        if not machine.builds:
            return Result(10, "", "Error! Bad return status for module build")
        host.changing()
        compile_for(host, argv[-1])
        return Result(0)

    return dkms


def cdi_text(version: str, uuids: Sequence[str]) -> str:
    """A specification as ``nvidia-ctk cdi generate`` writes it, shortened."""
    devices = "".join(f'    - name: "{i}"\n    - name: {uuid}\n' for i, uuid in enumerate(uuids))
    mount = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{version}"
    return f"cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n{devices}containerEdits:\n  mounts:\n    - hostPath: {mount}\n"


def _systemctl(machine: Machine) -> Callable[..., Result]:
    def call(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        if argv[1:] == ["restart", "nvidia-cdi-refresh.service"]:
            library = next((p.removeprefix(LIBRARY) for p in host.files if p.startswith(LIBRARY)), "")
            if machine.hung:
                return Result(1, "", "Job for nvidia-cdi-refresh.service failed because a timeout was exceeded.")
            host.write("/var/run/cdi/nvidia.yaml", cdi_text(library, [f"GPU-{i}" for i in range(len(machine.gpus))]))
            return Result(0)
        return simulated_commands.systemctl(host, argv, stdin)

    return call


def _ctk(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
    """``nvidia-ctk config --config-file=FILE --in-place --set KEY=VALUE``."""
    path = argv[3].partition("=")[2]
    key, _equals, value = argv[-1].partition("=")
    kept = [line for line in host.files.get(path, "").splitlines() if not line.startswith(key)]
    host.write(path, "\n".join([f"{key} = {value}", *kept]) + "\n")
    return Result(0)


def secure(host: RecordedHost, enrolled: bool = False) -> None:
    """Switch Secure Boot on."""
    host.files[secure_boot.VARIABLE] = "\x06\x00\x00\x00\x01"
    if enrolled:
        host.files["/var/lib/dkms/mok.pub"] = ""
    said = "/var/lib/dkms/mok.pub is already enrolled\n" if enrolled else "/var/lib/dkms/mok.pub is not enrolled\n"
    host.on("mokutil", lambda h, argv, stdin: Result(1 if enrolled else 0, said))
