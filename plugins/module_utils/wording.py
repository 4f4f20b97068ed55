# SPDX-License-Identifier: Apache-2.0
"""Words of messages that are alike everywhere."""

from __future__ import annotations

from collections.abc import Iterable


def listing(names: Iterable[str], most: int = 4) -> str:
    """Return names for a message, the rest of many as a number."""
    found = list(names)
    rest = len(found) - most
    return ", ".join(found) if rest <= 0 else f"{', '.join(found[:most])} and {rest} more"
