# SPDX-License-Identifier: Apache-2.0
"""`python -m bedplate_lab`; scripts/lab runs it with the project's environment."""

from __future__ import annotations

import sys

try:
    from bedplate_lab.cli import main

    sys.exit(main())
except KeyboardInterrupt:
    sys.exit(130)
