# SPDX-License-Identifier: Apache-2.0
"""Objects of a cluster: what differs, what is left to others, and how few requests it takes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.apply import Objects
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.definitions import definition_problems
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.difference import differences, quantity
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.plan import ObjectsPlan, plan_objects
from fake_api import Served
from fake_objects import TIME, FakeObjects

API = "example.dev/v1"
RESOURCES = {
    "v1": {"configmaps": ("ConfigMap", True), "namespaces": ("Namespace", False)},
    API: {"queues": ("Queue", False)},
    "apiextensions.k8s.io/v1": {"customresourcedefinitions": ("CustomResourceDefinition", False)},
}
PATH = f"/apis/{API}/queues/a"
UNSERVED = (500, {"message": 'Internal error occurred: failed calling webhook "q": no endpoints available for service "q"'})


def queue(name: str = "a", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app.kubernetes.io/managed-by": "bedplate"}}
    return {"apiVersion": API, "kind": "Queue", "metadata": metadata, "spec": spec}


def flavors(**amounts: str) -> list[dict[str, Any]]:
    return [{"name": name, "amount": amount} for name, amount in amounts.items()]


class Clock:
    """Time that passes while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run(
    fake: FakeObjects, directory: Path, wanted: list[dict[str, Any]], *, listed: bool = True
) -> tuple[ObjectsPlan, list[str]]:
    """Observe, plan and carry out, as the actions do; return the plan and the problems."""
    clock = Clock()
    with Served(fake, directory) as kubeconfig:
        objects = Objects(Api(kubeconfig), 30, now=lambda: clock.now, sleep=clock.sleep)
        plan = plan_objects(objects.observe(wanted, listed=[(API, "Queue")] if listed else []), wanted, keeper=lambda *_: None)
        return plan, [str(problem) for problem in [*plan.problems, *objects.carry_out(plan)]]


@pytest.fixture
def fake() -> FakeObjects:
    return FakeObjects(resources=copy.deepcopy(RESOURCES))


def test_a_second_run_is_one_list_per_kind_and_changes_nothing(fake: FakeObjects, tmp_path: Path) -> None:
    wanted = [queue(f"q{n}", weight="1", flavors=flavors(h100="8")) for n in range(200)]
    plan, problems = run(fake, tmp_path, wanted)
    assert len(plan.changes) == 200 and problems == [] and len(fake.writes()) == 200
    fake.requests.clear()
    plan, problems = run(fake, tmp_path, wanted)
    assert (plan.changes, plan.warnings, problems) == ([], [], [])
    assert fake.requests == [("GET", f"/apis/{API}"), ("GET", f"/apis/{API}/queues")]


def test_what_others_set_and_nobody_here_says_stays(fake: FakeObjects, tmp_path: Path) -> None:
    run(fake, tmp_path, [queue(weight="1")])
    fake.edit(PATH, "kubectl-edit", {"spec": {"stopPolicy": "Hold"}, "metadata": {"labels": {"team": "x"}}})
    plan, _problems = run(fake, tmp_path, [queue(weight="1")])
    assert plan.changes == [] and plan.warnings == []
    run(fake, tmp_path, [queue(weight="2")])
    assert fake.objects[PATH]["spec"] == {"stopPolicy": "Hold", "weight": "2"}, "also when something else changes"


def test_drift_is_named_with_who_and_when_and_put_back(fake: FakeObjects, tmp_path: Path) -> None:
    wanted = queue(flavors=flavors(h100="8", l40s="4"))
    run(fake, tmp_path, [wanted])
    fake.edit(PATH, "kubectl-edit", {"spec": {"flavors": flavors(h100="16", l40s="4")}})
    plan, _problems = run(fake, tmp_path, [wanted])
    assert [(c.what, c.before, c.after) for c in plan.changes] == [("Queue a spec.flavors[h100].amount", "16", "8")]
    assert plan.warnings == [
        f"Queue a spec.flavors[h100].amount: found 16, set by kubectl-edit at {TIME}; put back to 8. To keep such a change, "
        "annotate the object with bedplate.dev/tuned=REASON, or change the site data"
    ]
    assert fake.objects[PATH]["spec"] == wanted["spec"]


def test_what_was_tuned_on_purpose_is_named_and_left(fake: FakeObjects, tmp_path: Path) -> None:
    run(fake, tmp_path, [queue(weight="1")])
    fake.edit(PATH, "kubectl-edit", {"spec": {"weight": "3"}, "metadata": {"annotations": {"bedplate.dev/tuned": "night shift"}}})
    fake.requests.clear()
    plan, problems = run(fake, tmp_path, [queue(weight="2")])
    assert plan.warnings == ["Queue a spec.weight: found 3, the site data say 2; left so (bedplate.dev/tuned: night shift)"]
    assert fake.writes() == [] and plan.changes == [] and problems == []


def test_a_field_taken_out_leaves_the_cluster(fake: FakeObjects, tmp_path: Path) -> None:
    run(fake, tmp_path, [queue(cohort="x", weight="1")])
    plan, _problems = run(fake, tmp_path, [queue(weight="1")])
    assert [(c.what, c.before, c.after) for c in plan.changes] == [("Queue a spec.cohort", "x", None)]
    assert fake.objects[PATH]["spec"] == {"weight": "1"}


def test_what_is_ours_and_named_no_more_goes_and_what_is_not_stays(fake: FakeObjects, tmp_path: Path) -> None:
    run(fake, tmp_path, [queue("a"), queue("b")])
    fake.add(f"/apis/{API}/queues/theirs", {"metadata": {}, "spec": {}})
    plan, _problems = run(fake, tmp_path, [queue("b")])
    assert [(c.what, c.after) for c in plan.changes] == [("Queue a", None)]
    assert sorted(path.rpartition("/")[2] for path in fake.objects) == ["b", "theirs"]


def test_a_webhook_that_does_not_serve_yet_is_waited_for(fake: FakeObjects, tmp_path: Path) -> None:
    fake.refuse[PATH] = [UNSERVED] * 3
    _plan, problems = run(fake, tmp_path, [queue()])
    assert problems == [] and len(fake.writes()) == 4 and PATH in fake.objects


def test_and_for_good_is_a_clear_error(fake: FakeObjects, tmp_path: Path) -> None:
    fake.refuse[PATH] = [UNSERVED] * 99
    with pytest.raises(
        BedplateError, match=r"Queue a: found it put off .*no endpoints.* for 30 s; wanted an answer. Next: see why"
    ):
        run(fake, tmp_path, [queue()])
    assert len(fake.writes()) < 40


def test_a_refusal_stops_no_other_object(fake: FakeObjects, tmp_path: Path) -> None:
    fake.refuse[PATH] = [(422, {"message": "spec.weight: must be positive"})]
    _plan, problems = run(fake, tmp_path, [queue("a"), queue("b")])
    assert len(problems) == 1 and "Queue a: found the API's refusal" in problems[0] and "must be positive" in problems[0]
    assert f"/apis/{API}/queues/b" in fake.objects


def test_a_kind_the_api_does_not_know_is_an_error_that_names_it(fake: FakeObjects, tmp_path: Path) -> None:
    fake.resources.pop(API)
    with pytest.raises(BedplateError, match=r"API example.dev/v1: found no Queue in it; wanted its definition"):
        run(fake, tmp_path, [queue()])


def test_few_objects_of_a_kind_are_asked_for_one_by_one(fake: FakeObjects, tmp_path: Path) -> None:
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "n"}, "data": {"k": "v"}}]
    run(fake, tmp_path, maps, listed=False)
    assert ("GET", "/api/v1/namespaces/n/configmaps/x") in fake.requests
    assert ("GET", "/api/v1/configmaps") not in fake.requests, "a cluster has thousands of them"


def test_objects_land_where_their_kind_can(fake: FakeObjects, tmp_path: Path) -> None:
    with Served(fake, tmp_path) as kubeconfig:
        objects = Objects(Api(kubeconfig), 1)
        own, none = {"name": "x", "namespace": "own"}, {"name": "x"}
        where = [
            objects.named({"apiVersion": version, "kind": kind, "metadata": metadata}, "given")["metadata"].get("namespace")
            for version, kind in (("v1", "ConfigMap"), (API, "Queue"))
            for metadata in (own, none)
        ]
    assert where == ["own", "given", None, None]


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ("1Gi", "1024Mi", True),
        ("0.5", "500m", True),
        (8, "8", True),
        ("8k", "8000", True),
        ("1Gi", "1G", False),
        (True, 1, False),
        ("a", "b", False),
        (None, "", False),
    ],
)
def test_quantities_are_compared_by_what_they_mean(found: Any, wanted: Any, same: bool) -> None:
    assert (differences({"spec": {"x": found}}, {"spec": {"x": wanted}}) == []) is same


def test_what_is_no_quantity() -> None:
    assert [quantity(text) for text in ("", "x", "1Zi", "m")] == [None] * 4


def test_entries_of_a_list_may_have_what_the_server_adds() -> None:
    found = {"webhooks": [{"name": "a", "failurePolicy": "Fail", "timeoutSeconds": 10}]}
    assert differences(found, {"webhooks": [{"name": "a", "failurePolicy": "Fail"}]}) == []
    (one,) = differences(found, {"webhooks": [{"name": "b"}]})
    assert one.label == "webhooks" and one.after == [{"name": "b"}]


def definition(version: str, *names: str, stored: tuple[str, ...] = ()) -> dict[str, Any]:
    metadata = {"name": "queues.example.dev", "labels": {"app.kubernetes.io/version": version}}
    spec = {"versions": [{"name": name} for name in names]}
    found = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}
    return {**found, "status": {"storedVersions": list(stored)}} if stored else found


def test_older_definitions_are_replaced_and_newer_ones_are_not() -> None:
    assert definition_problems([definition("v0.18.9", "v1beta1")], [definition("v0.19.2", "v1beta1", "v1beta2")]) == []
    (problem,) = definition_problems([definition("v0.20.0", "v1beta2")], [definition("v0.19.2", "v1beta2")])
    assert (problem.found, problem.severity) == ("the definition of release 0.20.0", "error")


def test_a_version_in_which_objects_are_stored_is_not_taken_away() -> None:
    found = definition("v0.8.0", "v1alpha1", "v1beta1", stored=("v1alpha1", "v1beta1"))
    (problem,) = definition_problems([found], [definition("v0.19.2", "v1beta1", "v1beta2")])
    assert problem.found == "objects stored as v1alpha1" and "storedVersions" in problem.next_step


def test_a_definition_is_served_before_its_objects_are_applied(fake: FakeObjects, tmp_path: Path) -> None:
    clock = Clock()
    wanted = definition("v1", "v1")
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/queues.example.dev"

    def serve(api: FakeObjects, method: str, where: str) -> None:
        if (method, where) == ("GET", path) and clock.now > 3:
            api.objects[path]["status"] = {"conditions": [{"type": "Established", "status": "True"}]}

    fake.before = serve  # type: ignore[assignment]
    with Served(fake, tmp_path) as kubeconfig:
        objects = Objects(Api(kubeconfig), 30, now=lambda: clock.now, sleep=clock.sleep)
        assert objects.carry_out(plan_objects([], [wanted])) == []
        objects.wait_served([wanted])
    assert 3 < clock.now < 10
