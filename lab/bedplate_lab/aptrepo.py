# SPDX-License-Identifier: Apache-2.0
"""A signed apt repository on disk: pool, indexes by apt-ftparchive, signatures by the lab's own key."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bedplate_lab.paths import cache, new_dir, new_file
from bedplate_lab.run import run

SUITE = "bookworm"
COMPONENT = "main"
ARCHITECTURE = "amd64"
USER = "Bedplate lab depot <depot@lab.bedplate.test>"
KEY_FILE = "depot.asc"


def publish(debs: Sequence[Path], target: Path) -> bool:
    """Make `target` a repository of exactly these .debs, signed; False when it is that already.

    The public key is `depot.asc` in it. The .debs must be on the same file system (they are linked, not copied).
    Raises CommandError when a tool fails.
    """
    stamp = target / "content-key"
    wanted = content_key(debs)
    if stamp.is_file() and stamp.read_text() == wanted:
        return False
    with new_dir(target) as temporary:
        pool = temporary / "pool"
        pool.mkdir()
        for deb in sorted(debs):
            os.link(deb, pool / _pool_name(deb))
        _index(temporary)
        with _keyring() as home:
            (temporary / KEY_FILE).write_text(_gpg(home, "--armor", "--export"))
            release = temporary / "dists" / SUITE / "Release"
            _gpg(home, "--clearsign", "--output", str(release.with_name("InRelease")), str(release))
            _gpg(home, "--armor", "--detach-sign", "--output", f"{release}.gpg", str(release))
        (temporary / stamp.name).write_text(wanted)
    return True


def public_key(repository: Path) -> str:
    """The ASCII-armoured public key that signed a published repository."""
    return (repository / KEY_FILE).read_text()


def content_key(debs: Iterable[Path]) -> str:
    """A hash that names the set of .debs; cached .debs carry a hash of their content in their names."""
    names = sorted(f"{path.parent.name}/{path.name}" for path in debs)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _pool_name(deb: Path) -> str:
    """`name_version_arch.deb` as in Debian's pool: without an epoch, and without the cache's key after the architecture."""
    name, version, architecture, *_ = deb.stem.split("_")
    return f"{name}_{version.rpartition('%3a')[2]}_{architecture}.deb"


def _index(root: Path) -> None:
    binary = root / "dists" / SUITE / COMPONENT / f"binary-{ARCHITECTURE}"
    binary.mkdir(parents=True)
    packages = run(["apt-ftparchive", "--arch", ARCHITECTURE, "packages", "pool"], cwd=root).stdout
    (binary / "Packages").write_text(packages)
    (binary / "Packages.gz").write_bytes(gzip.compress(packages.encode(), mtime=0))
    fields = {
        "Origin": "Bedplate lab",
        "Label": "Bedplate lab",
        "Suite": SUITE,
        "Codename": SUITE,
        "Architectures": ARCHITECTURE,
        "Components": COMPONENT,
        "Description": "Packages of the Bedplate lab's depot",
    }
    options: Sequence[str] = [
        part for key, value in fields.items() for part in ("-o", f"APT::FTPArchive::Release::{key}={value}")
    ]
    release = run(["apt-ftparchive", *options, "release", f"dists/{SUITE}"], cwd=root).stdout
    (root / "dists" / SUITE / "Release").write_text(release)


@contextmanager
def _keyring() -> Iterator[Path]:
    """A short-lived GnuPG home that holds the depot's key; its agent ends with it.

    The key itself is a file in the cache. A home under the cache would do, but a long path is too long for the agent's socket.
    """
    home = Path(tempfile.mkdtemp(prefix="bedplate-gpg-"))
    secret = cache("keys", "depot.gpg")
    try:
        if secret.is_file():
            _gpg(home, "--import", str(secret))
        else:
            _gpg(home, "--passphrase", "", "--quick-generate-key", USER, "ed25519", "sign", "never")
            with new_file(secret) as temporary:
                temporary.chmod(0o600)
                temporary.write_text(_gpg(home, "--armor", "--export-secret-keys"))
        yield home
    finally:
        run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
        shutil.rmtree(home, ignore_errors=True)


def _gpg(home: Path, *arguments: str) -> str:
    return run(["gpg", "--homedir", str(home), "--batch", "--yes", "--quiet", "--pinentry-mode", "loopback", *arguments]).stdout
