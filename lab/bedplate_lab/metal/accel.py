# SPDX-License-Identifier: Apache-2.0
"""Which acceleration virtual machines can have here, found by booting: a device file says nothing of what runs on it."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

QEMU = "qemu-system-x86_64"
PROBE_SECONDS = 10
TCG = "tcg,thread=multi,tb-size=512"
# mov dx,3f8h; mov al,'K'; out dx,al; mov al,0; mov dx,501h; out dx,al; hlt — writes to the serial port and leaves QEMU.
SECTOR = bytes.fromhex("baf803b04beeb000ba0105eef4ebfd").ljust(510, b"\0") + b"\x55\xaa"


@functools.cache
def probe() -> str:
    """QEMU's `-accel` value: `kvm` where a boot sector runs under it within PROBE_SECONDS, otherwise emulation."""
    if not Path("/dev/kvm").exists():
        return TCG
    with tempfile.TemporaryDirectory() as work:
        image, serial = Path(work, "probe.img"), Path(work, "serial")
        image.write_bytes(SECTOR)
        command = [
            *(QEMU, "-accel", "kvm", "-m", "16", "-display", "none", "-nodefaults", "-no-reboot"),
            *("-drive", f"file={image},format=raw,if=ide,readonly=on", "-serial", f"file:{serial}"),
            *("-device", "isa-debug-exit,iobase=0x501,iosize=1"),
        ]
        try:
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return TCG
        return "kvm" if serial.is_file() and serial.read_bytes() == b"K" else TCG
