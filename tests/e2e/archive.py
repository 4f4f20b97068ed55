# SPDX-License-Identifier: Apache-2.0
"""The archives of Debian and Ubuntu as package repositories of hosts that do not take theirs from the depot."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bedplate_lab import debian, ubuntu


def archive_of(suite: str, *sections: str) -> dict[str, Any]:
    """A repository of the role repositories: the archive a suite comes from, main and further sections."""
    if suite in ubuntu.SUITES:
        return _repository("ubuntu", ubuntu.MIRROR, suite, sections, ubuntu.keyring_path())
    return _repository("debian", f"{debian.MIRROR}/debian", suite, sections, Path(debian.KEYRING))


def _repository(name: str, uri: str, suite: str, sections: Sequence[str], keyring: Path) -> dict[str, Any]:
    key = base64.encodebytes(keyring.read_bytes()).decode().strip()
    return {
        "name": name,
        "uris": [uri],
        "suites": [suite],
        "components": ["main", *sections],
        "signing_key": f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{key}\n-----END PGP PUBLIC KEY BLOCK-----\n",
    }
