# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.cluster_lock import (
    LEASES,
    NAME,
    Owner,
    acquire,
    decide,
    lease_object,
    release,
    this_run,
)
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api
from fake_api import FakeApi, Served

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
ME = Owner("ann@ctl1 (pid 1)", "ctl1", "boot1", 1, "rolling pool train")
BOB = Owner("bob@ctl2 (pid 7)", "ctl2", "boot2", 7, "upgrade")
DEAD = Owner("ann@ctl1 (pid 99)", "ctl1", "boot1", 99)


def decision(owner: Owner | None, *, after_seconds: int = 10, force: bool = False, alive: bool = True) -> str:
    lease = None
    if owner:
        lease = lease_object({"metadata": {"resourceVersion": "1"}, "spec": {}}, owner, NOW, 900)
    return decide(lease, ME, NOW + timedelta(seconds=after_seconds), force=force, alive=lambda pid: alive).action


def test_who_gets_the_lock() -> None:
    assert decision(None) == "take"
    assert decision(ME) == "renew"
    assert decision(BOB) == "refuse"
    assert decision(BOB, after_seconds=901) == "take"
    assert decision(BOB, force=True) == "take"
    assert decision(DEAD, alive=False) == "take", "the run of this machine that held it was killed"
    assert decision(DEAD, alive=True) == "refuse"
    assert decision(BOB, alive=False) == "refuse", "another machine's processes cannot be seen from here"


def test_taken_renewed_refused_to_others_and_given_back(tmp_path: Path) -> None:
    fake = FakeApi()
    with Served(fake, tmp_path) as kubeconfig:
        api = Api(kubeconfig)
        assert acquire(api, ME, duration_seconds=900, force=False, now=NOW).action == "take"
        lease = fake.objects[f"{LEASES}/{NAME}"]
        assert lease["spec"]["holderIdentity"] == ME.identity and lease["spec"]["renewTime"] == "2026-01-01T12:00:00.000000Z"
        later = NOW + timedelta(seconds=60)
        assert acquire(api, ME, duration_seconds=900, force=False, now=later).action == "renew"
        spec = fake.objects[f"{LEASES}/{NAME}"]["spec"]
        assert (spec["acquireTime"], spec["leaseTransitions"]) == ("2026-01-01T12:00:00.000000Z", 1)
        with pytest.raises(BedplateError, match=r"held by ann@ctl1 \(pid 1\), for rolling pool train.*bedplate_take_lock"):
            acquire(api, BOB, duration_seconds=900, force=False, now=later)
        assert not release(api, BOB)
        assert release(api, ME)
        assert acquire(api, BOB, duration_seconds=900, force=False, now=later).action == "take"


def test_of_two_that_take_at_once_one_fails(tmp_path: Path) -> None:
    fake = FakeApi()

    def race(api: FakeApi, method: str, path: str) -> None:
        if method == "POST":
            api.add(f"{LEASES}/{NAME}", lease_object(None, BOB, NOW, 900))

    fake.before = race
    with Served(fake, tmp_path) as kubeconfig, pytest.raises(BedplateError, match="same moment"):
        acquire(Api(kubeconfig), ME, duration_seconds=900, force=False, now=NOW)


def test_a_run_is_named_by_user_machine_and_process() -> None:
    owner = this_run("rolling", 42)
    assert owner.identity.endswith("(pid 42)") and owner.machine in owner.identity
