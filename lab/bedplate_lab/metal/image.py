# SPDX-License-Identifier: Apache-2.0
"""Disk images of the machines: Debian with its own kernel, booted by its signed shim and GRUB from an EFI partition."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

from bedplate_lab import debian, hostimage
from bedplate_lab.paths import cache, lock, new_file
from bedplate_lab.report import Report
from bedplate_lab.run import run

ROLE_PACKAGES = (
    "chrony",
    "ibverbs-providers",
    "ibverbs-utils",
    "lvm2",
    "mdadm",
    "nvme-cli",
    "perftest",
    "rdma-core",
    "rdmacm-utils",
    "xfsprogs",
)
"""What roles would install: an emulated processor unpacks slowly. The full form of the metal tests removes them first."""
PACKAGES = (
    *hostimage.PACKAGES,
    *ROLE_PACKAGES,
    "e2fsprogs",
    "grub-efi-amd64",
    "grub-efi-amd64-signed",
    "initramfs-tools",
    "kmod",
    "linux-image-amd64",
    "lz4",
    "procps",
    "shim-signed",
    "udev",
)
CUSTOMIZE = Path(__file__).with_name("customize")
SIZE_MIB = 8192
"""Of the whole disk; the file is sparse."""
ESP_START_MIB, ESP_MIB, ROOT_START_MIB = 1, 63, 64
ESP_FILES = {
    "usr/lib/shim/shimx64.efi.signed": "EFI/BOOT/BOOTX64.EFI",
    "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed": "EFI/BOOT/grubx64.efi",
    "usr/lib/shim/mmx64.efi.signed": "EFI/BOOT/mmx64.efi",
}
"""Files of the signed packages, and where firmware without a boot entry looks for them (UEFI specification, removable media)."""
GRUB_STUB = "search --no-floppy --label --set=root bedplate-root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"
"""Debian's signed GRUB reads /EFI/debian/grub.cfg on the partition it came from."""


def key(suite: str) -> str:
    """The cache key of a suite's image."""
    digest = hashlib.sha256(f"{suite} {PACKAGES} {SIZE_MIB} {ESP_FILES} {GRUB_STUB}".encode())
    for hook in (hostimage.CUSTOMIZE, CUSTOMIZE):
        digest.update(hook.read_bytes())
    return f"{suite}-{digest.hexdigest()[:12]}"


def root_path(suite: str) -> Path:
    """Where the root file system is kept, as a tar file."""
    return cache("metal", f"{key(suite)}.tar")


def path(suite: str) -> Path:
    """Where the disk image is kept; machines write into layers of their own above it."""
    return cache("metal", f"{key(suite)}.raw")


def build(suite: str, report: Report) -> Path:
    """The disk image in the cache, made when missing. Raises LabError."""
    target = path(suite)
    with lock(f"metal-{suite}"):
        if not target.is_file():
            root = root_path(suite)
            if not root.is_file():
                report(f"root file system of {suite} with its kernel")
                hooks = [f"--customize-hook={hook}" for hook in (hostimage.CUSTOMIZE, CUSTOMIZE)]
                debian.root_tar(root, PACKAGES, variant="minbase", options=hooks, suite=suite)
            report(f"disk image of {suite}")
            with new_file(target) as temporary:
                _lay_out(root, temporary)
    return target


def _lay_out(root: Path, image: Path) -> None:
    tree = image.with_name(f"{image.name}.tree")
    tree.mkdir()
    try:
        with tarfile.open(root) as tar:
            tar.extractall(tree, filter="fully_trusted")
        run(["truncate", "--size", f"{SIZE_MIB}M", str(image)])
        table = (
            "label: gpt\n"
            f"start={ESP_START_MIB}MiB, size={ESP_MIB}MiB, type=uefi, name=esp\n"
            f"start={ROOT_START_MIB}MiB, size={SIZE_MIB - ROOT_START_MIB - 1}MiB, type=linux, name=root\n"
        )
        run(["sfdisk", "--quiet", str(image)], input_text=table)
        _esp(tree, image)
        size_kib = (SIZE_MIB - ROOT_START_MIB - 1) * 1024
        run(
            [
                *("mke2fs", "-q", "-F", "-t", "ext4", "-L", "bedplate-root", "-d", str(tree)),
                *("-E", f"offset={ROOT_START_MIB * 1024**2},lazy_itable_init=1", str(image), f"{size_kib}k"),
            ]
        )
    finally:
        run(["rm", "-rf", "--one-file-system", str(tree)])


def _esp(tree: Path, image: Path) -> None:
    """Make the EFI partition and fill it; its label is what fstab mounts."""
    at = f"{image}@@{ESP_START_MIB}M"
    sector = ESP_START_MIB * 1024**2 // 512
    run(["mkfs.vfat", "--offset", str(sector), "-F", "32", "-s", "1", "-n", "BP-ESP", str(image), str(ESP_MIB * 1024)])
    for directory in ("EFI", "EFI/BOOT", "EFI/debian"):
        run(["mmd", "-i", at, f"::{directory}"])
    for source, target in ESP_FILES.items():
        run(["mcopy", "-i", at, str(tree / source), f"::{target}"])
    run(["mcopy", "-i", at, "-", "::EFI/debian/grub.cfg"], input_text=GRUB_STUB)
