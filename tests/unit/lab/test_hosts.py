# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import resource

import pytest
from fake_podman import FakePodman

from bedplate_lab import extra, hostimage, hosts, labels, network, ssh, state
from bedplate_lab.errors import LabError
from bedplate_lab.podman import Podman
from bedplate_lab.report import silent
from bedplate_lab.state import State
from bedplate_lab.steps import Steps
from bedplate_lab.topology import planned

KEY = "ssh-ed25519 AAAA bedplate-lab"
IMAGE = "localhost/bedplate-lab-host:test"
OWN = {labels.LAB: labels.INSTANCE, hosts.KEY_LABEL: hosts.fingerprint(KEY)}
CP1, W1, W2 = (host.container for host in planned(1, 2))


def ensure(fake: FakePodman) -> list[str]:
    return hosts.ensure(Podman(fake), planned(1, 2), IMAGE, KEY, silent)


def test_a_new_lab_boots_every_host_once(fake: FakePodman) -> None:
    assert ensure(fake) == ["cp1", "w1", "w2"]
    assert set(fake.containers) == {CP1, W1, W2}
    assert fake.volumes == {f"{CP1}-var", f"{W1}-var", f"{W2}-var"}


def test_a_running_lab_is_left_alone(fake: FakePodman) -> None:
    ensure(fake)
    fake.calls.clear()
    assert ensure(fake) == []
    assert fake.verbs() == []


def test_a_host_that_is_off_is_switched_on_with_all_it_holds(fake: FakePodman) -> None:
    ensure(fake)
    fake.containers[W1]["State"] = "exited"
    fake.calls.clear()
    assert ensure(fake) == ["w1"]
    assert fake.verbs() == [f"start {W1}"]


def test_a_host_that_does_not_start_any_more_is_replaced(fake: FakePodman) -> None:
    ensure(fake)
    fake.containers[W1]["State"] = "exited"
    fake.unstartable.add(W1)
    fake.calls.clear()
    assert ensure(fake) == ["w1"]
    assert fake.verbs() == [f"start {W1}", f"rm {W1}", f"run {W1}"]


@pytest.mark.parametrize("left", ["created", "initialized", "removing", "stopping", "dead"])
def test_what_an_interrupted_run_left_is_replaced(fake: FakePodman, left: str) -> None:
    fake.container(W2, left, OWN)
    fake.volumes.add(f"{W2}-var")
    assert "w2" in ensure(fake)
    assert f"rm {W2}" in fake.verbs()
    assert fake.containers[W2]["State"] == "running"


def test_a_container_whose_first_process_is_gone_does_not_run(fake: FakePodman) -> None:
    fake.container(W1, "running", OWN, pid=os.getpid())
    fake.container(W2, "running", OWN, pid=2**22 + 1)
    found = Podman(fake).containers()
    assert found[W1].running
    assert found[W2].state == "dead"


def test_a_host_of_an_earlier_lab_with_another_key_is_replaced(fake: FakePodman) -> None:
    fake.container(CP1, "running", {**OWN, hosts.KEY_LABEL: "other"})
    assert "cp1" in ensure(fake)
    assert f"run {CP1}" in fake.verbs()


def test_another_checkouts_hosts_are_never_touched(fake: FakePodman) -> None:
    fake.container(W1, "running", {labels.LAB: "other", labels.CHECKOUT: "/srv/other"})
    with pytest.raises(LabError, match=r"bedplate-lab-w1.*/srv/other.*scripts/lab down"):
        ensure(fake)
    assert fake.verbs() == []
    assert Podman(fake).containers() == {}


def test_every_failed_host_is_named_and_the_others_come_up(fake: FakePodman, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent_host(address: str, *_: object) -> None:
        if address != "10.87.0.11":
            raise LabError("no SSH as bedplate within 90 s: no answer on port 22")

    monkeypatch.setattr(ssh, "wait", silent_host)
    with pytest.raises(LabError) as error:
        ensure(fake)
    assert "host w1 (10.87.0.21): no SSH" in str(error.value)
    assert "host w2 (10.87.0.22): no SSH" in str(error.value)
    assert "cp1" not in str(error.value)
    assert fake.containers[CP1]["State"] == "running"


def test_the_arguments_a_systemd_host_needs() -> None:
    arguments = hosts.run_arguments(planned(1, 0)[0], IMAGE, KEY)
    assert arguments[:2] == ["--runtime", "runc"]
    for wanted in ("--privileged", "--systemd=always", "--cgroupns=private", "--pids-limit=-1", "--no-hosts", "--dns=none"):
        assert wanted in arguments
    assert arguments[arguments.index("--ip") + 1] == "10.87.0.11"
    assert arguments[arguments.index("--stop-signal") + 1] == "SIGRTMIN+3"
    script = arguments[arguments.index("-c") + 1]
    assert "mount --make-rshared /" in script
    assert script.rstrip().endswith("exec /sbin/init")


def test_limits_never_exceed_what_this_process_has() -> None:
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
        soft, hard = map(int, hosts.limit(kind).split(":"))
        most = resource.getrlimit(kind)[1]
        assert soft == hard
        assert 0 < hard <= (hosts.MOST_LIMIT if most == resource.RLIM_INFINITY else most)


def test_removing_hosts_removes_their_volumes(fake: FakePodman) -> None:
    ensure(fake)
    hosts.remove(Podman(fake), planned(1, 2)[1:])
    assert set(fake.containers) == {CP1}
    assert fake.volumes == {f"{CP1}-var"}


def test_extra_hosts_keep_their_addresses(fake: FakePodman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostimage, "ensure", lambda report: IMAGE)
    monkeypatch.setattr(ssh, "ensure_key", lambda: KEY)
    podman = Podman(fake)
    with pytest.raises(LabError, match="the lab is down"):
        extra.add(["m1"], Steps(), podman)
    podman("network", "create", *labels.arguments(), "bedplate-lab")
    state.save(State(control_planes=1, workers=2))
    assert {name: row["ansible_host"] for name, row in extra.add(["m1", "m2"], Steps(), podman).items()} == {
        "m1": "10.87.0.51",
        "m2": "10.87.0.52",
    }
    extra.remove(["m1", "never-there"], Steps(), podman)
    assert state.load().extra == {"m2": "10.87.0.52"}
    assert set(fake.containers) == {"bedplate-lab-m2"}
    assert extra.add(["m2", "m3"], Steps(), podman)["m3"]["ansible_host"] == "10.87.0.51"
    with pytest.raises(LabError, match="belongs to the lab"):
        extra.remove(["w1"], Steps(), podman)


def test_a_network_of_another_lab_is_refused_and_kept(fake: FakePodman) -> None:
    fake.networks["bedplate-lab"] = {labels.LAB: "other", labels.CHECKOUT: "/srv/other"}
    with pytest.raises(LabError, match="/srv/other"):
        network.ensure(Podman(fake))
    assert not network.remove(Podman(fake))
    assert "bedplate-lab" in fake.networks
