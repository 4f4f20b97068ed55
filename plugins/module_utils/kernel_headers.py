# SPDX-License-Identifier: Apache-2.0
"""Kernels a module must be compiled for, and the headers that needs: for the kernel that runs and the one that boots next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .debian_version import compare_versions
from .host import Host
from .packages import find_packages

IMAGES = "/boot/vmlinuz-*"
META = r"linux-image-(?!\d|unsigned-|extra-).+(?<!-dbg)(?<!-unsigned)"
"""Packages that follow a flavour's kernels (cloud-amd64, generic-hwe-24.04, nvidia-64k …); releases begin with a digit."""


@dataclass(frozen=True)
class Kernels:
    """running: release of the running kernel. installed: releases under /boot, oldest first. with_headers: those whose
    headers are there. meta: packages that follow the distribution's kernel (linux-image-amd64 …), so its headers must follow too.
    """

    running: str = ""
    installed: tuple[str, ...] = ()
    with_headers: frozenset[str] = field(default_factory=frozenset)
    meta: tuple[str, ...] = ()

    @property
    def next(self) -> str:
        """The release that boots next: the newest installed, which is what GRUB's default entry starts; else the running one."""
        return self.installed[-1] if self.installed else self.running


def observe_kernels(host: Host, wanted: Sequence[str] = ()) -> Kernels:
    """Look at /boot and /lib/modules; one dpkg-query for the packages that follow the kernel."""
    running = (host.read("/proc/sys/kernel/osrelease") or "").strip()
    installed = sort_releases([path.partition("vmlinuz-")[2] for path in host.glob(IMAGES)])
    releases = {running, *installed, *wanted} - {""}
    images = find_packages(host, "linux-image-*")
    return Kernels(
        running,
        tuple(installed),
        frozenset(r for r in releases if host.exists(f"/lib/modules/{r}/build")),
        tuple(n for n, state in images.items() if state.installed and re.fullmatch(META, n)),
    )


def sort_releases(releases: Sequence[str]) -> list[str]:
    """Sort kernel releases oldest first, as GRUB does (by version, names of backups left out)."""
    kept = [r for r in releases if re.match(r"\d+\.\d+", r) and not r.endswith((".old", ".bak"))]
    result: list[str] = []
    for release in kept:
        at = len(result)
        while at and compare_versions(result[at - 1], release) > 0:
            at -= 1
        result.insert(at, release)
    return result


def kernels_to_serve(kernels: Kernels, wanted: Sequence[str] = ()) -> list[str]:
    """Return the releases the driver must be compiled for: those named, else the running one and the one that boots next."""
    return list(dict.fromkeys(r for r in (wanted or (kernels.running, kernels.next)) if r))


def header_packages(kernels: Kernels, wanted: Sequence[str] = ()) -> list[str]:
    """Return the packages that bring missing headers, and those that bring headers along with every later kernel."""
    exact = [f"linux-headers-{r}" for r in kernels_to_serve(kernels, wanted) if r not in kernels.with_headers]
    return exact + ([] if wanted else [name.replace("linux-image-", "linux-headers-") for name in kernels.meta])


def module_packages(kernels: Kernels, start: str) -> list[str]:
    """Return the packages that bring precompiled modules along with every later kernel; start: their names without the flavour.

    Ubuntu's flavour virtual boots the kernels of generic, for which alone there are modules.
    """
    flavours = [name.replace("linux-image-", "") for name in kernels.meta]
    return list(dict.fromkeys(start + re.sub(r"^virtual", "generic", flavour) for flavour in flavours))
