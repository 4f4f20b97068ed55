# SPDX-License-Identifier: Apache-2.0
"""The labels on everything the lab makes in podman: whose it is, so that `down` removes that and nothing else."""

from __future__ import annotations

import hashlib

from bedplate_lab.paths import ROOT

LAB = "bedplate.lab"
CHECKOUT = "bedplate.root"
INSTANCE = hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]
"""Value of the label `bedplate.lab`: one per checkout of the repository."""


def arguments() -> list[str]:
    """`--label` arguments for podman's create commands."""
    return ["--label", f"{LAB}={INSTANCE}", "--label", f"{CHECKOUT}={ROOT}"]


def filters(owner: str = INSTANCE) -> list[str]:
    """`--filter` arguments for podman's list commands: what belongs to a lab, this one unless another is named."""
    return ["--filter", f"label={LAB}={owner}"]
