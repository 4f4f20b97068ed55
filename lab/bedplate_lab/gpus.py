# SPDX-License-Identifier: Apache-2.0
"""The GPUs of the lab's hosts: plugged in when a host is made, broken and healed by `scripts/lab gpu`."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bedplate_lab import gpusim, gpustate
from bedplate_lab.errors import LabError
from bedplate_lab.gpustate import GpuState, Section
from bedplate_lab.podman import Podman
from bedplate_lab.topology import HARDWARE, Host

SIMULATOR = "/usr/lib/gpu-sim/gpu-sim"
INSTALLED = "/usr/share/gpu-sim/module"
XID_TEXTS = {
    13: "Graphics Engine Exception",
    31: "MMU Fault",
    48: "DBE (double bit error)",
    63: "Row remapper: New row marked for remapping",
    79: "GPU has fallen off the bus.",
    94: "Contained: memory error",
    95: "Uncontained: memory error",
    154: "GPU recovery action changed",
}
"""How the kernel's message goes on, after NVIDIA's list of XID errors."""
MOST_XIDS = 16


def place(podman: Podman, host: Host) -> Path:
    """Where this machine sees the host's state file: in the volume behind the host's /var. It may not be there."""
    found = podman("volume", "inspect", "--format", "{{.Mountpoint}}", host.volume).stdout.strip()
    return Path(found, *Path(gpustate.PATH).parts[2:])


@contextmanager
def opened(path: Path, host: str) -> Iterator[GpuState]:
    """Yield a host's state and write it back, in place and under its lock. Raises LabError for a host without GPUs."""
    try:
        handle = path.open("r+")
    except FileNotFoundError:
        known = ", ".join(gpustate.profiles())
        raise LabError(f"host {host}: it has no GPUs. next: scripts/lab gpu {host} install PROFILE ({known})") from None
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        state = gpustate.parse(handle.read())
        yield state
        state.generation += 1
        handle.seek(0)
        handle.write(state.text())
        handle.truncate()


def read(podman: Podman, host: Host) -> GpuState | None:
    """A host's state, None for a host without GPUs. Raises LabError."""
    path = place(podman, host)
    if not path.is_file():
        return None
    with path.open() as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)
        return gpustate.parse(handle.read())


def install(podman: Podman, host: Host, machines: Sequence[tuple[str, int | None]]) -> None:
    """Give a host GPUs in the place of those it has; a driver that is loaded stays loaded. Raises LabError."""
    state = gpustate.new(host.name, *machines)
    path = place(podman, host)
    if path.is_file():
        with opened(path, host.name) as there:
            for key in ("loaded", "loaded_modules"):
                state.section("driver").set(key, there.section("driver").get(key))
            there.sections = state.sections
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(state.text())
    publish(podman, host)


def ensure(podman: Podman, hosts: Sequence[Host]) -> list[str]:
    """Give hosts of a pool the pool's hardware unless they have some; names of those that got it. Raises LabError."""
    given = []
    for host in hosts:
        if host.pool in HARDWARE and not place(podman, host).exists():
            install(podman, host, [(HARDWARE[host.pool], None)])
            given.append(host.name)
    return given


def remove(podman: Podman, host: Host) -> None:
    """Take all GPUs out of a host; a loaded driver drives nothing then."""
    path = place(podman, host)
    if path.is_file():
        with opened(path, host.name) as state:
            state.sections = [section for section in state.sections if section not in state.gpus]
        publish(podman, host)


def publish(podman: Podman, host: Host) -> None:
    """Let a running host with a driver bring /dev and /proc up to its state."""
    podman("exec", host.container, SIMULATOR, "publish", check=False)


def change(podman: Podman, host: Host, work: Callable[[GpuState], object]) -> None:
    """Alter a host's state and let the host show it. Raises LabError."""
    with opened(place(podman, host), host.name) as state:
        work(state)
    publish(podman, host)


def chosen(state: GpuState, numbers: Sequence[int], host: str) -> list[Section]:
    """The GPUs of these numbers, all for none. Raises LabError for a number the host has not."""
    gpus = state.gpus
    for number in numbers:
        if not 0 <= number < len(gpus):
            raise LabError(f"host {host}: GPU {number}: wanted 0 to {len(gpus) - 1}")
    return [gpus[number] for number in numbers] if numbers else gpus


def lose(podman: Podman, host: Host, numbers: Sequence[int], *, unplug: bool = False) -> None:
    """GPUs fall off the bus; unplugged ones are gone from it at once, without an XID. Raises LabError."""

    def work(state: GpuState) -> None:
        for gpu in chosen(state, numbers, host.name):
            gpu.set("absent" if unplug else "lost", 1)

    change(podman, host, work)
    if not unplug:
        xid(podman, host, 79, numbers)


def xid(podman: Podman, host: Host, code: int, numbers: Sequence[int]) -> None:
    """An XID error on GPUs: NVML's events get it, and the host's journal as the kernel's message. Raises LabError."""
    messages = []

    def work(state: GpuState) -> None:
        machine = state.section("host")
        for gpu in chosen(state, numbers, host.name):
            machine.set("xid_sequence", int(machine.get("xid_sequence") or 0) + 1)
            gpu.add("xid", f"{machine.get('xid_sequence')} {code} {int(time.time())}")
            for old in gpu.all("xid")[:-MOST_XIDS]:
                gpu.lines.remove(("xid", old))
            address = gpu.get("pci").rpartition(".")[0]
            text = XID_TEXTS.get(code, "error")
            messages.append(f"NVRM: Xid (PCI:{address}): {code}, pid='<unknown>', name=<unknown>, {text}")

    change(podman, host, work)
    for message in messages:
        podman("exec", host.container, "logger", "--tag", "kernel", "--priority", "user.err", message, check=False)


def ecc(podman: Podman, host: Host, numbers: Sequence[int], corrected: int, uncorrected: int) -> None:
    """Memory errors; uncorrected ones have a row remapped at the next reset and say so by XIDs 94 and 63. Raises LabError."""

    def work(state: GpuState) -> None:
        for gpu in chosen(state, numbers, host.name):
            for kind, number in (("corrected", corrected), ("uncorrected", uncorrected)):
                for key in (f"ecc_{kind}", f"ecc_{kind}_total"):
                    gpu.set(key, int(gpu.get(key) or 0) + number)
            if uncorrected:
                gpu.set("remap_pending", 1)

    change(podman, host, work)
    for code in (94, 63) if uncorrected else ():
        xid(podman, host, code, numbers)


def hang(podman: Podman, host: Host) -> None:
    """The driver answers nobody any more: nvidia-smi never returns and ignores TERM, NVML's calls block."""
    change(podman, host, lambda state: state.section("driver").set("hang", 1))


def mismatch(podman: Podman, host: Host, version: str | None) -> None:
    """The loaded module is of another version than the library (by default the other one the lab has). Raises LabError."""

    def work(state: GpuState) -> None:
        driver = state.section("driver")
        loaded = driver.get("loaded")
        if not loaded:
            raise LabError(f"host {host.name}: no driver is loaded. next: install one")
        other = version or next(one for one in gpusim.driver_versions() if one != loaded)
        driver.set("loaded", other)

    change(podman, host, work)


def heal(podman: Podman, host: Host, numbers: Sequence[int]) -> None:
    """Make GPUs whole; without numbers the driver too: it runs, in the version installed. Raises LabError."""
    found = podman("exec", host.container, "cat", INSTALLED, check=False)
    installed = found.stdout.split() if found.returncode == 0 else []

    def work(state: GpuState) -> None:
        driver = state.section("driver")
        if not numbers:
            driver.set("hang", 0)
            if driver.get("loaded") and len(installed) == 2:
                driver.set("loaded", installed[0])
                driver.set("loaded_modules", installed[1])
        for gpu in chosen(state, numbers, host.name):
            for key in ("lost", "absent", "remap_pending", "remap_failed", *ECC_KEYS):
                gpu.set(key, 0)
            gpu.drop("xid")

    change(podman, host, work)


ECC_KEYS = ("ecc_corrected", "ecc_uncorrected", "ecc_corrected_total", "ecc_uncorrected_total")


def set_values(podman: Podman, host: Host, numbers: Sequence[int], values: dict[str, str]) -> None:
    """Set keys of GPUs (lab/gpu-sim/README.md names them). Raises LabError for a key that there is not."""

    def work(state: GpuState) -> None:
        for gpu in chosen(state, numbers, host.name):
            for key, value in values.items():
                if not gpu.get(key) and key not in SETTABLE:
                    known = sorted({name for name, _ in gpu.lines} | SETTABLE)
                    raise LabError(f"GPU key {key!r}: wanted one of {', '.join(known)}")
                gpu.set(key, value)

    change(podman, host, work)


SETTABLE = frozenset({"lost", "absent", "mig", "mig_pending", "remap_pending", "remap_failed", "persistence", *ECC_KEYS})
