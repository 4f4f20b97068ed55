# SPDX-License-Identifier: Apache-2.0
"""Disk images of the machines: a distribution with its own kernel, booted by its signed shim and GRUB from an EFI partition."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path

from bedplate_lab import debian, hostimage, ubuntu
from bedplate_lab.paths import cache, lock, new_file
from bedplate_lab.report import Report
from bedplate_lab.run import run

ROLE_PACKAGES = (
    "chrony",
    "fio",
    "ibverbs-providers",
    "ibverbs-utils",
    "lvm2",
    "mdadm",
    "nfs-common",
    "nvme-cli",
    "perftest",
    "rdma-core",
    "rdmacm-utils",
    "xfsprogs",
)
"""What roles would install: an emulated processor unpacks slowly. The full form of the metal tests removes them first.

Ubuntu's image is without them; its tests are of the full form."""
PACKAGES = (
    *hostimage.PACKAGES,
    "e2fsprogs",
    "grub-efi-amd64",
    "grub-efi-amd64-signed",
    "initramfs-tools",
    "kmod",
    "lz4",
    "procps",
    "shim-signed",
    "udev",
)
KERNEL = {"debian": "linux-image-amd64", "ubuntu": "linux-image-virtual"}
"""Ubuntu's generic kernel is the same one with modules for hardware that is not here, and with all firmware."""
READ_AS_ROOT = '--aptopt=APT::Sandbox::User "root"'
"""Ubuntu's key ring lies in the cache, which apt's own user may not read where it is below root's home."""
CUSTOMIZE = Path(__file__).with_name("customize")
SIZE_MIB = 8192
"""Of the whole disk; the file is sparse."""
ESP_START_MIB, ESP_MIB, ROOT_START_MIB = 1, 63, 64
ESP_FILES = {
    "debian": {
        "usr/lib/shim/shimx64.efi.signed": "EFI/BOOT/BOOTX64.EFI",
        "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed": "EFI/BOOT/grubx64.efi",
        "usr/lib/shim/mmx64.efi.signed": "EFI/BOOT/mmx64.efi",
    },
    "ubuntu": {
        "usr/lib/shim/shimx64.efi.signed.latest": "EFI/BOOT/BOOTX64.EFI",
        "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed": "EFI/BOOT/grubx64.efi",
        "usr/lib/shim/mmx64.efi": "EFI/BOOT/mmx64.efi",
    },
}
"""Files of the signed packages, and where firmware without a boot entry looks for them (UEFI specification, removable media)."""
GRUB_STUB = "search --no-floppy --label --set=root bedplate-root\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"
"""A distribution's signed GRUB reads /EFI/DISTRIBUTION/grub.cfg on the partition it came from."""


def distribution(suite: str) -> str:
    """Whose suite it is: `debian` or `ubuntu`."""
    return "ubuntu" if suite in ubuntu.SUITES else "debian"


def packages(suite: str) -> tuple[str, ...]:
    """What is in a suite's image."""
    vendor = distribution(suite)
    return (*PACKAGES, *(ROLE_PACKAGES if vendor == "debian" else ()), KERNEL[vendor])


def key(suite: str) -> str:
    """The cache key of a suite's image."""
    digest = hashlib.sha256(f"{suite} {packages(suite)} {SIZE_MIB} {ESP_FILES[distribution(suite)]} {GRUB_STUB}".encode())
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
                options = [READ_AS_ROOT, *(f"--customize-hook={hook}" for hook in (hostimage.CUSTOMIZE, CUSTOMIZE))]
                archive = ubuntu.archive(suite, report) if distribution(suite) == "ubuntu" else None
                debian.root_tar(root, packages(suite), variant="minbase", options=options, suite=suite, archive=archive)
            report(f"disk image of {suite}")
            with new_file(target) as temporary:
                _lay_out(distribution(suite), root, temporary)
    return target


def _lay_out(vendor: str, root: Path, image: Path) -> None:
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
        _esp(vendor, tree, image)
        size_kib = (SIZE_MIB - ROOT_START_MIB - 1) * 1024
        run(
            [
                *("mke2fs", "-q", "-F", "-t", "ext4", "-L", "bedplate-root", "-d", str(tree)),
                *("-E", f"offset={ROOT_START_MIB * 1024**2},lazy_itable_init=1", str(image), f"{size_kib}k"),
            ]
        )
    finally:
        run(["rm", "-rf", "--one-file-system", str(tree)])


def _esp(vendor: str, tree: Path, image: Path) -> None:
    """Make the EFI partition and fill it; its label is what fstab mounts."""
    at = f"{image}@@{ESP_START_MIB}M"
    sector = ESP_START_MIB * 1024**2 // 512
    run(["mkfs.vfat", "--offset", str(sector), "-F", "32", "-s", "1", "-n", "BP-ESP", str(image), str(ESP_MIB * 1024)])
    for directory in ("EFI", "EFI/BOOT", f"EFI/{vendor}"):
        run(["mmd", "-i", at, f"::{directory}"])
    for source, target in ESP_FILES[vendor].items():
        run(["mcopy", "-i", at, str(tree / source), f"::{target}"])
    run(["mcopy", "-i", at, "-", f"::EFI/{vendor}/grub.cfg"], input_text=GRUB_STUB)
