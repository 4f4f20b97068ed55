# SPDX-License-Identifier: Apache-2.0
"""Hosts and desired states of the driver."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_driver import NvidiaDriver
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_plan import Desired
from ansible_collections.bedplate.metal.plugins.modules.nvidia_driver import ARGUMENT_SPEC, build_desired
from interrupted import Case
from simulated_gpu import NEW, OLD, Machine, gpu_host, h100

from recorded_host import RecordedHost


def driver_desired(**options: Any) -> Desired:
    defaults = {name: option.get("default") for name, option in ARGUMENT_SPEC.items()}
    return build_desired({**defaults, "version": NEW, "accelerators": ["h100-80gb"], "lock_timeout_seconds": 0, **options})


def with_driver(machine: Machine, version: str = OLD, **options: Any) -> RecordedHost:
    """A host on which this role set a driver up."""
    host = gpu_host(machine)
    outcome = execute(NvidiaDriver(), host, driver_desired(version=version, **options), Policy())
    assert outcome.changed, [str(p) for p in outcome.problems]
    host.commands.clear()
    return host


CASES = [
    Case("nvidia_driver on a fresh host", NvidiaDriver, driver_desired, lambda: gpu_host(h100())),
    Case("nvidia_driver without NVSwitches", NvidiaDriver, driver_desired, lambda: gpu_host(Machine([]))),
    Case("nvidia_driver upgrade of a drained node", NvidiaDriver, driver_desired, lambda: with_driver(h100())),
    Case(
        "nvidia_driver other kind of modules",
        NvidiaDriver,
        lambda: driver_desired(version=OLD, modules="proprietary"),
        lambda: with_driver(h100()),
    ),
]
