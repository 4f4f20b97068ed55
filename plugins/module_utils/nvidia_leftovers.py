# SPDX-License-Identifier: Apache-2.0
"""Installed driver packages of another branch, flavour or kind of modules, whichever name carries them. Pure.

Names differ between branches (nvidia-dkms-570-open, nvidia-dkms-580-open, nvidia-dkms-open from 590 on), flavours (-server is
Ubuntu's own) and sources, so what is there is found by pattern. Extra libraries of the wanted branch (libnvidia-encode-580) are
left to apt, which takes them along.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Optional

from .host import Host
from .nvidia_packages import PINNING, DriverPackage, upstream_version
from .packages import PackageState, find_packages

GLOBS = ("nvidia-*", "libnvidia-*", "xserver-xorg-video-nvidia*", "cuda-drivers*", "linux-*-nvidia-*")
_META = r"nvidia-driver|nvidia-open|nvidia-headless(?:-no-dkms)?|cuda-drivers(?:-fabricmanager)?"
_FABRIC = r"nvidia-fabricmanager|libnvidia-nscq"
_KERNEL = r"nvidia-dkms|nvidia-kernel-source|linux-(?:modules|objects|signatures)-nvidia"
_USERSPACE = (
    r"nvidia-(?:kernel-common|utils|compute-utils|firmware)|xserver-xorg-video-nvidia"
    r"|libnvidia-(?:compute|cfg1|gpucomp|common|decode|encode|extra|fbc1|gl)"
)
NAME = re.compile(
    rf"(?:(?P<meta>{_META})|(?P<fabric>{_FABRIC})|(?P<kernel>{_KERNEL})|{_USERSPACE})"
    r"(?:-(?P<branch>\d{3}))?(?P<server>-server)?(?P<open>-open)?(?P<rest>-[a-z0-9.-]+)?"
)
"""rest: of a firmware its version, of precompiled modules the kernel's release or flavour."""
DKMS = re.compile(r"nvidia-dkms\b.*|nvidia-kernel(?:-open)?-dkms|nvidia-open-kernel-dkms")


def observe_installed(host: Host) -> dict[str, PackageState]:
    """Return the driver packages that are installed, of any branch and flavour, by one dpkg-query."""
    found = find_packages(host, *GLOBS)
    return {
        n: s for n, s in found.items() if s.version is not None and (n.startswith(PINNING) or DKMS.fullmatch(n) or _parsed(n))
    }


def leftovers(installed: Mapping[str, PackageState], packages: Iterable[DriverPackage], modules: str) -> tuple[str, ...]:
    """Return the installed packages that cannot stay beside the wanted ones.

    packages: the wanted ones, those of the fabric included, so that one not wanted yet stays. modules: open or proprietary.
    """
    wanted = {p.name: p for p in packages}
    parsed = [m for n in wanted if (m := _parsed(n)) and not m["fabric"] and not m["meta"]]
    lines = {(m["branch"], m["server"]) for m in parsed}
    fabric = {m["branch"] for n in wanted if (m := _parsed(n)) and m["fabric"]}
    kernel_only = all(p.part == "modules" for p in wanted.values())
    gone = []
    for name, state in installed.items():
        if state.version is None or name in wanted:
            continue
        match = _parsed(name)
        if name.startswith(PINNING):
            goes = not kernel_only
        elif DKMS.fullmatch(name):
            goes = True  # two of them would compile the same module
        elif match is None:
            goes = False
        elif match["fabric"]:
            goes = bool(fabric) and match["branch"] not in fabric
        elif match["kernel"]:
            goes = bool(lines) and ((match["branch"], match["server"]) not in lines or bool(match["open"]) != (modules == "open"))
        elif match["meta"] and match["branch"] is None:
            goes = False
        else:
            goes = bool(lines) and not kernel_only and (match["branch"], match["server"]) not in lines
        if goes:
            gone.append(name)
    return tuple(sorted(gone))


def newest_version(installed: Mapping[str, PackageState], loaded: Optional[str]) -> Optional[str]:
    """Return the newest driver among the loaded one and those whose kernel modules are installed."""
    found = [upstream_version(s.version) for n, s in installed.items() if s.version and carries_modules(n)]
    found += [loaded] if loaded else []
    return max(found, key=lambda version: [int(part) for part in re.findall(r"\d+", version)], default=None)


def carries_modules(name: str) -> bool:
    """Tell whether a package brings kernel modules and carries the driver's version (precompiled ones carry the kernel's)."""
    return DKMS.fullmatch(name) is not None or name.startswith(("nvidia-kernel-common", "nvidia-kernel-source"))


def _parsed(name: str) -> Optional[re.Match[str]]:
    match = NAME.fullmatch(name)
    if match is None or (match["rest"] and not name.startswith(("nvidia-firmware-", "linux-"))):
        return None
    return None if name.startswith("linux-") and match["branch"] is None else match
