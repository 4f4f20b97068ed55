# SPDX-License-Identifier: Apache-2.0
"""What each machine shows of the run that brings every role: the tests of both, which each of them imports."""

from __future__ import annotations

from .machines import sh
from .whole import Whole, address


def test_one_run_brings_everything_with_one_reboot(whole: Whole) -> None:
    changed = {change["what"] for change in whole.first.ok().of(whole.name)["changes"]}
    assert {"file /etc/chrony/sources.d/bedplate.sources", "volume scratch", "address of rail0"} <= changed
    assert whole.boots[0] != whole.boots[1] and whole.starts[1] - whole.starts[0] == 1


def test_a_second_run_changes_nothing_and_reboots_nothing(whole: Whole) -> None:
    found = whole.second.ok().of(whole.name)
    assert found["executed"] and found["changes"] == [] and found["deferred"] == []
    assert whole.boots[1] == whole.boots[2]


def test_the_fabrics_device_and_address_are_there_after_the_reboot(whole: Whole) -> None:
    assert sh(whole.name, "systemctl is-active bedplate-fabric").strip() == "active"
    assert "PORT_ACTIVE" in sh(whole.name, "ibv_devinfo -i 1")
    assert f"inet {address(whole.name)} " in sh(whole.name, "ip -4 address show")
