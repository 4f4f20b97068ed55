# SPDX-License-Identifier: Apache-2.0
"""What the action plugins that work through the Kubernetes API share: a kubeconfig, and results made from changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.ansible_component import change_diff
from ansible_collections.bedplate.metal.plugins.module_utils.core import Change, Problem
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api

NO_KUBECONFIG = (
    "found no kubeconfig; wanted the one that cluster_state fetches from a control-plane host. "
    "Next: run the playbook from its start, with a control-plane host that answers"
)


def open_api(kubeconfig: str | None, timeout_seconds: float = 15) -> Api:
    """Return the API of a kubeconfig; raise :class:`BedplateError` when there is none."""
    if not kubeconfig:
        raise BedplateError(NO_KUBECONFIG)
    return Api(kubeconfig, timeout_seconds)


def results(name: str, changes: Sequence[Change], problems: Sequence[Problem]) -> dict[str, Any]:
    """Return the results an action shares with the host components; problems of severity error fail it, one line each."""
    errors = [p for p in problems if p.severity == "error"]
    found: dict[str, Any] = {
        "changed": bool(changes),
        "changes": [c.public() for c in changes],
        "deferred": [],
        "problems": [p.public() for p in problems],
        "diff": [change_diff(c) for c in changes],
    }
    if errors:
        found["failed"] = True
        found["msg"] = "\n".join([f"{name}: {len(errors)} problem(s):", *(f"  - {problem}" for problem in errors)])
    return found
