# SPDX-License-Identifier: Apache-2.0
"""Hosts and desired states of the component nvme."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.nvme import Nvme
from ansible_collections.bedplate.metal.plugins.module_utils.nvme_volumes import NvmeDesired
from ansible_collections.bedplate.metal.plugins.modules import nvme as nvme_module
from interrupted import Case
from simulated_nvme import EXT4, Drive, Machine, drives

from recorded_host import RecordedHost


def volume(**options: Any) -> dict[str, Any]:
    specification = nvme_module.ARGUMENT_SPEC["volumes"]["options"]
    defaults = {name: option["default"] for name, option in specification.items() if "default" in option}
    return {**defaults, "name": "scratch", "mount": "/scratch", **options}


RAID0 = volume(layout="raid0", serials=["S1", "S2"])
RULE = volume(layout="raid0", min_size_bytes=1)
SINGLE = volume(name="data", mount="/data", serials=["S3"], filesystem="ext4")
RAID1 = volume(layout="raid1", serials=["S1", "S2"])
LVM = volume(layout="lvm", serials=["S1", "S2"])


def desired(*volumes: dict[str, Any], wipe: tuple[str, ...] = (), allow: tuple[str, ...] = ()) -> NvmeDesired:
    parameters = {"volumes": list(volumes), "wipe": list(wipe), "allow": list(allow), "lock_timeout_seconds": 0}
    return nvme_module.build_desired(parameters)


def run(host: RecordedHost, *volumes: dict[str, Any], policy: Policy | None = None, **options: Any) -> Outcome:
    return execute(Nvme(), host, desired(*volumes, **options), policy or Policy())


def made(machine: Machine, *volumes: dict[str, Any]) -> RecordedHost:
    """Return a host on which the volumes were made."""
    host = machine.host()
    outcome = run(host, *volumes)
    assert outcome.changed, [str(problem) for problem in outcome.problems]
    host.commands.clear()
    return host


def errors(outcome: Outcome) -> str:
    return "\n".join(str(problem) for problem in outcome.problems if problem.severity == "error")


def warnings(outcome: Outcome) -> str:
    return "\n".join(str(problem) for problem in outcome.problems if problem.severity == "warning")


def writes(machine: Machine) -> list[int]:
    return [drive.writes for drive in machine.drives]


def refused(machine: Machine, *volumes: dict[str, Any], wipe: tuple[str, ...] = (), allow: tuple[str, ...] = ()) -> str:
    """The problems of a run that must touch nothing."""
    host = machine.host()
    before = host.snapshot()
    outcome = run(host, *volumes, wipe=wipe, allow=allow)
    assert errors(outcome) and not outcome.changed
    assert host.snapshot() == before and writes(machine) == [0] * len(machine.drives)
    return errors(outcome)


def with_data() -> Machine:
    """Return a machine whose second of three disks carries a file system that nothing uses."""
    return Machine(Drive(serial="S1"), Drive(serial="S2", signatures=[dict(EXT4)], zeros=False), Drive(serial="S3"))


def lost_a_disk() -> RecordedHost:
    """Return a host whose raid1 lost its second disk, with a blank one put in its place."""
    machine = Machine(*drives(2))
    host = made(machine, RAID1)
    machine.drives[1] = Drive(serial="S9")
    machine.boot(host, [0, 1])
    return host


CASES = [
    Case("nvme raid0 and single", Nvme, lambda: desired(RAID0, SINGLE), lambda: Machine(*drives(3)).host()),
    Case("nvme by rule", Nvme, lambda: desired(RULE), lambda: Machine(*drives(3)).host()),
    Case("nvme raid1", Nvme, lambda: desired(RAID1), lambda: Machine(*drives(2)).host()),
    Case("nvme lvm", Nvme, lambda: desired(LVM), lambda: Machine(*drives(2)).host()),
    Case("nvme wiping", Nvme, lambda: desired(RAID0, wipe=("S2",), allow=("wipe",)), lambda: with_data().host()),
    Case(
        "nvme made anew",
        Nvme,
        lambda: desired(RAID1, wipe=("S1", "S2"), allow=("wipe",)),
        lambda: made(Machine(*drives(2)), RAID0),
    ),
    Case("nvme replaced disk", Nvme, lambda: desired({**RAID1, "serials": ["S1", "S9"]}), lost_a_disk),
]
