# SPDX-License-Identifier: Apache-2.0
"""The real kubeadm, which judges the documents made for it: the one the lab has built, else one on the PATH."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from bedplate_lab import paths


def find_kubeadm() -> str | None:
    """Return the newest build in the lab's cache, else what the PATH has."""
    built = sorted(paths.cache("build", "kubernetes").glob("*/bin/kubeadm"), key=lambda path: path.stat().st_mtime)
    return str(built[-1]) if built else shutil.which("kubeadm")


KUBEADM = find_kubeadm()
needs_kubeadm = pytest.mark.skipif(
    KUBEADM is None, reason="no kubeadm in the lab's build cache (scripts/lab up builds it) nor on the PATH"
)


def validate(text: str) -> tuple[int, str]:
    """Return the answer of ``kubeadm config validate``: return code and output."""
    argv = [KUBEADM or "kubeadm", "config", "validate", "--config", "/dev/stdin"]
    answer = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60)
    return answer.returncode, answer.stdout + answer.stderr
