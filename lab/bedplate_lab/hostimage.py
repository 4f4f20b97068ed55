# SPDX-License-Identifier: Apache-2.0
"""The base host image: Debian with systemd, sshd, python3, apt and sudo, made by mmdebstrap and imported into podman."""

from __future__ import annotations

import hashlib
from pathlib import Path

from bedplate_lab import debian
from bedplate_lab.paths import ROOT, cache, lock
from bedplate_lab.report import Report
from bedplate_lab.run import run

NAME = "localhost/bedplate-lab-host"
PACKAGES = (
    "apt",
    "ca-certificates",
    "dbus",
    "iproute2",
    "openssh-server",
    "python3",
    "sudo",
    "systemd",
    "systemd-sysv",
)
CUSTOMIZE = ROOT / "lab" / "host" / "customize"


def key() -> str:
    """The cache key of the image: the suite and a hash of its packages and its customization."""
    digest = hashlib.sha256(f"{debian.SUITE} {PACKAGES}".encode() + CUSTOMIZE.read_bytes())
    return f"{debian.SUITE}-{digest.hexdigest()[:12]}"


def reference() -> str:
    """The image's name in podman, for example localhost/bedplate-lab-host:bookworm-0123456789ab."""
    return f"{NAME}:{key()}"


def path() -> Path:
    """Where the image's root is kept, as a tar file."""
    return cache("host", f"{key()}.tar")


def build(report: Report) -> Path:
    """The image's root as a tar file in the cache, made when missing (once, however many ask). Raises LabError."""
    target = path()
    with lock("host-image"):
        if target.is_file():
            return target
        report(f"build the base host image ({debian.SUITE}, {len(PACKAGES)} packages and what they need)")
        debian.root_tar(target, PACKAGES, variant="minbase", options=[f"--customize-hook={CUSTOMIZE}"])
    return target


def ensure(report: Report) -> str:
    """Import the image into podman unless it is there; its name. Raises CommandError."""
    name = reference()
    if run(["podman", "image", "exists", name], check=False).returncode != 0:
        tar = build(report)
        report("import the base host image into podman")
        run(
            [
                *("podman", "import", "--quiet"),
                *("--change", "CMD /sbin/init", "--change", "STOPSIGNAL SIGRTMIN+3", "--change", "ENV container=podman"),
                *("--change", "LABEL bedplate.lab=host"),
                *(str(tar), name),
            ]
        )
    return name
