# SPDX-License-Identifier: Apache-2.0
"""Debian as the lab uses it: package sources, small roots by mmdebstrap, and packages mirrored for the depot."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bedplate_lab import epoch
from bedplate_lab.errors import LabError
from bedplate_lab.paths import cache, new_dir, new_file
from bedplate_lab.report import Report
from bedplate_lab.run import CommandError, run

SUITE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
APT = Path("/etc/apt")


def machines_mirror(apt: Path = APT) -> str:
    """Base URL of the mirror the machine's own apt sources name; empty when they name none."""
    for path in (apt / "sources.list", *sorted(apt.glob("sources.list.d/*"))):
        if path.is_file():
            found = re.search(r"^[^#\n]*?(https?://\S+?)/debian/?(?=\s|$)", path.read_text(errors="replace"), re.MULTILINE)
            if found:
                return found.group(1)
    return ""


MIRROR = (os.environ.get("BEDPLATE_DEBIAN_MIRROR") or machines_mirror() or "http://deb.debian.org").rstrip("/")
"""Base URL of the mirror that holds `debian` and `debian-security`."""
ADVICE = (
    "is it reachable? Another mirror is named by BEDPLATE_DEBIAN_MIRROR (a URL that has /debian and /debian-security below it)"
)

MIRRORED = (
    "bash-completion",
    "conntrack",
    "ebtables",
    "ethtool",
    "iptables",
    "iputils-ping",
    "kmod",
    "lsof",
    "nftables",
    "procps",
    "python3-apt",
    "rsync",
    "runc",
    "socat",
    "systemd-resolved",
    "tcpdump",
    "udev",
    "util-linux-extra",
    "uuid-runtime",
)
"""Debian packages the depot offers, with all they need beyond the base host image."""


@dataclass(frozen=True)
class Archive:
    """An archive of packages: its URL, the lines of a sources.list for it, and what to try when it does not answer."""

    mirror: str
    sources: str
    advice: str


def sources(suite: str = SUITE) -> str:
    """The lines of a sources.list for a suite with its updates and security updates."""
    suites = (f"{MIRROR}/debian {suite}", f"{MIRROR}/debian {suite}-updates", f"{MIRROR}/debian-security {suite}-security")
    return "".join(f"deb [signed-by={KEYRING}] {suite} main\n" for suite in suites)


def root_tar(
    target: Path,
    packages: Sequence[str],
    *,
    variant: str,
    options: Sequence[str] = (),
    suite: str = SUITE,
    archive: Archive | None = None,
) -> None:
    """Write a suite's root file system with `packages` to the tar file `target` by mmdebstrap, from Debian's archive by default.

    `variant` is mmdebstrap's: `minbase` for a system, `extract` for the files of the packages and of what they depend on.
    Raises LabError naming the mirror and what mmdebstrap said.
    """
    with new_file(target) as temporary:
        argv = ["mmdebstrap", "--quiet", f"--variant={variant}", f"--include={','.join(packages)}", "--format=tar", *options]
        source = archive or Archive(MIRROR, sources(suite), ADVICE)
        try:
            run([*argv, suite, str(temporary), "-"], input_text=source.sources, env=epoch.ENVIRONMENT)
        except CommandError as error:
            raise LabError(f"no root file system could be made of {source.mirror}; {source.advice}:\n{error}") from error


def mirror_path(base: Path) -> Path:
    """Where the packages that hosts made from the tar file `base` may need are kept."""
    digest = hashlib.sha256(f"{SUITE} {MIRRORED} {base.name}".encode()).hexdigest()[:12]
    return cache("debs", f"debian-{digest}")


def mirror(base: Path, report: Report) -> Path:
    """A directory with the .debs of MIRRORED and all they need that the root in the tar file `base` lacks.

    Downloaded once by apt, which checks signatures and hashes. Raises LabError naming what apt said.
    """
    target = mirror_path(base)
    if not target.is_dir():
        report(f"mirror {len(MIRRORED)} Debian packages and what they need")
        with new_dir(target) as temporary:
            _download(base, temporary)
    return target


def _download(base: Path, target: Path) -> None:
    work = target / "apt"
    for name in ("state/lists/partial", "archives/partial", "etc/sources.list.d"):
        (work / name).mkdir(parents=True)
    (work / "status").write_bytes(_dpkg_status(base))
    (work / "etc/sources.list").write_text(sources())
    # The machine's own apt settings stay in force (a proxy), its sources, state and clean-up hooks do not.
    (work / "apt.conf").write_text(
        f"""\
Dir::State "{work}/state";
Dir::State::status "{work}/status";
Dir::Cache "{work}";
Dir::Cache::archives "{work}/archives";
Dir::Etc::sourcelist "{work}/etc/sources.list";
Dir::Etc::sourceparts "{work}/etc/sources.list.d";
Dir::Etc::preferences "{work}/etc/preferences";
Dir::Etc::preferencesparts "{work}/etc/preferences.d";
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Keep-Downloaded-Packages "true";
Debug::NoLocking "true";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
"""
    )
    try:
        run(["apt-get", "-q", "-c", str(work / "apt.conf"), "update"])
        run(["apt-get", "-q", "-c", str(work / "apt.conf"), "install", "--yes", "--download-only", *MIRRORED])
    except CommandError as error:
        raise LabError(f"Debian packages for the depot could not be mirrored from {MIRROR}; {ADVICE}:\n{error}") from error
    for path in sorted((work / "archives").glob("*.deb")):
        path.rename(target / path.name)
    shutil.rmtree(work)


def _dpkg_status(base: Path) -> bytes:
    with tarfile.open(base) as tar:
        for member in tar:
            if member.name.removeprefix("./") == "var/lib/dpkg/status":
                handle = tar.extractfile(member)
                if handle:
                    return handle.read()
    raise LabError(f"{base} holds no var/lib/dpkg/status; remove it and build the base host image again")
