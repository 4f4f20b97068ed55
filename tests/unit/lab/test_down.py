# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import shutil

import pytest
from fake_podman import FakePodman
from rich.console import Console

from bedplate_lab import down as down_module
from bedplate_lab import hosts, inventory, labels, paths, state, traces
from bedplate_lab.inventory import Depot
from bedplate_lab.podman import Podman
from bedplate_lab.report import silent
from bedplate_lab.state import State
from bedplate_lab.steps import Steps, duration
from bedplate_lab.topology import planned


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """No sysctl of this machine is written; what `restore` is told of other containers is noted."""
    told: list[bool] = []

    def restore(before: object, others: bool) -> list[str]:
        told.append(others)
        return ["kernel.panic: 10 → 0"]

    monkeypatch.setattr(traces, "restore", restore)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    return told


def down(fake: FakePodman, cache: bool = False) -> str:
    output = io.StringIO()
    down_module.down(Steps(Console(file=output, width=200)), cache, Podman(fake))
    return output.getvalue()


def lab(fake: FakePodman) -> None:
    """A lab that is up."""
    podman = Podman(fake)
    podman("network", "create", *labels.arguments(), "bedplate-lab")
    hosts.ensure(podman, planned(1, 2), "image", "key", silent)
    state.save(State(control_planes=1, workers=2, packages=["runc"]))
    inventory.write(planned(1, 2), Depot("ca\n", "key\n", "/cache/helm"))


def test_down_removes_all_the_lab_made_and_only_that(fake: FakePodman) -> None:
    lab(fake)
    fake.container("web", "running", {})
    fake.container("bedplate-lab-w7", "running", {labels.LAB: "other"})
    fake.networks["other"] = {}
    paths.cache("build").mkdir(parents=True)
    text = down(fake)
    assert set(fake.containers) == {"web", "bedplate-lab-w7"}
    assert fake.volumes == set()
    assert set(fake.networks) == {"other"}
    assert not inventory.HOSTS.exists()
    assert not paths.state().exists()
    assert paths.cache("build").is_dir()
    assert "kernel.panic: 10 → 0" in text
    assert "installed for the lab and left: runc" in text


def test_forwarding_stays_on_while_other_containers_run(fake: FakePodman, machine: list[bool]) -> None:
    lab(fake)
    down(fake)
    fake.container("web", "running", {})
    down(fake)
    assert machine == [False, True]


def test_down_twice_and_down_without_a_lab_are_fine(fake: FakePodman) -> None:
    down(fake)
    lab(fake)
    down(fake)
    down(fake)


def test_down_goes_by_labels_when_the_record_is_lost_or_damaged(fake: FakePodman) -> None:
    lab(fake)
    state.path().write_text("{")
    assert "going by podman's labels" in down(fake)
    assert fake.containers == {}
    assert fake.networks == {}


def test_down_with_cache_removes_the_cache(fake: FakePodman) -> None:
    lab(fake)
    paths.cache("build", "etcd").mkdir(parents=True)
    down(fake, cache=True)
    assert [entry.name for entry in paths.cache().iterdir()] == ["locks"]


def test_steps_say_when_they_begin_and_how_they_end() -> None:
    output = io.StringIO()
    steps = Steps(Console(file=output, width=200))
    with steps.step("first") as report:
        report("kubelet v1.36.3")
    with pytest.raises(RuntimeError), steps.step("second"):
        raise RuntimeError
    words = [line.split("]", 1)[1].split() for line in output.getvalue().splitlines()]
    assert words[0] == ["start", "first"]
    assert words[1] == ["first:", "kubelet", "v1.36.3"]
    assert words[2][:2] == ["done", "first"]
    assert words[-1][:2] == ["failed", "second"]


@pytest.mark.parametrize(("seconds", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (60, "1 min 00 s"), (185.4, "3 min 05 s")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
