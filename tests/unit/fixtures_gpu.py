# SPDX-License-Identifier: Apache-2.0
"""Hosts and desired states of the driver and the container toolkit."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils import nvidia_container_toolkit as toolkit
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_driver import NvidiaDriver
from ansible_collections.bedplate.metal.plugins.module_utils.nvidia_plan import Desired
from ansible_collections.bedplate.metal.plugins.modules import nvidia_container_toolkit as toolkit_module
from ansible_collections.bedplate.metal.plugins.modules import nvidia_driver as driver_module
from interrupted import Case
from simulated_gpu import NEW, OLD, Machine, cdi_text, gpu_host, h100

from recorded_host import RecordedHost


def driver_desired(**options: Any) -> Desired:
    defaults = {name: option.get("default") for name, option in driver_module.ARGUMENT_SPEC.items()}
    values = {**defaults, "version": NEW, "accelerators": ["h100-80gb"], "lock_timeout_seconds": 0, **options}
    return driver_module.build_desired(values)


def run_driver(host: RecordedHost, policy: Policy | None = None, **options: Any) -> Outcome:
    return execute(NvidiaDriver(), host, driver_desired(**options), policy or Policy())


def refused(host: RecordedHost, policy: Policy | None = None, **options: Any) -> str:
    """The problems of a run that must not touch anything."""
    before = host.snapshot()
    outcome = run_driver(host, policy, **options)
    assert host.snapshot() == before and not outcome.changed
    errors = [str(p) for p in outcome.problems if p.severity == "error"]
    assert errors
    return "\n".join(errors)


def toolkit_desired(**options: Any) -> toolkit.Desired:
    defaults = {name: option.get("default") for name, option in toolkit_module.ARGUMENT_SPEC.items()}
    return toolkit_module.build_desired({**defaults, "version": "1.20.2-1", "lock_timeout_seconds": 0, **options})


def with_driver(machine: Machine, version: str = OLD, **options: Any) -> RecordedHost:
    """A host on which the driver was set up by its role."""
    host = gpu_host(machine)
    outcome = execute(NvidiaDriver(), host, driver_desired(version=version, **options), Policy())
    assert outcome.changed, [str(p) for p in outcome.problems]
    host.commands.clear()
    return host


def unloaded(machine: Machine) -> RecordedHost:
    """The same host before anything loads the driver."""
    host = with_driver(machine)
    for path in [p for p in host.files if p.startswith("/proc/driver/nvidia")]:
        del host.files[path]
    return host


def with_stale_spec() -> RecordedHost:
    """A host whose device specification was made for an older driver and fewer GPUs."""
    host = with_driver(h100())
    host.files["/var/run/cdi/nvidia.yaml"] = cdi_text("570.124.06", ["GPU-0"])
    return host


CASES = [
    Case("nvidia_driver on a fresh host", NvidiaDriver, driver_desired, lambda: gpu_host(h100())),
    Case("nvidia_driver without NVSwitches", NvidiaDriver, driver_desired, lambda: gpu_host(Machine([]))),
    Case("nvidia_driver upgrade where none is loaded", NvidiaDriver, driver_desired, lambda: unloaded(h100())),
    Case(
        "nvidia_driver other kind of modules",
        NvidiaDriver,
        lambda: driver_desired(version=OLD, modules="proprietary"),
        lambda: unloaded(h100()),
    ),
    Case("nvidia_container_toolkit", toolkit.NvidiaContainerToolkit, toolkit_desired, with_stale_spec),
    Case(
        "nvidia_container_toolkit with settings",
        toolkit.NvidiaContainerToolkit,
        lambda: toolkit_desired(discovery_mode="nvml", visible_devices_envvar=False),
        lambda: with_driver(h100()),
    ),
]
