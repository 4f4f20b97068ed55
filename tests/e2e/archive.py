# SPDX-License-Identifier: Apache-2.0
"""Debian's own archive as a package repository of hosts that do not take theirs from the depot."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from bedplate_lab import debian


def debians_archive(suite: str, *sections: str) -> dict[str, Any]:
    """A repository of the role repositories: Debian's archive of a suite, main and further sections."""
    key = base64.encodebytes(Path(debian.KEYRING).read_bytes()).decode().strip()
    return {
        "name": "debian",
        "uris": [f"{debian.MIRROR}/debian"],
        "suites": [suite],
        "components": ["main", *sections],
        "signing_key": f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{key}\n-----END PGP PUBLIC KEY BLOCK-----\n",
    }
