# SPDX-License-Identifier: Apache-2.0
"""What the rules ask about: facts of one pool, from its spec and the site. Facts that cannot be known are None."""

from __future__ import annotations

import re
from typing import Any

from .table import Accelerator, Table, version_numbers


def resolved_modules(modules: str, accelerator: Accelerator | None) -> str:
    """Return open or proprietary for what a spec says; auto takes the kind the table prefers for the GPU."""
    if modules != "auto":
        return modules
    return accelerator.modules[0] if accelerator else "open"


def pool_facts(
    table: Table,
    *,
    accelerator: str,
    branch: str | None,
    modules: str,
    exposure: str,
    sharing: str,
    workload: str,
    kubernetes: str | None,
    operator: str | None = None,
    distribution: str | None = None,
    cuda: str | None = None,
    containerd: str | None = None,
    cgroup: str | None = None,
) -> dict[str, Any]:
    """Return the facts of a pool.

    branch: driver branch, None without a driver of Bedplate's. operator: GPU Operator version, where the pool uses it.
    distribution: as ubuntu-24.04. containerd: package version. cgroup: v1 where the site's kubelets accept it.
    """
    model = table.accelerators.get(accelerator)
    release = table.operator_release(operator) if operator else None
    facts: dict[str, Any] = {
        "accelerator": accelerator,
        "accelerator_known": model is not None,
        "architecture": model.architecture if model else None,
        "mig_capable": bool(model.mig) if model else None,
        "exposure": exposure,
        "sharing": sharing,
        "workload": workload,
        "kubernetes": kubernetes,
        "distribution": distribution,
        "cuda": cuda,
        "containerd": containerd if containerd and version_numbers(containerd) else None,
        "cgroup": cgroup,
        "operator": operator,
        "operator_known": (release is not None) if operator else None,
    }
    if branch is not None:
        facts.update(branch=branch, modules=resolved_modules(modules, model), **_branch_facts(table, model, branch))
    if release is not None and kubernetes:
        facts["operator_kubernetes"] = "within" if release.supports(kubernetes) else "outside"
        facts["operator_kubernetes_range"] = release.range
    if operator and distribution:
        facts["operator_distribution"] = "within" if distribution in table.operator_distributions else "outside"
    return facts


def _branch_facts(table: Table, model: Accelerator | None, branch: str) -> dict[str, Any]:
    number = int(branch) if re.fullmatch("[0-9]+", branch) else None
    row = table.branches.get(number) if number is not None else None
    facts: dict[str, Any] = {"branch_state": "unknown" if row is None else "ended" if row.get("ended") else "maintained"}
    if model is not None and number is not None:
        last = model.last_branch
        position = "before" if number < model.first_branch else "after" if last is not None and number > last else "within"
        facts.update(branch_range=position, first_branch=model.first_branch, last_branch=last)
    return facts
