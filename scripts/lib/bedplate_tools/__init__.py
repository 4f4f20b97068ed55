# SPDX-License-Identifier: Apache-2.0
"""What the programs in scripts/ are made of: tests, measurements and generated documents."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
REPORTS = ROOT / "reports"
"""Everything measured or tested ends here; not in version control."""
