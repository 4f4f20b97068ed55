# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition, bounded, saying what was waited for."""

from __future__ import annotations

import time
from collections.abc import Callable

INTERVAL_SECONDS = 0.5


def wait_until[Answer](condition: Callable[[], Answer], what: str, seconds: float) -> Answer:
    """Return the first answer of ``condition`` that is true in a condition; fail after ``seconds`` naming ``what``."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}; last answer: {answer!r}"
        time.sleep(INTERVAL_SECONDS)
