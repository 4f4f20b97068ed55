# SPDX-License-Identifier: Apache-2.0
"""Erasing the disks of a volume between tenants, by the best way each controller has, with a record of it on the host.

A controller's abilities are bits of the NVM Express base specification, "Identify Controller data structure" (OACS, FNA,
SANICAP); the states of a sanitize operation are those of its "Sanitize Status" log page.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from .core import Change
from .errors import BedplateError
from .host import Host
from .nvme_choose import in_use
from .nvme_disks import SYS_BLOCK, Disk, Storage, content, observe_storage, scan
from .nvme_operations import AGAIN, blank, forget, release, remember, run
from .nvme_volumes import ERASING, NAME, Entry, load_entries
from .operations import last_lines
from .packages import AptInstall
from .record import Record

SANITIZE_CRYPTO, SANITIZE_BLOCK = "sanitize, crypto erase", "sanitize, block erase"
FORMAT_CRYPTO, FORMAT_ERASE = "format, crypto erase", "format, user data erase"
DISCARD, OVERWRITE = "discard", "overwrite with random data"
ERASE_TIMEOUT_SECONDS = 3600.0
POLL_SECONDS = 2.0
SLOWEST_BYTES_PER_SECOND = 50_000_000
"""An overwrite that is slower than this is taken for stuck."""
NVME = "nvme-cli"


@dataclass(frozen=True)
class Erasure:
    """What is to be erased. mount: where the volume may be mounted. overwrite: permitted where a controller offers nothing."""

    volume: str
    mount: str
    overwrite: bool = False
    lock_timeout_seconds: int = 300


@dataclass(frozen=True)
class Clock:
    """The host's time, and waiting."""

    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic


def erase(host: Host, erasure: Erasure, *, check: bool, clock: Clock = Clock()) -> list[Change]:
    """Erase a volume's disks; return one change for each, with its method. Killed at any point, the same call starts over.

    Raises :class:`BedplateError` before anything is touched where a disk is absent, in use, or has no way to be erased.
    """
    entry = load_entries(host).get(erasure.volume)
    if entry is None:
        known = ", ".join(load_entries(host)) or "none"
        step = "name a volume of this host; disks that are no volume's are wiped by nvme_wipe"
        raise BedplateError(f"volume {erasure.volume}: found no such volume made here (made are {known}). Next: {step}")
    disks = _disks(entry, observe_storage(host, edges=False), erasure)
    if not check and not (host.exists("/usr/sbin/nvme") or host.exists("/sbin/nvme")):
        AptInstall({NVME: None}, lock_timeout_seconds=erasure.lock_timeout_seconds).perform(host)
    methods = {disk.serial: method_of(host, disk, erasure.overwrite) for disk in disks}
    changes = [Change(f"disk {disk.serial}", content(disk) or "blank", f"erased: {methods[disk.serial]}") for disk in disks]
    if check:
        return changes
    for disk in disks:
        storage = scan(host)  # what held the one before is stopped by now
        release(host, storage.disk(disk.serial), storage, erasure.mount)
    remember(host, replace(entry, state=ERASING))
    for serial, method in methods.items():
        _erase(host, serial, method, clock)
    _write_down(host, entry, disks, methods, clock)
    forget(host, entry.serials)
    return changes


def _disks(entry: Entry, storage: Storage, erasure: Erasure) -> list[Disk]:
    absent = [serial for serial in entry.serials if sum(d.serial == serial for d in storage.disks) != 1]
    if absent:
        step = "a disk that is gone takes its data along: destroy it, or put it back; then repeat"
        found = f"no disk {', '.join(absent)}"
        raise BedplateError(f"volume {entry.name}: found {found}; wanted all of its disks. Next: {step}; nothing was erased")
    disks = [storage.disk(serial) for serial in entry.serials]
    for disk in disks:
        busy = in_use(disk, storage, entry.serials, erasure.mount)
        if busy:
            step = "see what uses it (findmnt, lsblk), then repeat; nothing was erased"
            raise BedplateError(f"disk {disk.serial} of volume {entry.name}: found it {busy}; wanted it free. Next: {step}")
    return disks


def method_of(host: Host, disk: Disk, overwrite: bool) -> str:
    """Return how a disk is erased; raise :class:`BedplateError` where there is no way that is permitted."""
    result = host.run(["nvme", "id-ctrl", disk.path, "--output-format=json"])
    try:
        found = json.loads(result.out) if result.ok else {}
    except ValueError:
        found = {}
    oacs, fna, sanicap = (int(found.get(key, 0)) for key in ("oacs", "fna", "sanicap"))
    if sanicap & 0b01:
        return SANITIZE_CRYPTO
    if sanicap & 0b10:
        return SANITIZE_BLOCK
    if oacs & 0b10:
        return FORMAT_CRYPTO if fna & 0b100 else FORMAT_ERASE
    discards = (host.read(f"{SYS_BLOCK}/{disk.name}/queue/discard_max_bytes") or "0").strip()
    if discards != "0":
        return DISCARD
    if overwrite:
        return OVERWRITE
    told = last_lines(result.err, 1) or f"oacs {oacs:#x}, fna {fna:#x}, sanicap {sanicap:#x}, no discard"
    raise BedplateError(
        f"disk {disk.serial}: found no way its controller erases it ({told}); wanted sanitize, format or discard. "
        "Next: permit the hours of an overwrite (-e bedplate_wipe_overwrite=true), or destroy the disk; nothing was erased"
    )


def _erase(host: Host, serial: str, method: str, clock: Clock) -> None:
    disk = observe_storage(host, edges=False).disk(serial)
    purpose = f"erase disk {serial}"
    blank(host, disk)  # refuses a disk that anything has open, which format and sanitize do not
    if method in (SANITIZE_CRYPTO, SANITIZE_BLOCK):
        run(host, ["nvme", "sanitize", disk.path, f"--sanact={4 if method == SANITIZE_CRYPTO else 2}"], purpose)
        _sanitized(host, disk, clock)
    elif method in (FORMAT_CRYPTO, FORMAT_ERASE):
        argv = ["nvme", "format", disk.path, f"--ses={2 if method == FORMAT_CRYPTO else 1}", "--force"]
        run(host, argv, purpose, ERASE_TIMEOUT_SECONDS)
    elif method == DISCARD:
        run(host, ["blkdiscard", disk.path], purpose, ERASE_TIMEOUT_SECONDS)
    else:
        seconds = ERASE_TIMEOUT_SECONDS + disk.size_bytes / SLOWEST_BYTES_PER_SECOND
        run(host, ["shred", "--iterations=1", disk.path], purpose, seconds)
    blank(host, disk)  # what an erased disk reads as is the controller's choice, and a blank one reads as zeros
    left = content(observe_storage(host, edges=True).disk(serial))
    if left:
        raise BedplateError(f"disk {serial}: found {left} after {method}; wanted it blank. Next: {AGAIN}")


def _sanitized(host: Host, disk: Disk, clock: Clock) -> None:
    end = clock.monotonic() + ERASE_TIMEOUT_SECONDS
    while True:
        result = host.run(["nvme", "sanitize-log", disk.path])
        match = re.search(r"\(SSTAT\)\s*:\s*(?:0x)?([0-9a-fA-F]+)", result.out)
        status = int(match.group(1), 16) & 0b111 if match else None
        if status in (1, 4):  # ended well, the second one without a deallocation
            return
        if status != 2 or clock.monotonic() >= end:
            found = f"sanitize status {status}" if match else last_lines(result.err or result.out, 1)
            raise BedplateError(f"disk {disk.serial}: found {found}; wanted it sanitized. Next: nvme sanitize-log {disk.path}")
        clock.sleep(POLL_SECONDS)


def _write_down(host: Host, entry: Entry, disks: list[Disk], methods: dict[str, str], clock: Clock) -> None:
    """Add the erasure to the host's record: when, by the host's clock, which volume, and how each disk."""
    record = Record.load(host, NAME)
    shown = [{"serial": d.serial, "model": d.model, "bytes": d.size_bytes, "method": methods[d.serial]} for d in disks]
    erased = {"when": clock.now().isoformat(timespec="seconds"), "volume": entry.name, "disks": shown}
    record.remembering(erasures=[*record.data.get("erasures", []), erased]).save(host)
