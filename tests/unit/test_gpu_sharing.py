# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import DRAIN, RESTART_KUBELET, BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.gpu_sharing import (
    GEOMETRY,
    UNIT_FILE,
    WANTED_BY,
    SharingDesired,
    parse_instances,
)
from ansible_collections.bedplate.metal.plugins.modules import gpu_sharing as module
from fixtures_sharing import MIXED, SEVEN, WHOLE, Mig, divided_host, mig_host, run_sharing

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
    assert "Before=nvidia-cdi-refresh.service containerd.service kubelet.service" in unit
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


def test_a_hung_probe_stops_this_component_and_says_so() -> None:
    (problem,) = run_sharing(mig_host(Mig(hung=True)), SEVEN).problems
    assert problem.severity == "error" and "nvidia-smi answered 124" in problem.found
    (warning,) = run_sharing(mig_host(Mig(hung=True)), WHOLE).problems
    assert warning.severity == "warning"


def test_a_mode_that_needs_a_reset_names_the_reboot() -> None:
    with pytest.raises(BedplateError, match=r"GPUs 0, 1 take another mode only after a reset.*Next: reboot the drained node"):
        run_sharing(mig_host(Mig(needs_reset=True)), SEVEN)


def test_gpus_in_use_are_an_error_with_what_nvidia_smi_said() -> None:
    with pytest.raises(BedplateError, match=r"(?s)mig -cgi .* answered 19:\nIn use by another client"):
        run_sharing(mig_host(Mig(busy=True)), SEVEN)


def test_check_mode_predicts_and_asks_only() -> None:
    mig = Mig()
    outcome = run_sharing(mig_host(mig), SEVEN, check=True)
    assert GEOMETRY in [c.what for c in outcome.changes] and mig.commands == []


def test_instances_are_counted_by_gpu_and_profile() -> None:
    assert parse_instances(LISTED) == {0: {"1g.10gb": 2}, 11: {"1g.10gb+me": 1}}


@pytest.mark.parametrize("mig", [{"h100": 1}, {"1g.10gb": 0}, {"1g.10gb; reboot": 1}])
def test_what_is_no_profile_is_refused(mig: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="wanted a profile"):
        module.build_desired({"mig": mig})
    assert module.build_desired({"mig": {"1g.10gb+me": "1"}}) == SharingDesired({"1g.10gb+me": 1})
