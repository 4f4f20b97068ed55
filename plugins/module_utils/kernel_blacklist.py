# SPDX-License-Identifier: Apache-2.0
"""Kernel modules kept away at boot, and the initramfs images that must know of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from .core import Change, Problem
from .host import Host
from .kernel_command_line import BOOT
from .operations import RemoveFile, RunCommand, WriteFile, file_change
from .record import RECORD_DIRECTORY

BLACKLIST_FILE = "/etc/modprobe.d/90-bedplate.conf"
UPDATE_INITRAMFS = "/usr/sbin/update-initramfs"
IMAGES = "/boot/initrd.img-*"
STAMP = f"{RECORD_DIRECTORY}/kernel.initramfs"
"""A digest of our file as the images were last made with it."""
TIMEOUT_SECONDS = 900
SPARE_BYTES = 32 * 1024**2
"""Left on /boot beside a new image, which is made beside the old one: GRUB's configuration is written there too."""


@dataclass(frozen=True)
class Blacklist:
    """file: our file's text. loaded: blacklisted modules that are loaded. images: initramfs images this host makes. stamp: see
    :data:`STAMP`. free_bytes, largest_bytes: room on /boot and its largest image; asked only where images are to be made.
    """

    file: Optional[str] = None
    loaded: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    stamp: str = ""
    free_bytes: int = 0
    largest_bytes: int = 0


def render(modules: Sequence[str]) -> Optional[str]:
    """Return our file's text, None when no module is to be kept away."""
    if not modules:
        return None
    return "# Written by Bedplate; changes are overwritten.\n" + "".join(f"blacklist {m}\n" for m in modules)


def digest(text: Optional[str]) -> str:
    """Return what the images are made with; "" for nothing of ours."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def observe_blacklist(host: Host, modules: Sequence[str]) -> Blacklist:
    """Read our files and /sys/module; the room on /boot only when it matters."""
    loaded = tuple(m for m in modules if host.exists(f"/sys/module/{m.replace('-', '_')}/refcnt"))  # built-in ones have none
    images = tuple(host.glob(IMAGES)) if host.exists(UPDATE_INITRAMFS) else ()
    found = Blacklist(host.read(BLACKLIST_FILE), loaded, images, (host.read(STAMP) or "").strip())
    if not images or found.stamp == digest(render(modules)):
        return found
    free = _numbers(host.run(["df", "-B1", "--output=avail", "/boot"]).out)
    sizes = _numbers(host.run(["stat", "-L", "-c", "%s", *images]).out)
    return Blacklist(found.file, loaded, images, found.stamp, min(free, default=0), max(sizes, default=0))


@dataclass(frozen=True)
class UpdateInitramfs:
    """Operation: make all images again, then remember what with."""

    stamp: str

    def perform(self, host: Host) -> None:
        """Run update-initramfs(8)."""
        RunCommand((UPDATE_INITRAMFS, "-u", "-k", "all"), "make the initramfs images again", TIMEOUT_SECONDS).perform(host)
        if self.stamp:
            WriteFile(STAMP, self.stamp + "\n", 0o600).perform(host)
        else:
            host.remove(STAMP)


def plan_blacklist(observed: Blacklist, modules: Sequence[str]) -> tuple[list[Change], list[Problem]]:
    """Plan our file, the images when what they carry of ours changed, and the reboot that sheds loaded modules."""
    text = render(modules)
    effects = BOOT if observed.loaded else frozenset[str]()
    changes = []
    if text is not None:
        changes += file_change(BLACKLIST_FILE, observed.file, text, effects=effects)
    elif observed.file is not None:
        changes.append(Change(f"file {BLACKLIST_FILE}", observed.file, None, effects, RemoveFile(BLACKLIST_FILE)))
    wanted = digest(text)
    if observed.images and observed.stamp != wanted:
        needed = observed.largest_bytes + SPARE_BYTES
        if observed.free_bytes < needed:
            found = f"{observed.free_bytes // 1024**2} MiB free"
            step = "remove kernels that are not needed any more (apt-get autoremove --purge); nothing was changed"
            return [], [Problem("/boot", found, f"{needed // 1024**2} MiB for a new initramfs beside the old one", step)]
        before, after = (f"with blacklist {stamp}" if stamp else "without a blacklist" for stamp in (observed.stamp, wanted))
        changes.append(Change("initramfs", before, after, effects, UpdateInitramfs(wanted), tuple(c.what for c in changes)))
    needs = tuple(c.what for c in changes)
    return changes + [Change(f"module {m}", "loaded", "not loaded (blacklisted)", BOOT, needs=needs) for m in observed.loaded], []


def _numbers(text: str) -> list[int]:
    return [int(line.split()[0]) for line in text.splitlines() if line.split()[:1] and line.split()[0].isdigit()]
