# SPDX-License-Identifier: Apache-2.0
"""What a machine says of its NVIDIA driver and GPUs: loaded module, library, NVSwitches, nvidia-smi within a time limit, XIDs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from .host import NOT_FOUND, TIMED_OUT, Host, Result

LOADED = "/proc/driver/nvidia/version"
PROC_GPUS = "/proc/driver/nvidia/gpus/*/information"
NVSWITCHES = "/proc/driver/nvidia-nvswitch/devices/*"
PCI_VENDORS = "/sys/bus/pci/devices/*/vendor"
NVIDIA_VENDOR = "0x10de"
LIBRARIES = (
    "/usr/lib/*-linux-gnu/libnvidia-ml.so.*",
    "/usr/lib/*-linux-gnu/nvidia/*/libnvidia-ml.so.*",
)
"""Where NVIDIA's and Ubuntu's packages, and Debian's own, put the library."""

PROBE_TIMEOUT_SECONDS = 12.0
"""With the two seconds the host takes to give up on a process that cannot be killed, a hung nvidia-smi costs less than 15 s."""
QUERY = "index,uuid,pci.bus_id,name,memory.total,mig.mode.current,driver_version"
MISMATCH, LOST, NO_DRIVER = 18, 15, 9
"""Return codes of nvidia-smi (nvidia-smi(1), "RETURN VALUE"): module and library differ; a GPU fell off the bus; no driver."""
XID_LINES = ("journalctl", "-b", "--no-pager", "-o", "cat", "-g", "NVRM: Xid", "SYSLOG_IDENTIFIER=kernel", "-n", "200")
APPLICATION_XIDS = frozenset({13, 31, 43, 45, 68, 94})
"""XIDs a program causes and that leave the GPU usable (NVIDIA, "XID Errors": 13 and 31 faults of the application, 43 and 45 its
end, 68 video decoder, 94 a contained memory error)."""


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi lists it. pci: domain:bus:device.function in lower case, domain of four digits. mig: Enabled,
    Disabled or "" where the GPU has none. memory_mib: frame buffer.
    """

    index: int
    uuid: str
    pci: str
    name: str
    memory_mib: int
    mig: str = ""


@dataclass(frozen=True)
class PciDevice:
    """One NVIDIA device on the bus. kind: ``gpu`` (3D controller), ``display`` (VGA controller) or ``switch``."""

    pci: str
    kind: str


@dataclass(frozen=True)
class Xid:
    """A driver error of this boot: GPU and NVIDIA's number."""

    pci: str
    number: int


@dataclass(frozen=True)
class Probe:
    """Answer of nvidia-smi. state: ``absent`` (not installed), ``ok``, ``mismatch``, ``lost``, ``wedged`` (no answer in
    time), ``no-driver`` or ``failed``. message: what it said, "" for ok.
    """

    state: str = "absent"
    gpus: tuple[Gpu, ...] = ()
    message: str = ""


@dataclass(frozen=True)
class DriverState:
    """loaded: version of the loaded module, None when none is; open: its kind. libraries: versions of libnvidia-ml on disk.
    known: PCI addresses the driver knows, also of GPUs it lost. switches: NVSwitches, None as long as no driver could tell.
    bus: what the PCI bus lists, empty on machines that do not show it.
    """

    loaded: Optional[str] = None
    open: Optional[bool] = None
    libraries: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    switches: Optional[int] = None
    bus: tuple[PciDevice, ...] = ()
    nouveau: bool = False
    probe: Probe = field(default_factory=Probe)
    xids: tuple[Xid, ...] = ()

    def public(self) -> dict[str, Any]:
        """Return the facts as JSON types."""
        return asdict(self)


def observe_driver(host: Host, *, probe: bool = True) -> DriverState:
    """Look at /proc, /sys and the libraries; ask nvidia-smi and the journal only where a driver is loaded."""
    loaded, is_open = parse_loaded(host.read(LOADED) or "")
    bus = observe_bus(host)
    on_bus = sum(1 for device in bus if device.kind == "switch")
    listed = len(host.glob(NVSWITCHES))
    return DriverState(
        loaded=loaded,
        open=is_open,
        libraries=observe_libraries(host),
        known=tuple(sorted(normal_pci(path.split("/")[5]) for path in host.glob(PROC_GPUS))),
        switches=max(on_bus, listed) if loaded or on_bus else None,
        bus=bus,
        nouveau=host.exists("/sys/module/nouveau"),
        probe=probe_gpus(host) if probe and loaded else Probe(),
        xids=parse_xids(host.run(XID_LINES, timeout_seconds=5).out) if probe and loaded else (),
    )


def parse_loaded(text: str) -> tuple[Optional[str], Optional[bool]]:
    """Read /proc/driver/nvidia/version: version and whether the modules are the open ones; (None, None) without a driver."""
    line = next((part for part in text.splitlines() if part.startswith("NVRM version:")), "")
    match = re.search(r"\s(\d{3}\.\d{2,3}(?:\.\d{2,3})?)\s", line + " ")
    return (match.group(1), "Open Kernel Module" in line) if match else (None, None)


def observe_libraries(host: Host) -> tuple[str, ...]:
    """Return the versions of the management library on disk (one, unless packages are mixed)."""
    paths = [path for pattern in LIBRARIES for path in host.glob(pattern)]
    found = {m.group(1) for path in paths if (m := re.search(r"\.so\.(\d{3}\.\d{2,3}(?:\.\d{2,3})?)$", path))}
    return tuple(sorted(found))


def observe_bus(host: Host) -> tuple[PciDevice, ...]:
    """Return NVIDIA's devices on the PCI bus, by class code (PCI ID repository: 0300 VGA, 0302 3D controller, 0680 bridge)."""
    kinds = {"0x0302": "gpu", "0x0300": "display", "0x0680": "switch"}
    devices = []
    for path in host.glob(PCI_VENDORS):
        if (host.read(path) or "").strip() == NVIDIA_VENDOR:
            code = (host.read(path[: -len("vendor")] + "class") or "").strip()[:6]
            if code in kinds:
                devices.append(PciDevice(normal_pci(path.split("/")[5]), kinds[code]))
    return tuple(devices)


def probe_gpus(host: Host) -> Probe:
    """Ask nvidia-smi for the GPUs; a process that ignores TERM is killed at the time limit."""
    command = ("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits")
    return parse_probe(host.run(command, timeout_seconds=PROBE_TIMEOUT_SECONDS))


def parse_probe(result: Result) -> Probe:
    """Read nvidia-smi's answer and return code."""
    said = " ".join((result.err.strip() or result.out.strip()).split())[:300]
    if result.rc == TIMED_OUT:
        return Probe("wedged", message=f"nvidia-smi gave no answer within {PROBE_TIMEOUT_SECONDS:g} s and was killed")
    if result.rc == NOT_FOUND:
        return Probe("absent", message="nvidia-smi is not installed")
    gpus = parse_gpus(result.out)
    if result.ok and "No devices were found" not in result.out:
        return Probe("ok", gpus)
    state = {MISMATCH: "mismatch", LOST: "lost", NO_DRIVER: "no-driver"}.get(result.rc, "failed")
    if state == "failed" and "version mismatch" in said:
        state = "mismatch"
    if state == "failed" and "is lost" in said:
        state = "lost"
    return Probe(state, gpus, said or f"nvidia-smi answered {result.rc}")


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Parse lines of ``--query-gpu``; lines of a GPU that does not answer are left out."""
    gpus = []
    for line in text.splitlines():
        fields = [part.strip() for part in line.split(",")]
        if len(fields) != len(QUERY.split(",")) or not fields[0].isdigit():
            continue
        if any("Unknown Error" in part or "GPU is lost" in part for part in fields):
            continue
        index, uuid, pci, name, memory, mig, _version = fields
        size = int(memory) if memory.isdigit() else 0
        gpus.append(Gpu(int(index), uuid, normal_pci(pci), name, size, mig if mig in ("Enabled", "Disabled") else ""))
    return tuple(gpus)


def parse_xids(text: str) -> tuple[Xid, ...]:
    """Read the driver's kernel messages: ``NVRM: Xid (PCI:0000:1b:00): 79, pid=…``."""
    found = re.findall(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)", text)
    return tuple(dict.fromkeys(Xid(normal_pci(pci), int(number)) for pci, number in found))


def fatal(xids: Sequence[Xid]) -> tuple[Xid, ...]:
    """Return the XIDs that are not an application's doing."""
    return tuple(x for x in xids if x.number not in APPLICATION_XIDS)


def normal_pci(address: str) -> str:
    """Return a PCI address as the kernel writes it: nvidia-smi says 00000000:1B:00.0, kernel messages 0000:1b:00."""
    match = re.fullmatch(r"([0-9a-fA-F]+):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?", address.strip())
    if match is None:
        return address.strip().lower()
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus.lower()}:{device.lower()}.{function or '0'}"
