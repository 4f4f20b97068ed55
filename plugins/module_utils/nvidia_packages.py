# SPDX-License-Identifier: Apache-2.0
"""Names of NVIDIA's driver packages per distribution, branch and source, and which of them carry the driver's version.

Sources of the names:

- NVIDIA Driver Installation Guide (https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/), chapters "Debian",
  "Ubuntu" (compute-only systems), "Version locking" and "Recent updates" (the 590 renames), and the file lists of
  https://developer.download.nvidia.com/compute/cuda/repos/{debian12,debian13,ubuntu2204,ubuntu2404}/x86_64/.
- NVIDIA Fabric Manager User Guide (https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/): fabric manager of
  exactly the driver's version; NVLink subnet manager (nvlsm) and ib_umad for fifth-generation NVLink.
- https://packages.debian.org (source package nvidia-graphics-drivers and nvidia-open-gpu-kernel-modules, section non-free) and
  https://packages.ubuntu.com (nvidia-graphics-drivers-<branch>-server, linux-modules-nvidia-*).

Every library the driver consists of is named, not only the package that pulls them in: what is named is pinned and held, and a
library that moves under a loaded module is what takes nodes down.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

DISTRIBUTIONS = ("debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04")
MODULES = ("open", "proprietary")
SOURCES = ("nvidia", "distribution")
BUILDS = ("dkms", "precompiled")

OLDEST_BRANCH = {"debian": 570, "ubuntu": 535}
"""NVIDIA's Debian packages carry today's names (nvidia-driver-cuda, …) since 570."""
LAST_PROPRIETARY_BRANCH = 610
"""Branch 620 has no proprietary modules any more (its release notes)."""
FIRST_UNSUFFIXED_UBUNTU = 590
FIRST_SPLIT_UBUNTU = 580
"""Ubuntu packages since then in the file list; before, compute-utils brought the persistence daemon."""
FIRST_UNSUFFIXED_FABRIC = 580
"""nvidia-fabricmanager-570_570.172.08-1, but nvidia-fabricmanager_580.65.06-1."""
FIRST_PINNING = 570
PINNING = "nvidia-driver-pinning-"
"""Preferences that keep apt at one driver version; they act on the apt calls after the one that installs them."""
FIRST_UBUNTU_REVISION_1 = (580, 126)
"""cuda-drivers-580 580.105.08-0ubuntu1, but 580.126.09-1ubuntu1."""


class PackageChoiceError(ValueError):
    """A combination for which there are no packages; ``str()`` says which and what to choose instead."""


@dataclass(frozen=True)
class DriverPackage:
    """One package: its name, what it is part of, and its version where NVIDIA's naming settles it.

    part: ``pin``, ``modules``, ``userspace`` or ``fabric``. of_driver: its upstream version must equal the driver's. version: the
    exact package version, None where only the repository knows the revision.
    """

    name: str
    part: str
    of_driver: bool = True
    version: Optional[str] = None


DEBIAN_USERSPACE = (
    "nvidia-driver-cuda",  # nvidia-smi
    "libcuda1",
    "libnvidia-cfg1",
    "libnvidia-gpucomp",
    "libnvidia-ml1",
    "libnvidia-nvvm4",
    "libnvidia-ptxjitcompiler1",
    "nvidia-modprobe",
    "nvidia-persistenced",
)
DEBIAN_KERNEL = ("firmware-nvidia-gsp", "nvidia-kernel-support")
UBUNTU_USERSPACE = (
    "libnvidia-compute-{b}",
    "libnvidia-cfg1-{b}",
    "nvidia-compute-utils-{b}",
    "nvidia-utils-{b}",  # nvidia-smi
)
UBUNTU_KERNEL = ("nvidia-kernel-common-{b}",)
UBUNTU_580_USERSPACE = (*UBUNTU_USERSPACE, "libnvidia-gpucomp-{b}", "nvidia-modprobe", "nvidia-persistenced")
UBUNTU_580_KERNEL = (*UBUNTU_KERNEL, "nvidia-firmware-{b}")
UBUNTU_590_USERSPACE = (
    "libnvidia-compute",
    "libnvidia-cfg1",
    "libnvidia-gpucomp",
    "nvidia-modprobe",
    "nvidia-persistenced",
)
UBUNTU_590_KERNEL = ("nvidia-firmware", "nvidia-kernel-common")

DEBIAN_OWN_USERSPACE = ("nvidia-smi", "libcuda1", "libnvidia-cfg1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1")
"""In Debian's own archive (section non-free); nvidia-modprobe and nvidia-persistenced have versions of their own there."""
UBUNTU_OWN_USERSPACE = ("libnvidia-compute-{b}-server", "nvidia-compute-utils-{b}-server", "nvidia-utils-{b}-server")
UBUNTU_OWN_KERNEL = ("nvidia-kernel-common-{b}-server",)


def parse_version(version: str) -> tuple[int, ...]:
    """Return a driver version's numbers; raise ValueError for anything but NVIDIA's form (580.126.09)."""
    if not re.fullmatch(r"\d{3}(\.\d{2,3}){1,2}", version):
        raise ValueError(f"driver version {version!r}: wanted one like 580.126.09, in quotes. Next: correct it")
    return tuple(int(part) for part in version.split("."))


def branch_of(version: str) -> int:
    """Return the branch a driver version belongs to."""
    return parse_version(version)[0]


def upstream_version(package_version: str) -> str:
    """Return a package version without epoch and revision: what NVIDIA calls the driver version."""
    without_epoch = package_version.rpartition(":")[2]
    return without_epoch.partition("-")[0]


def driver_packages(
    distribution: str,
    version: str,
    modules: str,
    *,
    fabric: bool = False,
    nvlsm: bool = False,
    source: str = "nvidia",
    build: str = "dkms",
    kernel: str = "",
    userspace: bool = True,
) -> tuple[DriverPackage, ...]:
    """Return the packages of a driver, in the order they are listed to an operator.

    distribution: one of :data:`DISTRIBUTIONS`. version: the driver's (580.126.09). modules: open or proprietary. fabric: the
    machine has NVSwitches; nvlsm: of the fifth generation of NVLink or later. source: NVIDIA's repository or the
    distribution's own archive. build: compiled on the host, or precompiled (and signed) for one kernel by Ubuntu; kernel: that
    kernel's release. userspace: also libraries and tools; without, only the kernel modules. Raises :class:`PackageChoiceError`.
    """
    family = distribution.partition("-")[0]
    branch = branch_of(version)
    _check(distribution, branch, modules, source, build)
    if source == "distribution":
        found = _debian_own(modules) if family == "debian" else _ubuntu_own(branch, modules, build, kernel)
        if fabric:
            if family == "debian":
                raise PackageChoiceError(
                    "Debian's own archive has no fabric manager, which machines with NVSwitches need; set driver source nvidia"
                )
            found += [DriverPackage(f"{n}-{branch}", "fabric") for n in ("nvidia-fabricmanager", "libnvidia-nscq")]
    else:
        found = _nvidia(family, branch, version, modules)
        if fabric:
            suffix = "" if branch >= FIRST_UNSUFFIXED_FABRIC else f"-{branch}"
            found += [
                DriverPackage(f"{name}{suffix}", "fabric", version=f"{version}-1")
                for name in ("nvidia-fabricmanager", "libnvidia-nscq")
            ]
            if nvlsm:
                found.append(DriverPackage("nvlsm", "fabric", of_driver=False))
    return tuple(p for p in found if userspace or p.part == "modules")


def module_file(distribution: str, source: str, modules: str) -> str:
    """Return what the driver's main module is called on disk; Debian's own packages have names by kind and load it as nvidia."""
    if source == "distribution" and distribution.startswith("debian-"):
        return "nvidia-current-open" if modules == "open" else "nvidia-current"
    return "nvidia"


def precompiled(branch: int, modules: str) -> str:
    """Return the names of Ubuntu's precompiled modules up to the kernel's release or flavour."""
    return f"linux-modules-nvidia-{branch}-server-{'open-' if modules == 'open' else ''}"


def _check(distribution: str, branch: int, modules: str, source: str, build: str) -> None:
    choices = ((distribution, DISTRIBUTIONS), (modules, MODULES), (source, SOURCES), (build, BUILDS))
    for value, known in choices:
        if value not in known:
            raise PackageChoiceError(f"{value!r}: found no such choice; wanted one of {', '.join(known)}. Next: choose one")
    family = distribution.partition("-")[0]
    if source == "nvidia" and branch < OLDEST_BRANCH[family]:
        raise PackageChoiceError(
            f"driver branch {branch} on {distribution}: found too old for these packages; wanted {OLDEST_BRANCH[family]} or newer"
        )
    if modules == "proprietary" and branch > LAST_PROPRIETARY_BRANCH:
        raise PackageChoiceError(
            f"proprietary modules of branch {branch}: NVIDIA ships none after {LAST_PROPRIETARY_BRANCH}; set modules to open"
        )
    if build == "precompiled" and (family != "ubuntu" or source != "distribution"):
        raise PackageChoiceError(
            f"precompiled modules on {distribution} from {source}: only Ubuntu's own archive has them; set driver build to dkms"
        )


def _nvidia(family: str, branch: int, version: str, modules: str) -> list[DriverPackage]:
    found = []
    kernel: tuple[str, ...]
    userspace: tuple[str, ...]
    if branch >= FIRST_PINNING:
        found.append(DriverPackage(PINNING + version, "pin", version=f"{version}-1"))
    if family == "debian":
        kernel = ("nvidia-kernel-open-dkms" if modules == "open" else "nvidia-kernel-dkms", *DEBIAN_KERNEL)
        userspace, revision = DEBIAN_USERSPACE, "1"
    else:
        revision = "1ubuntu1" if parse_version(version) >= FIRST_UBUNTU_REVISION_1 else "0ubuntu1"
        if branch >= FIRST_UNSUFFIXED_UBUNTU:
            open_suffix = "-open" if modules == "open" else ""
            kernel = (f"nvidia-dkms{open_suffix}", f"nvidia-kernel-source{open_suffix}", *UBUNTU_590_KERNEL)
            userspace = UBUNTU_590_USERSPACE
        else:
            suffix = f"{branch}-open" if modules == "open" else str(branch)
            later = branch >= FIRST_SPLIT_UBUNTU
            kernel = (f"nvidia-dkms-{suffix}", f"nvidia-kernel-source-{suffix}", *(UBUNTU_580_KERNEL if later else UBUNTU_KERNEL))
            userspace = UBUNTU_580_USERSPACE if later else UBUNTU_USERSPACE
    exact = f"{version}-{revision}"
    found += [DriverPackage(name.format(b=branch), "modules", version=exact) for name in kernel]
    return found + [DriverPackage(name.format(b=branch), "userspace", version=exact) for name in userspace]


def _debian_own(modules: str) -> list[DriverPackage]:
    kernel = "nvidia-open-kernel-dkms" if modules == "open" else "nvidia-kernel-dkms"
    return [
        DriverPackage(kernel, "modules"),
        *(DriverPackage(name, "userspace") for name in DEBIAN_OWN_USERSPACE),
        *(DriverPackage(name, "userspace", of_driver=False) for name in ("nvidia-modprobe", "nvidia-persistenced")),
    ]


def _ubuntu_own(branch: int, modules: str, build: str, kernel: str) -> list[DriverPackage]:
    suffix = f"{branch}-server-open" if modules == "open" else f"{branch}-server"
    if build == "precompiled":
        # its version is the kernel's, so only its dependency on nvidia-kernel-common ties it to the driver
        modules_package = DriverPackage(precompiled(branch, modules) + kernel, "modules", of_driver=False)
    else:
        modules_package = DriverPackage(f"nvidia-dkms-{suffix}", "modules")
    return [
        modules_package,
        *(DriverPackage(name.format(b=branch), "modules") for name in UBUNTU_OWN_KERNEL),
        *(DriverPackage(name.format(b=branch), "userspace") for name in UBUNTU_OWN_USERSPACE),
    ]
