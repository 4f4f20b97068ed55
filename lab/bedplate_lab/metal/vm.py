# SPDX-License-Identifier: Apache-2.0
"""The machines as QEMU processes: disks, firmware, start, console, power off."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from bedplate_lab import ssh
from bedplate_lab.errors import LabError
from bedplate_lab.metal import accel, disks, image, network
from bedplate_lab.metal.plan import Machine
from bedplate_lab.report import Report
from bedplate_lab.run import run
from bedplate_lab.topology import DEPOT_ADDRESS, DEPOT_NAME, GATEWAY

FIRMWARE = Path("/usr/share/OVMF")
CODE = {False: "OVMF_CODE_4M.fd", True: "OVMF_CODE_4M.ms.fd"}
VARIABLES = {False: "OVMF_VARS_4M.fd", True: "OVMF_VARS_4M.ms.fd"}
"""Of Debian's package ovmf; the `ms` ones have Microsoft's keys enrolled, which signed Debian's shim, and enforce them."""
BOOT_SECONDS = 420
SHUTDOWN_SECONDS = 120
CONSOLE_LINES = 25
SETUP = Path(__file__).with_name("setup.sh")


def running(machine: Machine) -> int | None:
    """The process of a machine that runs, None for one that does not."""
    try:
        pid = int(machine.path("pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if str(machine.path("system.qcow2")).encode() in b" ".join(command) else None


def create(machine: Machine, public_key: str, report: Report) -> None:
    """Make what is missing of a machine: its layer above the suite's image, its NVMe disks, firmware variables, its setup."""
    base = image.build(machine.suite, report)
    machine.path().mkdir(parents=True, exist_ok=True)
    system = machine.path("system.qcow2")
    if not system.exists():
        ssh.forget(machine.address)
        _qcow2(system, "-b", str(base), "-F", "raw")
        shutil.copyfile(FIRMWARE / VARIABLES[machine.secure_boot], machine.path("vars.fd"))
    disks.create(machine)
    values = {
        "name": machine.name,
        "address": machine.address,
        "gateway": GATEWAY,
        "mac": machine.mac,
        "public_key": public_key,
        "depot": f"{DEPOT_ADDRESS} {DEPOT_NAME}",
    }
    machine.path("setup").write_text("".join(f"{key}='{value}'\n" for key, value in values.items()) + SETUP.read_text())


def _qcow2(path: Path, *options: str) -> None:
    run(["qemu-img", "create", "-q", "-f", "qcow2", *options, str(path)])


def arguments(machine: Machine) -> list[str]:
    """The command line that runs a machine, inside the metal lab's network namespace."""
    secure = machine.secure_boot
    management, fabric = network.taps(machine)
    drives = [f"if=pflash,unit=0,format=raw,readonly=on,file={FIRMWARE / CODE[secure]}"]
    drives.append(f"if=pflash,unit=1,format=raw,file={machine.path('vars.fd')}")
    drives.append(f"if=none,id=system,format=qcow2,cache=unsafe,discard=unmap,file={machine.path('system.qcow2')}")
    devices = ["virtio-blk-pci,drive=system,bootindex=0", "virtio-rng-pci"]
    nets = []
    for place, name, tap, mac in ((7, "mgmt", management, machine.mac), (8, "fabric", fabric, machine.fabric_mac)):
        nets.append(f"tap,id={name},ifname={tap},script=no,downscript=no")
        devices.append(f"virtio-net-pci,netdev={name},mac={mac},host_mtu={network.MTU[name]},romfile=,addr={place}")
    return [
        accel.QEMU,
        *("-name", f"bedplate-{machine.name}", "-machine", f"q35,smm={'on' if secure else 'off'}", "-accel", accel.probe()),
        *(("-global", "driver=cfi.pflash01,property=secure,value=on") if secure else ()),
        *("-cpu", "host" if accel.probe() == "kvm" else "Nehalem", "-smp", str(machine.cores), "-m", str(machine.memory_mib)),
        *("-display", "none", "-nodefaults", "-no-user-config"),
        *("-chardev", f"file,id=console,path={machine.path('console')},append=on", "-serial", "chardev:console"),
        *("-qmp", f"unix:{machine.path('qmp')},server=on,wait=off", "-pidfile", str(machine.path("pid"))),
        *("-smbios", f"type=11,path={machine.path('setup')}"),
        *(part for drive in drives for part in ("-drive", drive)),
        *(part for net in nets for part in ("-netdev", net)),
        *(part for device in devices for part in ("-device", device)),
        *disks.arguments(machine),
    ]


def start(machine: Machine) -> bool:
    """Switch a machine on; False when it runs. Raises LabError when QEMU ends at once."""
    if running(machine):
        return False
    machine.path("qmp").unlink(missing_ok=True)
    log = machine.path("qemu.log")
    with log.open("w") as output:
        process = subprocess.Popen(
            network.inside(*arguments(machine)), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        if machine.path("qmp").exists() and running(machine):
            return True
        time.sleep(0.05)
    raise LabError(f"machine {machine.name}: QEMU did not start: {log.read_text().strip()[-800:] or 'it said nothing'}")


def wait(machine: Machine, seconds: float = BOOT_SECONDS) -> None:
    """Wait until a machine answers on SSH. Raises LabError with its console's last lines."""
    try:
        ssh.wait(machine.address, seconds, lambda: running(machine) is not None)
    except LabError as error:
        raise LabError(
            f"machine {machine.name} ({machine.address}): {error}; its console ends with:\n{console(machine)}\n"
            f"  next: scripts/lab metal console {machine.name}, or scripts/lab metal reset {machine.name}"
        ) from error


def console(machine: Machine, lines: int = CONSOLE_LINES) -> str:
    """The last lines of a machine's console, indented, without the terminal's control sequences."""
    try:
        text = machine.path("console").read_text(errors="replace")
    except OSError:
        return "    (nothing)"
    plain = "".join(part for part in text if part in "\n\t" or part >= " ")
    kept = [line for line in plain.splitlines() if line.strip()][-lines:]
    return "\n".join(f"    {line}" for line in kept) or "    (nothing)"


def reboot(machine: Machine, seconds: float = BOOT_SECONDS) -> None:
    """Have a machine's system reboot and wait until it is another boot that answers. Raises LabError."""
    before = boot_id(machine)
    run(ssh.command(machine.address, "sudo systemctl reboot"), check=False, timeout_seconds=SHUTDOWN_SECONDS)
    ssh.close(machine.address)
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    while time.monotonic() < deadline:
        wait(machine, seconds)
        if boot_id(machine) != before:
            return
        ssh.close(machine.address)
        time.sleep(1)
    raise LabError(
        f"machine {machine.name}: still the same boot {SHUTDOWN_SECONDS} s after it was told to reboot:\n{console(machine)}"
    )


def boot_id(machine: Machine) -> str:
    """Which boot of the machine this is; empty when it does not answer."""
    result = run(ssh.command(machine.address, "cat /proc/sys/kernel/random/boot_id"), check=False, timeout_seconds=30)
    return result.stdout.strip()


def stop(machine: Machine) -> bool:
    """Switch a machine off at once, as if its cord was pulled; False when it did not run."""
    pid = running(machine)
    if pid is None:
        return False
    ssh.close(machine.address)
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 10
    while running(machine) and time.monotonic() < deadline:
        time.sleep(0.05)
    if running(machine):
        os.kill(pid, signal.SIGKILL)
    return True
