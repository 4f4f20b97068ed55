# SPDX-License-Identifier: Apache-2.0
"""Modules that DKMS compiles on the host, and the kernels they are installed for; from DKMS' own tree, see dkms(8).

``dkms status`` tells the same from the same files, but takes a shell script's time for each module and kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .errors import BedplateError
from .host import Host
from .operations import last_lines

TREE = "/var/lib/dkms"
BUILD_TIMEOUT_SECONDS = 1800
NEXT_STEP = f"read {TREE}/*/*/build/make.log on the host, or take out what this kernel cannot have (dkms remove)"


@dataclass(frozen=True)
class Dkms:
    """modules: those compiled for every kernel, as ``name/version``. missing: kernel release to those it lacks."""

    modules: tuple[str, ...] = ()
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def observe_dkms(host: Host, releases: Iterable[str]) -> Dkms:
    """Look for the sources DKMS knows and for its links ``<name>/kernel-<release>-<architecture>``; no command."""
    modules = []
    for source in host.glob(f"{TREE}/*/*/source"):
        name, version = source.split("/")[-3:-1]
        if re.search(r"^AUTOINSTALL=[\"']?\w", host.read(f"{source}/dkms.conf") or "", re.MULTILINE):
            modules.append(f"{name}/{version}")
    missing = {
        release: tuple(m for m in modules if not host.glob(f"{TREE}/{m.partition('/')[0]}/kernel-{release}-*"))
        for release in releases
    }
    return Dkms(tuple(modules), missing)


def compile_modules(host: Host, release: str) -> None:
    """Compile what a kernel lacks; raise :class:`BedplateError` when something still is missing, so that nobody boots it."""
    if not observe_dkms(host, [release]).missing[release]:
        return
    result = host.run(["dkms", "autoinstall", "-k", release], timeout_seconds=BUILD_TIMEOUT_SECONDS)
    missing = observe_dkms(host, [release]).missing[release]
    if missing:
        said = last_lines(result.err or result.out)
        raise BedplateError(
            f"DKMS modules {', '.join(missing)}: found none for kernel {release}, which boots next; wanted them before a reboot "
            f"(dkms autoinstall answered {result.rc}):\n{said}\nNext: {NEXT_STEP}; the host is not rebooted"
        )
