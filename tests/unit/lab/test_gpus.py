# SPDX-License-Identifier: Apache-2.0
"""`scripts/lab gpu`: hardware for hosts, faults, healing; the state file itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_podman import FakePodman

from bedplate_lab import cli, gpus, gpustate, state
from bedplate_lab.errors import LabError
from bedplate_lab.gpustate import GpuState
from bedplate_lab.podman import Podman
from bedplate_lab.topology import Host, planned


@pytest.fixture
def host() -> Host:
    return next(one for one in planned(1, 1) if one.pool == "train")


@pytest.fixture
def podman(fake: FakePodman, host: Host) -> Podman:
    fake.output["cat"] = "580.126.09 open\n"
    podman = Podman(fake)
    gpus.ensure(podman, [host])
    return podman


def found(podman: Podman, host: Host) -> GpuState:
    there = gpus.read(podman, host)
    assert there is not None
    return there


def said(fake: FakePodman, program: str) -> list[list[str]]:
    return [words[3:] for words in fake.calls if words[0] == "exec" and words[2] == program]


def test_hosts_of_a_pool_get_its_hardware_once(fake: FakePodman) -> None:
    podman = Podman(fake)
    hosts = planned(1, 2)
    assert gpus.ensure(podman, hosts) == ["w1", "w2"]
    assert [len(found(podman, one).gpus) for one in hosts[1:]] == [8, 4]
    assert gpus.read(podman, hosts[0]) is None
    gpus.lose(podman, hosts[1], [2])
    assert gpus.ensure(podman, hosts) == []
    assert found(podman, hosts[1]).gpus[2].get("lost") == "1"


def test_the_file_is_altered_in_place(podman: Podman, host: Host) -> None:
    """Containers hold the file itself by a mount."""
    path = gpus.place(podman, host)
    before = path.stat().st_ino
    generation = found(podman, host).generation
    gpus.hang(podman, host)
    assert path.stat().st_ino == before
    assert found(podman, host).generation == generation + 1


@pytest.mark.parametrize("profile", gpustate.profiles())
def test_every_profile_makes_a_whole_file(profile: str) -> None:
    made = gpustate.new("w1", (profile, None))
    assert gpustate.parse(made.text()).text() == made.text()
    uuids = [gpu.get("uuid") for gpu in made.gpus]
    assert len(set(uuids)) == len(uuids) == gpustate.profiles()[profile]["count"]
    assert uuids == [gpu.get("uuid") for gpu in gpustate.new("w1", (profile, None)).gpus]
    assert set(uuids).isdisjoint(gpu.get("uuid") for gpu in gpustate.new("w2", (profile, None)).gpus)
    assert len({gpu.get("pci") for gpu in made.gpus}) == len(uuids)


def test_a_cut_file_is_refused() -> None:
    text = gpustate.new("w1", ("h100-80gb", None)).text()
    with pytest.raises(LabError, match="found no whole file of format 1; give the host its GPUs again"):
        gpustate.parse(text[:-20])


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        ([("h100", None)], "GPU profile 'h100': wanted one of a100-80gb, b200-180gb, h100-80gb"),
        ([("h100-80gb", 9)], "9 GPUs of h100-80gb: wanted 0 to 8, the places a HGX H100 has"),
        ([("h100-80gb", 8), ("a100-80gb", 8), ("l40s-48gb", 1)], "17 GPUs: wanted 16 at most"),
    ],
)
def test_machines_there_cannot_be_are_refused(machines: list[tuple[str, int | None]], message: str) -> None:
    with pytest.raises(LabError, match=message):
        gpustate.new("w1", *machines)


def test_a_lost_gpu_comes_with_an_xid_in_state_and_journal(fake: FakePodman, podman: Podman, host: Host) -> None:
    gpus.lose(podman, host, [3])
    lost = found(podman, host).gpus[3]
    assert (lost.get("lost"), lost.get("xid").split()[:2]) == ("1", ["1", "79"])
    (words,) = said(fake, "logger")
    assert words[:4] == ["--tag", "kernel", "--priority", "user.err"]
    assert words[4].startswith("NVRM: Xid (PCI:0000:61:00): 79, ")


def test_an_unplugged_gpu_says_nothing(fake: FakePodman, podman: Podman, host: Host) -> None:
    gpus.lose(podman, host, [0], unplug=True)
    assert found(podman, host).gpus[0].get("absent") == "1"
    assert said(fake, "logger") == []


def test_memory_errors_count_and_wait_for_a_reset(podman: Podman, host: Host) -> None:
    gpus.ecc(podman, host, [1], 5, 0)
    gpus.ecc(podman, host, [1], 0, 2)
    gpu = found(podman, host).gpus[1]
    assert [gpu.get(key) for key in gpus.ECC_KEYS] == ["5", "2", "5", "2"]
    assert gpu.get("remap_pending") == "1"
    assert [xid.split()[1] for xid in gpu.all("xid")] == ["94", "63"]


def test_only_the_last_xids_are_kept(podman: Podman, host: Host) -> None:
    for code in range(20):
        gpus.xid(podman, host, code, [0])
    assert [int(xid.split()[1]) for xid in found(podman, host).gpus[0].all("xid")] == list(range(4, 20))


def test_a_mismatch_needs_a_loaded_driver_and_is_healed(podman: Podman, host: Host) -> None:
    with pytest.raises(LabError, match="host w1: no driver is loaded"):
        gpus.mismatch(podman, host, None)
    with gpus.opened(gpus.place(podman, host), "w1") as there:
        there.section("driver").set("loaded", "580.126.09")
    gpus.mismatch(podman, host, None)
    assert found(podman, host).section("driver").get("loaded") == "580.105.08"
    gpus.hang(podman, host)
    gpus.lose(podman, host, [])
    gpus.heal(podman, host, [])
    healed = found(podman, host)
    assert (healed.section("driver").get("loaded"), healed.section("driver").get("hang")) == ("580.126.09", "0")
    assert {gpu.get("lost") for gpu in healed.gpus} == {"0"}
    assert [xid for gpu in healed.gpus for xid in gpu.all("xid")] == []


def test_healing_one_gpu_leaves_the_others(podman: Podman, host: Host) -> None:
    gpus.lose(podman, host, [1, 2])
    gpus.heal(podman, host, [1])
    assert [gpu.get("lost") for gpu in found(podman, host).gpus[:3]] == ["", "0", "1"]


def test_new_hardware_keeps_the_driver_that_runs(podman: Podman, host: Host) -> None:
    with gpus.opened(gpus.place(podman, host), "w1") as there:
        there.section("driver").set("loaded", "580.126.09")
    gpus.install(podman, host, [("l40s-48gb", 2), ("h100-80gb", 1)])
    there = found(podman, host)
    assert [gpu.get("name") for gpu in there.gpus] == ["NVIDIA L40S", "NVIDIA L40S", "NVIDIA H100 80GB HBM3"]
    assert there.section("driver").get("loaded") == "580.126.09"
    gpus.remove(podman, host)
    assert found(podman, host).gpus == []


def test_a_key_there_is_not_is_named(podman: Podman, host: Host) -> None:
    gpus.set_values(podman, host, [0], {"temperature": "91", "mig": "1"})
    assert found(podman, host).gpus[0].get("temperature") == "91"
    with pytest.raises(LabError, match="GPU key 'heat': wanted one of absent, architecture"):
        gpus.set_values(podman, host, [0], {"heat": "91"})


def test_numbers_and_hosts_are_checked(podman: Podman, host: Host) -> None:
    with pytest.raises(LabError, match="host w1: GPU 8: wanted 0 to 7"):
        gpus.lose(podman, host, [8])
    with pytest.raises(LabError, match=r"host cp1: it has no GPUs\. next: scripts/lab gpu cp1 install PROFILE"):
        gpus.hang(podman, planned(1, 0)[0])


def test_the_command_line_reaches_them(
    fake: FakePodman, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("bedplate_lab.gpucli.Podman", lambda: Podman(fake))
    with state.update() as record:
        record.extra["m1"] = "10.87.0.51"

    def run(*words: str) -> str:
        assert cli.main(["gpu", "m1", *words]) == 0
        return capsys.readouterr().out

    assert "m1 has no GPUs" in run("show")
    run("install", "h100-80gb:2", "l40s-48gb:1")
    run("lose", "--gpu", "1")
    run("set", "--gpu", "0", "temperature=90")
    run("hang")
    assert run("show").splitlines() == [
        "m1: HGX H100, driver none loaded, hangs",
        "   0  0000:1b:00.0  NVIDIA H100 80GB HBM3",
        "   1  0000:43:00.0  NVIDIA H100 80GB HBM3  lost, XID 79",
        "   2  0000:16:00.0  NVIDIA L40S",
    ]
    run("heal")
    assert "hangs" not in run("show") and "lost" not in run("show")
    assert cli.main(["gpu", "m1", "install", "h100-80gb:x"]) == 1
    assert "wanted PROFILE or PROFILE:COUNT" in capsys.readouterr().err
