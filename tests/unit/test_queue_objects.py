# SPDX-License-Identifier: Apache-2.0
"""What becomes of a queue plan in a cluster: Kueue's objects, teams' namespaces, rights and limits, and what leaves again."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.plan import plan_objects
from ansible_collections.bedplate.metal.plugins.plugin_utils.queues.wanted import (
    QUEUE_KINDS,
    SHARED_KINDS,
    keeps,
    unchangeable,
    wanted_objects,
)
from queue_plans import HOSTNAME, flavor, plan, queue, share, tenant


def objects(**over: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(item["kind"], item["metadata"]["name"]): item for item in wanted_objects(plan(**over))}


def test_every_kind_that_is_made_is_also_looked_at() -> None:
    groups = {"groups": ["oidc:one"], "priorities": ["high"]}
    made = objects(tenants=[tenant("one", "a", **groups), tenant("two", "b")], cohorts=[cohort("both")])
    assert {(item["apiVersion"], item["kind"]) for item in made.values()} == {*QUEUE_KINDS, *SHARED_KINDS}


def cohort(name: str, **over: Any) -> dict[str, Any]:
    return {"name": name, "parent": None, "weight": None, "covered": [], "shares": [], **over}


def test_a_queue_says_what_the_site_data_say_and_no_more() -> None:
    assert objects()["ClusterQueue", "a"]["spec"] == {
        "cohortName": "both",
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["one"]}]},
        "resourceGroups": [
            {
                "coveredResources": ["nvidia.com/gpu", "cpu"],
                "flavors": [
                    {
                        "name": "train",
                        "resources": [
                            {"name": "nvidia.com/gpu", "nominalQuota": "8"},
                            {"name": "cpu", "nominalQuota": "64"},
                        ],
                    }
                ],
            }
        ],
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    }, "stopPolicy, strategy and weight are whoever's who sets them"


def test_and_all_of_that() -> None:
    said = queue("a", "one", "two", strategy="strict", weight=2.0, reclaim="lower-priority", preempt="never")
    spec = objects(queues=[said], tenants=[tenant("one", "a"), tenant("two", "a")])["ClusterQueue", "a"]["spec"]
    assert (spec["queueingStrategy"], spec["fairSharing"]) == ("StrictFIFO", {"weight": "2"})
    assert spec["preemption"] == {"reclaimWithinCohort": "LowerPriority", "withinClusterQueue": "Never"}
    assert spec["admissionScope"] == {"admissionMode": "UsageBasedAdmissionFairSharing"}, "two teams share it fairly"
    assert "cohortName" not in spec


def test_limits_and_what_a_pool_does_not_offer() -> None:
    shares = [share(borrow=4, lend=2), share("infer", 4)]
    shares[1]["resources"] = {"nvidia.com/mig-1g.10gb": {"nominal": "28"}, "cpu": {"nominal": "32"}}
    covered = ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "cpu"]
    given = queue("a", "one", shares=shares, covered=covered)
    made = objects(flavors=[flavor(), flavor("infer")], queues=[given], tenants=[tenant("one", "a")])
    train, infer = made["ClusterQueue", "a"]["spec"]["resourceGroups"][0]["flavors"]
    assert train["resources"] == [
        {"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": "4", "lendingLimit": "2"},
        {"name": "nvidia.com/mig-1g.10gb", "nominalQuota": "0"},
        {"name": "cpu", "nominalQuota": "64"},
    ]
    assert [one["nominalQuota"] for one in infer["resources"]] == ["0", "28", "32"]


def test_a_queue_without_a_team_lets_nobody_in() -> None:
    assert "namespaceSelector" not in objects(queues=[queue("a")], tenants=[])["ClusterQueue", "a"]["spec"]


def test_flavors_of_one_kind_of_place_share_a_topology() -> None:
    made = objects(flavors=[flavor("x"), flavor("y"), flavor("z", levels=[HOSTNAME])], queues=[], tenants=[])
    assert {name for kind, name in made if kind == "Topology"} == {"rack-hostname", "hostname"}
    assert made["ResourceFlavor", "z"]["spec"]["topologyName"] == "hostname"
    assert made["ResourceFlavor", "x"]["metadata"]["labels"]["bedplate.dev/pool"] == "x"


def test_a_cohort_with_a_parent_and_gpus_of_its_own() -> None:
    given = cohort("low", parent="top", weight=0.5, covered=["nvidia.com/gpu"], shares=[share(gpus=2)])
    assert objects(cohorts=[given])["Cohort", "low"]["spec"] == {
        "parentName": "top",
        "fairSharing": {"weight": "0.5"},
        "resourceGroups": [
            {
                "coveredResources": ["nvidia.com/gpu"],
                "flavors": [{"name": "train", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "2"}]}],
            }
        ],
    }


def test_a_team_finds_its_queues_and_the_policy_in_its_namespace() -> None:
    made = {
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item
        for item in wanted_objects(plan(tenants=[tenant("one", "a", owner="finance"), tenant("two", "b")]))
    }
    assert made["Namespace", None, "one"]["metadata"]["labels"]["bedplate.dev/tenant"] == "one"
    local = made["LocalQueue", "one", "a"]
    assert local["spec"] == {"clusterQueue": "a"} and local["metadata"]["labels"]["bedplate.dev/owner"] == "finance"
    assert ("LocalQueue", "one", "b") not in made
    assert set(made["ConfigMap", "two", "bedplate-queue-policy"]["data"]) == {"policy.md", "example.yaml"}


def test_members_may_read_and_change_nothing() -> None:
    made = objects(tenants=[tenant("one", "a", groups=["oidc:one"]), tenant("two", "b")])
    rules = [*made["ClusterRole", "bedplate-queue-reader"]["rules"], *made["ClusterRole", "bedplate-work-reader"]["rules"]]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    binding = made["RoleBinding", "bedplate-work-reader"]
    assert binding["metadata"]["namespace"] == "one" and [one["name"] for one in binding["subjects"]] == ["oidc:one"]
    assert not [kind for kind, _name in objects() if kind.startswith("ClusterRole")], "where nobody is named, nobody gets a right"


def test_priorities_are_limited_only_where_a_team_is() -> None:
    assert ("ValidatingAdmissionPolicy", "bedplate-priorities") not in objects()
    made = objects(tenants=[tenant("one", "a", priorities=["high"]), tenant("two", "b")])
    assert made["Namespace", "one"]["metadata"]["annotations"] == {"bedplate.dev/priorities": "high"}
    assert "annotations" not in made["Namespace", "two"]["metadata"]
    assert made["ValidatingAdmissionPolicyBinding", "bedplate-priorities"]["spec"]["validationActions"] == ["Deny"]


def removed(*more: dict[str, Any], **over: Any) -> tuple[list[str], list[str]]:
    """What goes, and what is said, when a site with the usual plan takes another one."""
    found = [*wanted_objects(plan()), *more]
    for item in found:
        for other in more:
            if item["kind"] == other["kind"] and item["metadata"]["name"] == other["metadata"]["name"]:
                item.update(other)
    made = plan_objects(found, wanted_objects(plan(**over)), unchangeable, keeps)
    return [f"{item['kind']} {item['metadata']['name']}" for item in made.remove], made.warnings


def test_what_the_site_data_name_no_more_goes_but_a_namespace() -> None:
    gone, said = removed(queues=[queue("a", "one", cohort="both")], tenants=[tenant("one", "a")])
    assert gone == ["ConfigMap bedplate-queue-policy", "LocalQueue b", "ClusterQueue b"]
    assert said == ["Namespace two: belongs to no team of the site data any more; it is left with all that is in it"]


def test_a_queue_with_work_stays_and_what_it_names_stays_with_it() -> None:
    busy = {**objects()["ClusterQueue", "b"], "status": {"reservingWorkloads": 2, "pendingWorkloads": 0}}
    gone, said = removed(busy, flavors=[], queues=[], tenants=[])
    assert "ClusterQueue b" not in gone and "ResourceFlavor train" not in gone and "Topology rack-hostname" not in gone
    assert gone.index("LocalQueue a") < gone.index("ClusterQueue a"), "who names goes before who is named"
    assert "ClusterQueue b: is in the site data no more; it stays until its work is gone (reservingWorkloads 2)" in said


def test_a_flavor_cannot_be_changed_and_that_is_said() -> None:
    changed = plan(flavors=[flavor(node_labels={"pool.bedplate.dev/name": "train", "pool.bedplate.dev/fabric": "roce"})])
    made = plan_objects(wanted_objects(plan()), wanted_objects(changed), unchangeable, keeps)
    (problem,) = made.problems
    assert problem.what == "ResourceFlavor train spec.nodeLabels[pool.bedplate.dev/fabric]"
    assert "take the pool out of all queues" in problem.next_step
    assert not [item for item in made.apply if item["kind"] == "ResourceFlavor"]


@pytest.mark.parametrize("kind", ["ClusterQueue", "LocalQueue", "Namespace"])
def test_all_that_is_made_says_whose_it_is(kind: str) -> None:
    for (found, _name), item in objects().items():
        if found == kind:
            assert item["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "bedplate"
