# SPDX-License-Identifier: Apache-2.0
"""The time stamped on every file the lab packs: the same content is then the same package, layer and digest."""

from __future__ import annotations

SECONDS = 1767225600
"""2026-01-01 in Unix time."""
TEXT = "2026-01-01T00:00:00Z"
ENVIRONMENT = {"SOURCE_DATE_EPOCH": str(SECONDS)}
"""How dpkg-deb and mmdebstrap are told."""
