# SPDX-License-Identifier: Apache-2.0
"""MIG on the simulator: modes, placements, instances, their device nodes, and who sees them."""

from __future__ import annotations

import re

import pytest
from ansible_collections.bedplate.metal.plugins.plugin_utils.compatibility.table import load_table
from gpu_machine import GpuMachine

from bedplate_lab import gpustate


def slices(machine: GpuMachine, *profiles: str, gpu: str = "0") -> str:
    """Turn MIG on and make instances with their compute instances; what nvidia-smi said."""
    assert machine.smi("-i", gpu, "-mig", "1").returncode == 0
    return machine.smi("mig", "-i", gpu, "-cgi", ",".join(profiles), "-C").stdout


def mig_lines(machine: GpuMachine) -> list[str]:
    return [line.strip() for line in machine.smi("-L").stdout.splitlines() if line.startswith("  MIG")]


def test_instances_get_the_drivers_numbers_and_places(machine: GpuMachine) -> None:
    """As in NVIDIA's MIG user guide: two halves are instances 2 and 1."""
    said = slices(machine, "9", "3g.40gb")
    assert re.findall(r"created GPU instance ID +(\d+)", said) == ["2", "1"]
    rows = [line.split() for line in machine.smi("mig", "-lgi").stdout.splitlines() if "3g.40gb" in line]
    assert [row[-2] for row in rows] == ["0:4", "4:4"]
    assert [line.split(":")[0] for line in mig_lines(machine)] == ["MIG 3g.40gb     Device  0", "MIG 3g.40gb     Device  1"]


def test_a_gpu_holds_seven_small_instances_and_no_more(machine: GpuMachine) -> None:
    slices(machine, *["1g.10gb"] * 7)
    assert len(set(mig_lines(machine))) == 7
    result = machine.smi("mig", "-i", "0", "-cgi", "19")
    assert result.returncode == 23
    assert "Insufficient Resources" in result.stdout


@pytest.mark.parametrize(
    ("profiles", "fits"),
    [
        (("3g.40gb", "3g.40gb", "1g.10gb"), False),
        (("4g.40gb", "3g.40gb"), True),
        (("4g.40gb", "2g.20gb", "1g.10gb"), True),
        (("7g.80gb", "1g.10gb"), False),
        (("1g.20gb",) * 4, True),
        (("1g.10gb+me", "1g.10gb+me"), False),
    ],
)
def test_what_fits_is_what_the_guide_says(machine: GpuMachine, profiles: tuple[str, ...], fits: bool) -> None:
    said = slices(machine, *profiles)
    assert ("Failed to create GPU instances" not in said) == fits


def test_instances_need_the_mode_and_the_mode_needs_no_instances(machine: GpuMachine) -> None:
    assert machine.smi("mig", "-i", "1", "-cgi", "19").returncode == 3
    slices(machine, "7g.80gb")
    result = machine.smi("-i", "0", "-mig", "0")
    assert (result.returncode, "In use by another client" in result.stdout) == (19, True)
    assert machine.smi("mig", "-i", "0", "-dgi").returncode == 19
    assert machine.smi("mig", "-i", "0", "-dci").returncode == 0
    assert machine.smi("mig", "-i", "0", "-dgi").returncode == 0
    assert machine.smi("-i", "0", "-mig", "0").returncode == 0
    assert machine.smi("mig", "-lgi").returncode == 6


def test_ampere_in_use_waits_for_a_reset(machine: GpuMachine) -> None:
    machine.plug("a100-80gb")
    machine.boot()
    machine.change(lambda state: state.gpus[0].set("used_mib", 1000))
    assert "pending enable state" in machine.smi("-i", "0", "-mig", "1").stdout
    assert machine.rows("mig.mode.current,mig.mode.pending")[0] == ["Disabled", "Enabled"]
    machine.boot()
    assert machine.rows("mig.mode.current")[0] == ["Enabled"]


def test_hopper_in_use_refuses(machine: GpuMachine) -> None:
    machine.change(lambda state: state.gpus[0].set("used_mib", 1000))
    assert machine.smi("-i", "0", "-mig", "1").returncode == 19
    assert machine.rows("mig.mode.pending")[0] == ["Disabled"]


def test_instances_have_capability_nodes_where_mig_minors_says(machine: GpuMachine) -> None:
    slices(machine, "3g.40gb", gpu="1")
    minors = dict(
        line.split()
        for line in (machine.root / "proc/driver/nvidia-caps/mig-minors").read_text().splitlines()
        if line.startswith("gpu")
    )
    assert minors["gpu0/gi14/ci7/access"] == "137" and minors["gpu1/gi0/access"] == "138"
    there = {path.name for path in (machine.root / "dev/nvidia-caps").iterdir()}
    wanted = {"nvidia-cap1", "nvidia-cap2", *(f"nvidia-cap{minors[key]}" for key in ("gpu1/gi2/access", "gpu1/gi2/ci0/access"))}
    assert there == wanted
    assert (machine.root / "proc/driver/nvidia/capabilities/gpu1/mig/gi2/ci0/access").is_file()
    machine.smi("mig", "-dci")
    machine.smi("mig", "-dgi")
    assert {path.name for path in (machine.root / "dev/nvidia-caps").iterdir()} == {"nvidia-cap1", "nvidia-cap2"}
    assert not (machine.root / "proc/driver/nvidia/capabilities/gpu1").exists()


def test_a_container_sees_the_instances_it_was_given(machine: GpuMachine) -> None:
    slices(machine, "3g.40gb", "2g.20gb")
    assert len(mig_lines(machine)) == 2
    kept = mig_lines(machine)[1].split("Device")[1].split(": ")[2]
    (machine.root / "dev/nvidia-caps/nvidia-cap21").unlink()
    assert [kept in line for line in mig_lines(machine)] == [True]


def test_a_reboot_keeps_the_mode_and_not_the_instances(machine: GpuMachine) -> None:
    slices(machine, "7g.80gb")
    machine.boot()
    assert machine.rows("mig.mode.current")[0] == ["Enabled"]
    assert mig_lines(machine) == []


def test_mig_devices_keep_their_names(machine: GpuMachine) -> None:
    """The same instances on the same GPU have the same UUID again."""
    slices(machine, "3g.40gb")
    first = mig_lines(machine)
    machine.boot()
    machine.smi("mig", "-i", "0", "-cgi", "9", "-C")
    assert mig_lines(machine) == first


@pytest.mark.parametrize("profile", [name for name, data in gpustate.profiles().items() if "mig" in data])
def test_profiles_agree_with_the_compatibility_table(machine: GpuMachine, profile: str) -> None:
    """What the site's validation believes of a GPU is what the simulated one does."""
    known = load_table().accelerators[profile].mig
    machine.plug(profile)
    machine.boot()
    machine.smi("-i", "0", "-mig", "1")
    listed = dict(re.findall(r"MIG (\S+) +\d+ +(\d+)/\d+", machine.smi("mig", "-i", "0", "-lgip").stdout))
    assert {name: int(free) for name, free in listed.items()} == {name: one.most for name, one in known.items()}
    for name, (_, _, compute, memory, *_) in gpustate.profiles()[profile]["mig"].items():
        assert (compute, memory) == (known[name].compute, known[name].memory), name
