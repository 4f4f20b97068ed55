# SPDX-License-Identifier: Apache-2.0
"""What a machine says of its NVIDIA driver and GPUs: loaded module, library, NVSwitches, nvidia-smi within a time limit, XIDs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

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
WEDGED = "wedged"
MISMATCH, LOST, NO_DRIVER = 18, 15, 9
"""Return codes of nvidia-smi (nvidia-smi(1), "RETURN VALUE"): module and library differ; a GPU fell off the bus; no driver."""
XID_LINES = ("journalctl", "-b", "--no-pager", "-o", "cat", "-g", "NVRM: Xid", "SYSLOG_IDENTIFIER=kernel", "-n", "200")
XID_TIMEOUT_SECONDS = 10.0
FATAL_XIDS = frozenset(
    {
        *(46, 62, 110, 119, 120, 143, 158),  # the GPU or its own processors stopped: reset
        *(48, 64, 95, 140, 156),  # memory: double bit error, remap that failed, uncontained, unrecovered, retired resource: reset
        109,  # context switch timeout: reset; the device plugin, which is older than the catalogue's column, ignores it
        *(74, 136, 144, 145, 146, 147, 148, 149, 150, 155),  # NVLink: workflows that end in a reset
        *(79, 151, 160),  # off the bus, keys, channels retired: restart of the machine
        54,  # auxiliary power not connected: check the mechanics
    }
)
"""XIDs after which a GPU serves no work until it is reset, its machine restarted or repaired: column "Immediate action" of
NVIDIA's "Analyzing Xid Errors with the Xid Catalog" (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html).
Not among them, by the same column: what a restart of the application ends (13, 31, 43, 45, 68, 94), a row that will be remapped
at the next reset and is out of use till then (63), and 154, which repeats what another XID asks for."""


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
    bus: what the PCI bus lists, empty on machines that do not show it. xids: None where the journal gave no answer.
    """

    loaded: Optional[str] = None
    open: Optional[bool] = None
    libraries: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    switches: Optional[int] = None
    bus: tuple[PciDevice, ...] = ()
    nouveau: bool = False
    probe: Probe = field(default_factory=Probe)
    xids: Optional[tuple[Xid, ...]] = ()


def observe_driver(host: Host, ask: Optional[Prober]) -> DriverState:
    """Look at /proc, /sys and the libraries; ask nvidia-smi and the journal only where a driver is loaded, and not for None."""
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
        probe=ask(host) if ask and loaded else Probe(),
        xids=observe_xids(host) if ask and loaded else (),
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


class Prober:
    """nvidia-smi for one run of a component: one that hangs is not asked again, since nothing short of a reboot mends it."""

    def __init__(self) -> None:
        self._hung: Optional[Probe] = None

    def __call__(self, host: Host) -> Probe:
        """Ask for the GPUs; a process that ignores TERM is killed at the time limit."""
        if self._hung is not None:
            return self._hung
        command = ("nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits")
        probe = parse_probe(host.run(command, timeout_seconds=PROBE_TIMEOUT_SECONDS))
        if probe.state == WEDGED:
            self._hung = probe
        return probe


def parse_probe(result: Result) -> Probe:
    """Read nvidia-smi's answer and return code."""
    said = " ".join((result.err.strip() or result.out.strip()).split())[:300]
    if result.rc == TIMED_OUT:
        return Probe(WEDGED, message=f"nvidia-smi gave no answer within {PROBE_TIMEOUT_SECONDS:g} s and was killed")
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


def observe_xids(host: Host) -> Optional[tuple[Xid, ...]]:
    """Ask the journal for the XIDs of this boot; None when it cannot tell (it answers 1, silently, when there are none)."""
    result = host.run(XID_LINES, timeout_seconds=XID_TIMEOUT_SECONDS)
    unknown = result.rc in (TIMED_OUT, NOT_FOUND) or (not result.ok and result.err.strip())
    return None if unknown else parse_xids(result.out)


def parse_xids(text: str) -> tuple[Xid, ...]:
    """Read the driver's kernel messages: ``NVRM: Xid (PCI:0000:1b:00): 79, pid=…``; NVLink's that call themselves Nonfatal
    (``149, NETIR_LINK_EVT  Nonfatal …``) are left out.
    """
    found = re.findall(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)(?!.*\bNonfatal\b)", text)
    return tuple(dict.fromkeys(Xid(normal_pci(pci), int(number)) for pci, number in found))


def fatal(xids: Sequence[Xid]) -> tuple[Xid, ...]:
    """Return the XIDs that a reset or a restart must end."""
    return tuple(x for x in xids if x.number in FATAL_XIDS)


def normal_pci(address: str) -> str:
    """Return a PCI address as the kernel writes it: nvidia-smi says 00000000:1B:00.0, kernel messages 0000:1b:00."""
    match = re.fullmatch(r"([0-9a-fA-F]+):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?", address.strip())
    if match is None:
        return address.strip().lower()
    domain, bus, device, function = match.groups()
    return f"{int(domain, 16):04x}:{bus.lower()}:{device.lower()}.{function or '0'}"
