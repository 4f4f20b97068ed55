# SPDX-License-Identifier: Apache-2.0
"""What the lab needs of the machine it runs on: Debian, root, and programs that apt has."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from bedplate_lab import paths
from bedplate_lab.errors import LabError
from bedplate_lab.report import Report
from bedplate_lab.run import CommandError, run

NEEDS: dict[str, tuple[str, ...]] = {
    "apt-utils": ("apt-ftparchive",),
    "aardvark-dns": ("/usr/lib/podman/aardvark-dns",),
    "ca-certificates": ("/etc/ssl/certs/ca-certificates.crt",),
    "debian-archive-keyring": ("/usr/share/keyrings/debian-archive-keyring.gpg",),
    "gcc": ("gcc",),
    "gnupg": ("gpg",),
    "iproute2": ("ip",),
    "iptables": ("iptables",),
    "libc6-dev": ("/usr/include/stdio.h",),
    "mmdebstrap": ("mmdebstrap",),
    "netavark": ("/usr/lib/podman/netavark",),
    "openssh-client": ("ssh", "ssh-keygen"),
    "podman": ("podman",),
    "runc": ("runc",),
}
"""Debian packages, and the programs or files by which one sees that they are there."""

FREE_BYTES = 10 * 1000**3
"""Free space below which nothing is begun; a first build takes about 30 GB, a running lab about 10 GB."""


def check(os_release: Path = Path("/etc/os-release"), uid: int | None = None) -> None:
    """Refuse a machine the lab cannot run on. Raises LabError with what was found and wanted."""
    if (os.geteuid() if uid is None else uid) != 0:
        raise LabError(
            f"the lab needs root: it boots privileged containers; found user {os.geteuid() if uid is None else uid}, "
            "wanted 0. next: sudo scripts/lab …"
        )
    if platform.machine() != "x86_64":
        raise LabError(f"the lab builds for x86_64; this machine is {platform.machine()}")
    values = dict(line.split("=", 1) for line in _read(os_release).splitlines() if "=" in line)
    found = {name: values.get(name, "").strip('"') for name in ("ID", "VERSION_ID", "PRETTY_NAME")}
    version = found["VERSION_ID"].partition(".")[0]
    if found["ID"] != "debian" or not version.isdigit() or int(version) < 12:
        raise LabError(
            f"the lab runs on Debian 12 or newer; found {found['PRETTY_NAME'] or f'no {os_release}'}. "
            "next: run it on such a machine, a virtual one will do"
        )


def missing(needs: Mapping[str, tuple[str, ...]] = NEEDS, which: Callable[[str], str | None] = shutil.which) -> list[str]:
    """The Debian packages of `needs` that the machine lacks, sorted."""

    def there(thing: str) -> bool:
        return Path(thing).exists() if thing.startswith("/") else which(thing) is not None

    return sorted(package for package, things in needs.items() if not all(map(there, things)))


def install(packages: list[str], report: Report) -> None:
    """Install packages with apt-get. Raises LabError naming them."""
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    wait = ("-o", "DPkg::Lock::Timeout=300")
    report(f"apt-get install {' '.join(packages)}")
    update = run(["apt-get", *wait, "update"], env=environment, check=False)
    try:
        run(["apt-get", *wait, "install", "--yes", "--no-install-recommends", *packages], env=environment)
    except CommandError as error:
        hint = "" if update.returncode == 0 else f"\n(apt-get update had failed too: {update.stderr.strip()[-500:]})"
        raise LabError(f"{error}{hint}\n  next: install {', '.join(packages)} and run again") from error


def check_podman() -> None:
    """Refuse a podman with the older network stack. Raises LabError."""
    backend = run(["podman", "info", "--format", "{{.Host.NetworkBackend}}"]).stdout.strip()
    if backend != "netavark":
        raise LabError(
            f'podman uses the network backend {backend!r}, wanted netavark. next: set network_backend = "netavark" in '
            "/etc/containers/containers.conf; networks made before are then unknown to podman"
        )


def check_space() -> None:
    """Refuse to begin on a full disk. Raises LabError."""
    for place in (paths.cache(), Path("/var/lib/containers")):
        existing = next(parent for parent in (place, *place.parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        if free < FREE_BYTES:
            raise LabError(
                f"{place}: {free / 1e9:.1f} GB free, wanted {FREE_BYTES / 1e9:.0f} GB or more. next: make room, for example with "
                "scripts/lab cache prune, or move the cache with XDG_CACHE_HOME"
            )


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
