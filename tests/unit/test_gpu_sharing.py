# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import DRAIN, REBOOT, RESTART_KUBELET
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.gpu_sharing import (
    GEOMETRY,
    UNIT_FILE,
    WANTED_BY,
    SharingDesired,
    parse_instances,
)
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.modules import gpu_sharing as module
from fixtures_sharing import MIXED, SEVEN, WHOLE, Mig, boot, divided_host, mig_host, run_sharing

ROLLED = frozenset({DRAIN, REBOOT})

LISTED = """\
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.10gb         19        7          4:1     |
+-------------------------------------------------------+
|   0  MIG 1g.10gb         19        8          5:1     |
+-------------------------------------------------------+
|  11  MIG 1g.10gb+me      20        9          6:1     |
+-------------------------------------------------------+
"""


def test_a_fresh_host_is_divided_now_and_at_every_boot() -> None:
    mig = Mig()
    host = mig_host(mig)
    outcome = run_sharing(host, SEVEN)
    assert [c.what for c in outcome.changes] == [f"file {UNIT_FILE}", "service bedplate-mig enabled", GEOMETRY]
    assert mig.commands[-1] == "mig -cgi " + ",".join(["1g.10gb"] * 7) + " -C"
    assert WANTED_BY in host.files
    unit = host.files[UNIT_FILE]
    assert unit.index("-mig 1") < unit.index("mig -dgi") < unit.index("mig -cgi")
    assert "Before=nvidia-dcgm.service nvidia-cdi-refresh.service containerd.service kubelet.service" in unit
    assert "ConditionPathExists=/usr/bin/nvidia-smi\n" in unit, "also where nothing has loaded the driver yet"
    assert unit.index("ExecStartPre=/sbin/modprobe nvidia") < unit.index("ExecStart=")
    host.commands.clear()
    again = run_sharing(host, SEVEN)
    assert not again.changes and len(host.commands) == 2, "a second run asks twice and changes nothing"


def test_the_largest_instances_are_made_first() -> None:
    mig = Mig()
    run_sharing(mig_host(mig), MIXED)
    assert mig.commands[-1] == "mig -cgi 3g.40gb,1g.10gb,1g.10gb -C"


def test_on_a_node_in_service_instances_wait_for_a_drain_and_nothing_is_taken_away() -> None:
    mig = Mig()
    host = divided_host(mig)
    outcome = run_sharing(host, MIXED, in_service=True)
    (waiting,) = outcome.deferred
    assert waiting.what == GEOMETRY and waiting.effects == {DRAIN, RESTART_KUBELET}
    assert waiting.before == {"0": {"1g.10gb": 7}, "1": {"1g.10gb": 7}}
    assert mig.commands == []
    assert [c.what for c in outcome.changes] == [f"file {UNIT_FILE}"], "the next boot drains the node anyway"
    drained = run_sharing(host, MIXED, in_service=True, allow=frozenset({DRAIN}))
    assert [c.what for c in drained.changes] == [GEOMETRY] and not drained.deferred
    assert ["systemctl", "restart", "kubelet"] in host.commands, "the device plugin lists the devices anew"


def test_gpus_are_made_whole_again_and_the_unit_goes() -> None:
    mig = Mig()
    host = divided_host(mig)
    outcome = run_sharing(host, WHOLE)
    assert mig.commands == ["mig -dci", "mig -dgi", "-mig 0"]
    assert UNIT_FILE not in host.files and WANTED_BY not in host.files
    assert outcome.changes and not run_sharing(host, WHOLE).changes


def test_whole_gpus_cost_one_question() -> None:
    host = mig_host(Mig())
    assert not run_sharing(host, WHOLE).changes
    assert len(host.commands) == 1


def test_before_the_driver_is_loaded_only_the_unit_is_written() -> None:
    mig = Mig()
    host = mig_host(mig, loaded=False)
    outcome = run_sharing(host, SEVEN)
    assert GEOMETRY not in [c.what for c in outcome.changes] and UNIT_FILE in host.files
    assert mig.commands == [] and not [c for c in host.commands if c[0] == "nvidia-smi"]


def test_gpus_that_cannot_be_divided_are_named_and_nothing_changes() -> None:
    host = mig_host(Mig(capable=False))
    before = host.snapshot()
    (problem,) = run_sharing(host, SEVEN).problems
    assert "GPUs without MIG (index 0, 1)" in str(problem)
    assert host.snapshot() == before
    assert not run_sharing(host, WHOLE).problems


@pytest.mark.parametrize("desired", [SEVEN, WHOLE], ids=["divided", "whole"])
def test_gpus_that_do_not_answer_are_a_warning_and_nothing_changes(desired: SharingDesired) -> None:
    mig = Mig()
    host = divided_host(mig)
    mig.hung = True
    before = host.snapshot()
    outcome = run_sharing(host, desired)
    assert [p.severity for p in outcome.problems] == ["warning"] and "nvidia-smi answered 124" in str(outcome.problems[0])
    assert host.snapshot() == before and not outcome.changes and not outcome.deferred


@pytest.mark.parametrize("probe", ["wedged", "lost", "mismatch", "failed", "no-driver"])
def test_gpus_that_gave_their_driver_no_answer_are_not_asked_once_more(probe: str) -> None:
    host = mig_host(Mig())
    (warning,) = run_sharing(host, replace(SEVEN, probe=probe)).problems
    assert warning.severity == "warning" and f"says {probe}" in warning.found
    assert not [command for command in host.commands if command[0] == "nvidia-smi"]


def test_roll_a_mig_node_to_another_driver() -> None:
    mig = Mig()
    host = divided_host(mig)
    mig.mismatch = True  # the packages have moved, the module has not
    between = run_sharing(host, replace(SEVEN, probe="mismatch"), allow=ROLLED)
    assert not between.changes and [p.severity for p in between.problems] == ["warning"]
    boot(host, mig)
    after = run_sharing(host, SEVEN, allow=ROLLED)
    assert not after.changes and not after.problems, "the boot divided them"
    del host.files[WANTED_BY]
    boot(host, mig)
    assert GEOMETRY in [c.what for c in run_sharing(host, SEVEN, allow=ROLLED).changes], "where the unit did not"


@pytest.mark.parametrize("held", [{"needs_reset": True}, {"busy": True}], ids=["mode waits for a reset", "a program holds them"])
@pytest.mark.parametrize("desired", [MIXED, WHOLE], ids=["divided", "whole"])
def test_gpus_that_are_held_ask_for_the_reboot_that_completes_it(desired: SharingDesired, held: dict[str, bool]) -> None:
    mig = Mig()
    host = divided_host(mig) if "busy" in held or desired is WHOLE else mig_host(mig)
    for name, value in held.items():
        setattr(mig, name, value)
    outcome = run_sharing(host, desired, allow=ROLLED)
    assert outcome.reboot and GEOMETRY in [c.what for c in outcome.changes if REBOOT in c.effects]
    (reason,) = outcome.problems
    assert reason.severity == "warning" and ("take another MIG mode only after a reset" in str(reason) or "In use" in str(reason))
    boot(host, mig)
    after = run_sharing(host, desired, allow=ROLLED)
    assert GEOMETRY not in [c.what for c in after.changes] and not after.reboot and not after.problems
    assert (UNIT_FILE in host.files, WANTED_BY in host.files) == (bool(desired.mig),) * 2, "the unit goes with the last instance"


def test_a_reboot_that_is_not_allowed_is_left_for_later() -> None:
    outcome = run_sharing(mig_host(Mig(needs_reset=True)), SEVEN)
    assert [(c.what, REBOOT in c.effects) for c in outcome.deferred] == [(GEOMETRY, True)] and not outcome.reboot


def test_no_flag_reboots_a_node_in_service() -> None:
    outcome = run_sharing(mig_host(Mig(needs_reset=True)), SEVEN, in_service=True, allow=ROLLED)
    assert [c.what for c in outcome.deferred] == [GEOMETRY] and not outcome.reboot


def test_what_nvidia_smi_refuses_is_an_error_with_what_it_said() -> None:
    host = divided_host(Mig())
    answer = host.handlers["nvidia-smi"]
    refusal = Result(7, "", "Insufficient Resources")
    host.on("nvidia-smi", lambda h, argv, stdin: refusal if "-cgi" in argv else answer(h, argv, stdin))
    with pytest.raises(BedplateError, match=r"(?s)mig -cgi .* answered 7:\nInsufficient Resources"):
        run_sharing(host, MIXED)


def test_check_mode_predicts_and_asks_only() -> None:
    mig = Mig()
    outcome = run_sharing(mig_host(mig), SEVEN, check=True)
    assert GEOMETRY in [c.what for c in outcome.changes] and mig.commands == []


def test_instances_are_counted_by_gpu_and_profile() -> None:
    assert parse_instances(LISTED) == {0: {"1g.10gb": 2}, 11: {"1g.10gb+me": 1}}


@pytest.mark.parametrize("mig", [{"h100": 1}, {"1g.10gb": 0}, {"1g.10gb; reboot": 1}])
def test_what_is_no_profile_is_refused(mig: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="wanted a profile"):
        module.build_desired({"mig": mig, "probe": "ok"})
    assert module.build_desired({"mig": {"1g.10gb+me": "1"}, "probe": "ok"}) == SharingDesired({"1g.10gb+me": 1})
