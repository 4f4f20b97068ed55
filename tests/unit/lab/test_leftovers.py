# SPDX-License-Identifier: Apache-2.0
"""`scripts/lab down --dead`."""

from __future__ import annotations

import io

from fake_podman import FakePodman
from rich.console import Console

from bedplate_lab import labels
from bedplate_lab.leftovers import remove_dead
from bedplate_lab.podman import Podman
from bedplate_lab.steps import Steps


def clear(fake: FakePodman) -> None:
    remove_dead(Steps(Console(file=io.StringIO())), Podman(fake))


def test_a_dead_lab_of_another_checkout_goes_with_its_network_and_volumes(fake: FakePodman) -> None:
    fake.container("bedplate-lab-cp1", "exited", {labels.LAB: "other"})
    fake.container("bedplate-lab-w1", "running", {labels.LAB: "other"}, pid=2**22 + 1)
    fake.container("web", "exited", {})
    fake.networks["bedplate-lab"] = {labels.LAB: "other"}
    fake.volumes.add("bedplate-lab-cp1")
    clear(fake)
    assert (set(fake.containers), fake.networks, fake.volumes) == ({"web"}, {}, set())


def test_a_lab_of_which_anything_runs_stays_whole(fake: FakePodman) -> None:
    fake.container("bedplate-lab-cp1", "exited", {labels.LAB: "other"})
    fake.container("bedplate-lab-depot", "running", {labels.LAB: "other"})
    fake.networks["bedplate-lab"] = {labels.LAB: "other"}
    clear(fake)
    assert set(fake.containers) == {"bedplate-lab-cp1", "bedplate-lab-depot"}
    assert set(fake.networks) == {"bedplate-lab"}


def test_this_checkouts_own_dead_hosts_stay(fake: FakePodman) -> None:
    fake.container("bedplate-lab-cp1", "exited", {labels.LAB: labels.INSTANCE})
    fake.networks["bedplate-lab"] = {labels.LAB: labels.INSTANCE}
    clear(fake)
    assert (set(fake.containers), set(fake.networks)) == ({"bedplate-lab-cp1"}, {"bedplate-lab"})
