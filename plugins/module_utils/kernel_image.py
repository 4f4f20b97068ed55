# SPDX-License-Identifier: Apache-2.0
"""The kernel's package, its headers, the modules compiled for it, and whether the kernel that runs is the one that boots next."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import UNKNOWN, Change, Problem
from .dkms import Dkms, compile_modules, observe_dkms
from .host import Host
from .kernel_command_line import BOOT
from .kernel_headers import IMAGES, Kernels, observe_kernels
from .packages import PackageState, package_problems, plan_packages

RUNNING = "running kernel"
COMPILED = "DKMS modules of the kernel that boots next"


@dataclass(frozen=True)
class ImageDesired:
    """package: linux-image-…, a meta package or one kernel's; "" with a version: the meta package that is installed. version: of
    the package, "" for any. headers: drivers are compiled on the host.
    """

    package: str = ""
    version: str = ""
    headers: bool = False
    lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS


@dataclass(frozen=True)
class Image:
    """kernels, dkms: what is there. release: the kernel that the wanted package stands for, "" when that is not known (yet)."""

    kernels: Kernels = field(default_factory=Kernels)
    dkms: Dkms = field(default_factory=Dkms)
    release: str = ""


def observe_image(host: Host, desired: ImageDesired) -> Image:
    """Look at /boot and DKMS' tree; dpkg is asked only where there are kernels or one is wanted."""
    if not host.glob(IMAGES) and not desired.package and not desired.version:
        return Image(Kernels((host.read("/proc/sys/kernel/osrelease") or "").strip()))
    kernels = observe_kernels(host)
    name = package_name(kernels, desired)
    release = _release(name)
    if name and not release:
        depends = host.run(["dpkg-query", "-W", "-f", "${Depends}", name]).out
        release = next((r for n in re.findall(r"[^\s,|()]+", depends) if (r := _release(n))), "")
    return Image(kernels, observe_dkms(host, [kernels.next]), release)


def package_name(kernels: Kernels, desired: ImageDesired) -> str:
    """Return the package meant, "" when none is or when it cannot be told."""
    if desired.package or not desired.version:
        return desired.package
    return kernels.meta[0] if len(kernels.meta) == 1 else ""


def header_package(package: str) -> str:
    """Return the package of an image package's headers: Ubuntu's unsigned images have those of the signed ones."""
    return re.sub(r"^linux-image-(unsigned-)?", "linux-headers-", package)


def wanted_image_packages(image: Image, desired: ImageDesired) -> dict[str, str | None]:
    """Return the packages at their versions: the image, and its headers where modules are compiled."""
    name = package_name(image.kernels, desired)
    names = [name, *([header_package(name)] if desired.headers or image.dkms.modules else [])] if name else []
    return dict.fromkeys(names, desired.version or None)


def next_headers(image: Image, desired: ImageDesired) -> str:
    """Return the package with the headers that the kernel that boots next lacks, "" when it lacks none or needs none."""
    release = image.kernels.next
    needed = bool(image.kernels.installed) and (desired.headers or bool(image.dkms.modules))
    return f"linux-headers-{release}" if needed and release not in image.kernels.with_headers else ""


@dataclass(frozen=True)
class CompileForNext:
    """Operation: compile what the kernel that boots next lacks, whichever that is by now."""

    def perform(self, host: Host) -> None:
        """Compile; the packages' own hooks have mostly done it already."""
        compile_modules(host, observe_kernels(host).next)


def plan_image(image: Image, packages: Mapping[str, PackageState], desired: ImageDesired) -> tuple[list[Change], list[Problem]]:
    """Plan packages, modules and the reboot, in this order: without headers and modules there is no reboot."""
    kernels, wanted = image.kernels, wanted_image_packages(image, desired)
    if desired.version and not wanted:
        found = " and ".join(kernels.meta) or "none"
        step = "name the package as well (kernel.package), for example linux-image-amd64 or linux-image-generic"
        return [], [Problem("kernel package", f"{found} installed", "one package that version is meant for", step)]
    step = "raise kernel.version; an older kernel is installed and the newer one removed by hand"
    problems = [replace(p, next_step=step) for p in package_problems(packages, wanted)]
    timeout = desired.lock_timeout_seconds
    changes = plan_packages(packages, wanted, hold=True, lock_timeout_seconds=timeout)
    name = package_name(kernels, desired)
    changes = [replace(c, effects=BOOT) if c.what == f"package {name}" else c for c in changes]
    coming = tuple(c.what for c in changes if c.effects)
    if not coming and image.release and image.release != kernels.next:
        step = f"remove the package linux-image-{kernels.next} from the host, or let kernel.package and kernel.version name it"
        found = f"{kernels.next} to boot next, the newest installed"
        problems.append(Problem("kernel", found, f"{image.release} of {name}", step))
    headers = "" if coming else next_headers(image, desired)
    if headers:
        changes += plan_packages(packages, {headers: None}, lock_timeout_seconds=timeout)
    lacking = image.dkms.missing.get(kernels.next, ())
    if image.dkms.modules and (coming or lacking):
        needs = (*coming, *([f"package {headers}"] if headers else ()))
        after = UNKNOWN if coming else ", ".join(lacking)
        changes.append(Change(COMPILED, None, after, operation=CompileForNext(), needs=needs))
    if coming or kernels.running != kernels.next:
        needs = tuple(c.what for c in changes if not c.what.endswith(" held"))
        changes.append(Change(RUNNING, kernels.running, UNKNOWN if coming else kernels.next, BOOT, needs=needs))
    return changes, problems


def _release(package: str) -> str:
    """Return the release in the name of one kernel's package, "" for any other package."""
    found = re.fullmatch(r"linux-image-(?:unsigned-)?(\d\S*)", package)
    return found[1] if found else ""
