# SPDX-License-Identifier: Apache-2.0
"""Failures of components."""

from __future__ import annotations


class BedplateError(Exception):
    """A failure an operator can act on; ``str()`` is the message shown."""


class RebootNeededError(BedplateError):
    """Raised by an operation whose change only a boot completes; ``str()`` is what was found. What it did so far is harmless."""
