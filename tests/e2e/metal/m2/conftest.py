# SPDX-License-Identifier: Apache-2.0
"""The second machine, alone."""

from __future__ import annotations

import pytest

from ..machines import Metal
from ..whole import SECURE, Whole, applied, bring


@pytest.fixture(scope="session")
def whole(metal: Metal) -> Whole:
    """What was seen while every role was applied to the new machine."""
    return bring(metal, SECURE)


@pytest.fixture(scope="session")
def final(metal: Metal, request: pytest.FixtureRequest) -> Metal:
    """The machine with every role applied, by this run of the tests or by one before it that left it running."""
    if not applied(SECURE):
        request.getfixturevalue("whole")
    return metal
