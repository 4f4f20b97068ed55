# SPDX-License-Identifier: Apache-2.0
"""The lab's errors: each says what was found, what was wanted and the next step."""

from __future__ import annotations


class LabError(Exception):
    """Something the user can act on; the message is printed as it is, without a traceback."""
