# SPDX-License-Identifier: Apache-2.0
"""How long work says what it is doing."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str], None]
"""Called with one short line whenever something that takes seconds or more begins."""


def silent(_: str) -> None:
    """A Report that says nothing."""
