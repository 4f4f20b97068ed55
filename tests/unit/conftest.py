# SPDX-License-Identifier: Apache-2.0
"""Makes the checkout importable as the collection it is: ``ansible_collections.bedplate.metal``."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def link_collection() -> None:
    """Lay the link .ansible/collections/ansible_collections/bedplate/metal -> the root, unless it is there."""
    link = ROOT / ".ansible" / "collections" / "ansible_collections" / "bedplate" / "metal"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to("../../../..")


link_collection()


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT
