# SPDX-License-Identifier: Apache-2.0
"""Ubuntu as the lab uses it: package sources, and the key that signs them, which Debian does not carry."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from bedplate_lab import http
from bedplate_lab.debian import Archive
from bedplate_lab.errors import LabError
from bedplate_lab.paths import cache, lock, new_file
from bedplate_lab.report import Report
from bedplate_lab.run import run

SUITES = ("noble",)
MIRROR = (os.environ.get("BEDPLATE_UBUNTU_MIRROR") or "http://archive.ubuntu.com/ubuntu").rstrip("/")
"""URL of the archive, security updates included."""
ADVICE = "is it reachable? Another mirror of Ubuntu's archive is named by BEDPLATE_UBUNTU_MIRROR"
KEYRING_PACKAGE = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
KEYRING_SHA256 = "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8"
"""As the index of Ubuntu 24.04's release gives it, which is signed by F6EC B376 2474 EDA9 D21B 7022 8719 20D1 991B C93C."""
KEYRING_FILE = "usr/share/keyrings/ubuntu-archive-keyring.gpg"


def keyring_path() -> Path:
    """Where the key ring of Ubuntu's archive is kept."""
    return cache("metal", f"ubuntu-{KEYRING_SHA256[:12]}.gpg")


def keyring(report: Report) -> Path:
    """The key ring of Ubuntu's archive, fetched when missing from a package of a known checksum. Raises LabError."""
    target = keyring_path()
    with lock("ubuntu-keyring"):
        if not target.is_file():
            report("key ring of Ubuntu's archive")
            with new_file(target) as temporary, TemporaryDirectory() as directory:
                package = Path(directory) / "keyring.deb"
                _fetch(f"{MIRROR}/{KEYRING_PACKAGE}", package)
                run(["dpkg-deb", "--extract", str(package), directory])
                temporary.write_bytes((Path(directory) / KEYRING_FILE).read_bytes())
    return target


def _fetch(url: str, target: Path) -> None:
    with http.named(url, ADVICE):
        response = http.pool(url).request("GET", url, preload_content=False)
        if response.status != 200:
            raise LabError(f"{url}: found HTTP status {response.status}, wanted 200; {ADVICE}")
        found = http.save(response, target)
    if found != KEYRING_SHA256:
        raise LabError(f"{url}: found SHA-256 {found}, wanted {KEYRING_SHA256}; it is not used")


def archive(suite: str, report: Report) -> Archive:
    """The archive of a suite with its updates and security updates. Raises LabError when its key ring cannot be had."""
    ring = keyring(report)
    suites = (suite, f"{suite}-updates", f"{suite}-security")
    lines = "".join(f"deb [signed-by={ring}] {MIRROR} {one} main universe\n" for one in suites)
    return Archive(MIRROR, lines, ADVICE)
