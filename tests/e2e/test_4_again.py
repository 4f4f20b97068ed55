# SPDX-License-Identifier: Apache-2.0
"""site.yml on a built cluster: nothing to do changes nothing, drift is predicted, and work in service is not disturbed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .hosts import sh
from .site import Run, Site

MOST_EXECUTED = 15
"""Executed tasks per host that a run with nothing to do may have."""
RUNTIME = "/etc/containerd/conf.d/50-bedplate.toml"
ALLOW_RUNTIME = ["--extra-vars", json.dumps({"bedplate_allow": ["restart:containerd"]})]


def assert_nothing_happened(run: Run) -> None:
    assert {host: found["changed"] for host, found in run.hosts.items() if found["changed"]} == {}, run.output[-6000:]
    assert run.changes() == {}
    executed = {host: found["executed"] for host, found in run.hosts.items() if host != "controller"}
    assert max(executed.values()) <= MOST_EXECUTED, executed


def test_a_second_run_changes_nothing_even_from_a_fresh_controller(site: Site, tmp_path: Path, hosts: dict[str, Any]) -> None:
    run = site.run("--diff", env={"XDG_RUNTIME_DIR": str(tmp_path)}).ok()
    assert set(hosts) <= set(run.hosts)
    assert_nothing_happened(run)


def test_a_second_run_limited_to_one_worker_changes_nothing(site: Site, workers: list[str], hosts: dict[str, Any]) -> None:
    run = site.run("--limit", workers[0]).ok()
    assert_nothing_happened(run)
    others = {name: run.of(name)["executed"] for name in hosts if name != workers[0]}
    assert sum(others.values()) <= 2, f"only the cluster's state is read elsewhere: {others}"


@pytest.fixture(scope="module")
def drifted(site: Site, workers: list[str]) -> Iterator[str]:
    """A worker on which somebody removed files, one of which only a restart of the runtime brings back."""
    name = workers[1]
    sh(name, "rm /etc/sysctl.d/*bedplate*.conf /etc/crictl.yaml")
    sh(name, f"mv {RUNTIME} {RUNTIME}.away")
    yield name
    sh(name, f"[ -e {RUNTIME} ] && rm {RUNTIME}.away || mv {RUNTIME}.away {RUNTIME}")


@pytest.fixture(scope="module")
def predicted(site: Site, drifted: str) -> Run:
    """Check mode on the drifted worker."""
    return site.run("--limit", drifted, "--check", "--diff").ok()


@pytest.fixture(scope="module")
def repaired(site: Site, drifted: str, predicted: Run) -> Run:
    """The run after check mode."""
    return site.run("--limit", drifted).ok()


def test_check_mode_predicts_what_the_run_then_does(predicted: Run, repaired: Run, drifted: str) -> None:
    assert predicted.changes() == repaired.changes()
    assert len(predicted.changes()[drifted]) >= 2
    assert [change["what"] for change in predicted.of(drifted)["deferred"]] == [
        change["what"] for change in repaired.of(drifted)["deferred"]
    ]


def test_what_would_disturb_work_is_left_to_the_rolling_playbook(repaired: Run, drifted: str) -> None:
    deferred = repaired.of(drifted)["deferred"]
    assert any("restart:containerd" in change["effects"] for change in deferred)
    assert sh(drifted, f"ls {RUNTIME}", check=False) == "", "a deferred file is not written"
    assert "rolls it out" in repaired.output
    assert f"{drifted}: {deferred[0]['what']}" in repaired.output


def test_a_flag_that_names_the_effect_permits_it(site: Site, drifted: str, repaired: Run) -> None:
    before = sh(drifted, "systemctl show --property ActiveEnterTimestampMonotonic containerd")
    run = site.run("--limit", drifted, *ALLOW_RUNTIME).ok()
    assert not [change for change in run.of(drifted)["deferred"] if "restart:containerd" in change["effects"]]
    assert run.of(drifted)["changed"] >= 1
    assert sh(drifted, "systemctl show --property ActiveEnterTimestampMonotonic containerd") != before
    assert_nothing_happened(site.run("--limit", drifted).ok())
