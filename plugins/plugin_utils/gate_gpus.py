# SPDX-License-Identifier: Apache-2.0
"""The GPU part of the gate: what a host's probe found, and whether its node advertises what the pool declares. Pure.

The probe has run already (role nvidia_driver, bounded in time), so a hung nvidia-smi costs the gate nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import REBOOT
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate import ANNOTATION, GPU_HEALTH, GPU_RESOURCES, Check

DRIVER = "GPU driver"
"""The subject of the probe's finding about versions (module_utils/nvidia_health.py)."""


@dataclass(frozen=True)
class GpuState:
    """GPUs of a host. declared: there are any to judge. resources: what its node must advertise, none without a device plugin.

    findings: what keeps the GPUs from service, as sentences. waiting: those that only say that another driver version is wanted,
    which a drained node will get. labels: how the node shall show its GPUs. mig: instances of each. undivided: what waits for a
    drain or a boot to divide the GPUs, as sentences; until then the node cannot advertise what is declared.
    """

    declared: bool = False
    resources: Mapping[str, int] = field(default_factory=dict)
    findings: Sequence[str] = ()
    waiting: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    mig: Mapping[str, int] = field(default_factory=dict)
    undivided: Sequence[str] = ()

    @classmethod
    def of(cls, desired: Mapping[str, Any], driver: Mapping[str, Any], sharing: Mapping[str, Any]) -> GpuState:
        """Build from a host's derived data (gpus, exposure_labels, roles) and the results of nvidia_driver and gpu_sharing."""
        probe = driver.get("gpu") or {}
        consistent = probe.get("probe") == "ok" and probe.get("libraries") == [probe.get("loaded")]
        findings: list[str] = []
        waiting: list[str] = []
        for found in probe.get("findings") or []:
            sentence = f"{found['what']}: found {found['found']}; wanted {found['wanted']}"
            (waiting if consistent and found["what"] == DRIVER else findings).append(sentence)
        gpus = desired.get("gpus") or {}
        resources = {str(name): int(count) for name, count in (gpus.get("resources") or {}).items()}
        mig = ((desired.get("roles") or {}).get("gpu_sharing") or {}).get("mig") or {}
        late = [*(sharing.get("deferred") or []), *(c for c in sharing.get("changes") or [] if REBOOT in c["effects"])]
        undivided = [f"{change['what']}: found {change['before']}; wanted {change['after']}" for change in late]
        declared = bool(gpus.get("declared") or resources)
        return cls(declared, resources, findings, waiting, desired.get("exposure_labels") or {}, mig, undivided)

    def new(self, node: Mapping[str, Any]) -> list[Check]:
        """Return the checks of a node that is not accepted yet."""
        return self._checks(node, [*self.findings, *self.waiting, *self.undivided], self.resources)

    def accepted(self, node: Mapping[str, Any]) -> list[Check]:
        """Return the checks of a node that carries work; what waits for a drain is no reason to take its acceptance.

        A division that differs from what it was accepted with does not wait: the last boot lost it.
        """
        labels = node["metadata"].get("labels") or {}
        settled = not self.undivided and all(labels.get(key) == value for key, value in self.labels.items())
        lost = self.undivided if self.mig and _stored_check(node, GPU_HEALTH).get("mig") == self.mig else ()
        return self._checks(node, [*self.findings, *lost], self.resources if settled else {})

    def lapsed(self, node: Mapping[str, Any]) -> bool:
        """Tell whether a node that carries work fails a check that it passed once; one never passed is not held against it."""
        return any(not check.passed and had(node, check.name) for check in self.accepted(node))

    def _checks(self, node: Mapping[str, Any], findings: Sequence[str], resources: Mapping[str, int]) -> list[Check]:
        if not self.declared and not findings:
            return []
        mig = {} if self.undivided else self.mig
        checks = [Check(GPU_HEALTH, not findings, found="; ".join(findings), mig=mig)]
        if resources:
            allocatable = (node.get("status") or {}).get("allocatable") or {}
            counts = {name: int(allocatable.get(name, 0)) for name in resources}
            short = [f"{name} {counts[name]} of {count}" for name, count in resources.items() if counts[name] < count]
            checks.append(Check(GPU_RESOURCES, not short, found=", ".join(short)))
        return checks


def failed(checks: Sequence[Check]) -> bool:
    """Tell whether any check failed."""
    return any(not check.passed for check in checks)


def hopeless(checks: Sequence[Check]) -> list[Check]:
    """Return the failed checks that waiting does not mend: the host's own findings."""
    return [check for check in checks if check.name == GPU_HEALTH and not check.passed]


def stored(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the gate's result kept on a Node; empty where there is none that can be read."""
    try:
        data = json.loads((node["metadata"].get("annotations") or {}).get(ANNOTATION, "{}"))
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def had(node: Mapping[str, Any], name: str) -> bool:
    """Tell whether the node passed a check once; one accepted before it had a driver did not, and stays in service."""
    return bool(_stored_check(node, name).get("passed"))


def _stored_check(node: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (stored(node).get("checks") or {}).get(name) or {}


def with_gpus(node: Mapping[str, Any], checks: Sequence[Check]) -> str:
    """Return the annotation's text with GPU checks added to the node's result."""
    data = stored(node)
    added = {check.name: check.stored() for check in checks}
    return json.dumps({**data, "checks": {**(data.get("checks") or {}), **added}}, sort_keys=True)
