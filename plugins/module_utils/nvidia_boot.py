# SPDX-License-Identifier: Apache-2.0
"""What decides at boot which driver a GPU gets: nouveau kept away, the initramfs, compiled modules, modules loaded besides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

from .core import Change
from .host import Host
from .operations import RemoveFile, RunCommand, WriteFile, file_change
from .record import RECORD_DIRECTORY

NOUVEAU_FILE = "/etc/modprobe.d/90-bedplate-nouveau.conf"
NOUVEAU_TEXT = """# Written by bedplate.metal.nvidia_driver; changes are overwritten.
blacklist nouveau
blacklist nova_core
options nouveau modeset=0
"""
MODULES_FILE = "/etc/modules-load.d/90-bedplate-nvidia.conf"
UPDATE_INITRAMFS = "/usr/sbin/update-initramfs"
STAMP = f"{RECORD_DIRECTORY}/nvidia_driver.initramfs"
"""What the initramfs images were last made with."""
BUILD_TIMEOUT_SECONDS = 1800


@dataclass(frozen=True)
class BootState:
    """files: our files and their texts. initramfs: whether the host makes such images. stamp: what they were last made with."""

    files: Mapping[str, str]
    initramfs: bool = False
    stamp: str = ""


def observe_boot(host: Host) -> BootState:
    """Read our files and the stamp."""
    files = {path: text for path in (NOUVEAU_FILE, MODULES_FILE) if (text := host.read(path)) is not None}
    return BootState(files, host.exists(UPDATE_INITRAMFS), (host.read(STAMP) or "").strip())


def observe_built(host: Host, releases: Iterable[str], module: str = "nvidia") -> dict[str, Optional[str]]:
    """Return the version of the driver's module on disk for each kernel release; None where there is none for that kernel.

    module: its name on disk (nvidia_packages.module_file). One whose vermagic names another kernel counts as none: that kernel
    refuses it.
    """
    found: dict[str, Optional[str]] = {}
    for release in releases:
        version = host.run(["modinfo", "-k", release, "-F", "version", module])
        magic = host.run(["modinfo", "-k", release, "-F", "vermagic", module]).out.split()
        fits = version.ok and magic[:1] == [release]
        found[release] = (version.out.strip() or None) if fits else None
    return found


def plan_boot_files(state: BootState, modules: Sequence[str]) -> list[Change]:
    """Keep nouveau away, load the wanted modules at boot, drop our file of modules when none are wanted."""
    changes = file_change(NOUVEAU_FILE, state.files.get(NOUVEAU_FILE), NOUVEAU_TEXT)
    found = state.files.get(MODULES_FILE)
    if modules:
        text = "# Written by bedplate.metal.nvidia_driver; changes are overwritten.\n" + "".join(f"{m}\n" for m in modules)
        changes += file_change(MODULES_FILE, found, text)
    elif found is not None:
        changes.append(Change(f"file {MODULES_FILE}", found, None, operation=RemoveFile(MODULES_FILE)))
    return changes


def plan_initramfs(state: BootState, version: str) -> list[Change]:
    """Make the images again when what they carry of ours, or the driver, changed."""
    wanted = stamp(version)
    if not state.initramfs or state.stamp == wanted:
        return []
    return [Change("initramfs", state.stamp or "made without this driver", wanted, operation=UpdateInitramfs(wanted))]


def stamp(version: str) -> str:
    """Return what the images are made with: driver version and a digest of the nouveau file."""
    return f"{version} {hashlib.sha256(NOUVEAU_TEXT.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class UpdateInitramfs:
    """Operation: make all initramfs images again, then remember what with."""

    stamp: str

    def perform(self, host: Host) -> None:
        """Run update-initramfs(8)."""
        RunCommand((UPDATE_INITRAMFS, "-u", "-k", "all"), "make the initramfs images again", 600).perform(host)
        WriteFile(STAMP, self.stamp + "\n", 0o600).perform(host)


def plan_builds(built: Mapping[str, Optional[str]], version: str) -> list[Change]:
    """Compile for each kernel that lacks the module."""
    step = "read /var/lib/dkms/nvidia*/*/build/make.log on the host"
    return [
        Change(
            f"kernel module nvidia for {release}",
            found,
            version,
            operation=RunCommand(
                ("dkms", "autoinstall", "-k", release),
                f"compile the nvidia module for kernel {release}",
                BUILD_TIMEOUT_SECONDS,
                step,
            ),
        )
        for release, found in built.items()
        if found != version
    ]
