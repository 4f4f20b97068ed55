# SPDX-License-Identifier: Apache-2.0
"""A clock that is wrong, on a machine that has its own and a time server beside it (B15)."""

from __future__ import annotations

from ...wait import wait_until
from ..machines import Metal, machine, sh
from ..whole import PLAIN, SECURE, desired, serve_time


def test_b15_an_hour_behind_stops_with_the_offset_until_chrony_has_set_it(final: Metal) -> None:
    wait_until(lambda: sh(SECURE, "systemctl is-active chrony", check=False).strip() == "active", "the time server", 600)
    serve_time()
    server = machine(SECURE).address
    time = {"servers": [server], "max_offset_seconds": 5, "service_required": True}
    checked = {"preflight_time": time, "preflight_requirements": {"min_disk_bytes": 1024**3}}
    sh(PLAIN, "systemctl stop chrony && date --set=@$(($(date +%s) - 3600)) >/dev/null")
    run = final.play(PLAIN, ("preflight",), **checked)
    assert run.code != 0 and f"s behind {server}" in run.message()
    kernel = {**desired(final, PLAIN), "metal_roles": ["kernel"]}
    assert final.together({PLAIN: kernel}).ok().changes() == {PLAIN: ["service chrony"]}
    wait_until(lambda: sh(PLAIN, "chronyc waitsync 1 1", check=False) and _near(), "chrony to set the clock", 120)
    final.play(PLAIN, ("preflight",), **checked).ok()


def _near() -> bool:
    here, there = (int(sh(name, "date +%s")) for name in (PLAIN, SECURE))
    return abs(here - there) < 60
