# SPDX-License-Identifier: Apache-2.0
"""Queues, cohorts, priorities and tenants against each other and against the pools; every error at once (case I51)."""

from __future__ import annotations

import pytest

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
TRAIN, INFER = "group_vars/train.yml", "group_vars/infer.yml"
RIGHT = """\
queues:
  - name: a
    cohort: both
    pools: [{pool: train, gpus: 4, cpus: 8, memory: 64Gi}]
  - name: b
    cohort: both
    pools: [{pool: train, gpus: 4, cpus: 8, memory: 64Gi, lend: 2, borrow: 1}]
  - name: c
    pools: [{pool: infer, gpus: 4, cpus: 8, memory: 64Gi}]
tenants:
  - {name: one, queues: [a, c]}
  - {name: two, queues: [b]}
"""


@pytest.fixture
def queues(site: SiteDirectory) -> SiteDirectory:
    site.append(SITE, RIGHT)
    return site


def test_right_queues_have_no_findings(queues: SiteDirectory) -> None:
    assert queues.validate().problems == []


def test_everything_wrong_is_told_at_once(queues: SiteDirectory) -> None:
    queues.site("{pool: infer,", "{pool: inferr,")
    queues.site("name: c", "name: a")
    queues.site("{name: one, queues: [a, c]}", "{name: one, priorities: [urgent]}")
    queues.site("lend: 2", "lend: 5")
    queues.append(SITE, "queueing: {cohorts: [{name: x, parent: y}, {name: y, parent: x}]}\n")
    told = [error.partition(": ")[2] for error in queues.errors()]
    assert told == [
        "queues[1].pools[0].lend = 5: more than it owns (gpus: 4)",
        "queues[2].name = a: stands twice (first as entry 0)",
        "queues[2].pools[0].pool = inferr: there is no pool of this name; did you mean infer?",
        "tenants[0].priorities[0] = urgent: there is no priority of this name; known are high, normal, low",
        "tenants[0].queues = (none): needs at least one: what runs in its namespace must name a queue",
        "queueing.cohorts[0].parent = y: comes back to itself: x → y → x; one of them must have no parent",
        "queueing.cohorts[1].parent = x: comes back to itself: y → x → y; one of them must have no parent",
    ]


def test_a_tenants_queue_that_does_not_exist(queues: SiteDirectory) -> None:
    queues.site("queues: [b]", "queues: [bb]")
    assert [error.partition(": ")[2] for error in queues.errors()] == [
        "tenants[1].queues[0] = bb: there is no queue of this name; known are a, b, c"
    ]


def test_more_promised_than_there_is(queues: SiteDirectory) -> None:
    queues.site(
        "{pool: train, gpus: 4, cpus: 8, memory: 64Gi, lend: 2, borrow: 1}", "{pool: train, gpus: 5, cpus: 8, memory: 64Gi}"
    )
    assert queues.errors() == [
        f"{SITE}:16: queues[1].pools[0].gpus = 5: more than the pool train has: 1 node with 8 GPUs have 8, promised are 9 "
        "(queue a 4, queue b 5)"
    ]
    assert queues.errors("remove") == [], "a pool that shrinks is told, and may shrink"
    assert "more than the pool train has" in "".join(queues.warnings("remove"))


def test_a_pool_whose_hosts_are_to_come_may_be_promised(queues: SiteDirectory) -> None:
    queues.replace("hosts.yml", "            w2: {ansible_host: 10.0.0.22}\n", "")
    assert queues.errors() == []
    assert "queues[2].pools[0].gpus = 4: more than the pool infer has: 0 nodes" in "".join(queues.warnings())


def test_gpus_of_a_cohort_count_too(queues: SiteDirectory) -> None:
    queues.append(SITE, "queueing: {cohorts: [{name: both, pools: [{pool: train, gpus: 1, cpus: 1, memory: 1Gi}]}]}\n")
    (error,) = queues.errors()
    assert "queueing.cohorts[0].pools[0].gpus = 1: more than the pool train has" in error
    assert error.endswith("promised are 9 (queue a 4, queue b 4, cohort both 1)")


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("cpus: 12\n  memory: 1Ti", "1 node have 12, promised are 16 (queue a 8, queue b 8)"),
        ("cpus: 96\n  memory: 100Gi", "1 node have 102300Mi, promised are 128Gi (queue a 64Gi, queue b 64Gi)"),
    ],
)
def test_cpus_and_memory_beyond_the_pool(queues: SiteDirectory, spec: str, rule: str) -> None:
    queues.append(TRAIN, f"  {spec}\n")
    (error,) = queues.errors()
    assert error.endswith(rule)


def test_time_slices_are_told_by_what_they_are_asked_for_as(queues: SiteDirectory) -> None:
    queues.append(INFER, "  sharing: time-slicing\n  time_slices: 4\n")
    assert queues.errors() == []
    queues.site("{pool: infer, gpus: 4,", "{pool: infer, gpus: 5,")
    (error,) = queues.errors()
    assert "1 node with 4 GPUs (16 nvidia.com/gpu) have 4, promised are 5" in error


def test_what_is_not_counted_is_said_aloud(queues: SiteDirectory) -> None:
    queues.site("{pool: infer, gpus: 4, cpus: 8, memory: 64Gi}", "{pool: infer, gpus: 4}")
    rule = (
        "nothing says how much there is, so queues with a share of the pool do not count it (work may take what its nodes have): "
        "give it here, or in each share"
    )
    assert queues.warnings() == [f"{INFER}:1: infer.gpu_pool.{key} = (missing): {rule}" for key in ("cpus", "memory")]
    queues.append(INFER, "  cpus: 64\n  memory: 512Gi\n")
    assert queues.validate().problems == []


def test_limits_need_somebody_on_the_other_side(queues: SiteDirectory) -> None:
    queues.site(
        "    cohort: both\n    pools: [{pool: train, gpus: 4, cpus: 8, memory: 64Gi, lend",
        "    pools: [{pool: train, gpus: 4, lend",
    )
    queues.append(SITE, "queueing: {cohorts: [{name: both, pools: [{pool: infer, gpus: 0, borrow: 1}]}]}\n")
    assert [error.partition(": ")[2] for error in queues.errors()] == [
        "queues[1].pools[0].borrow = 1: needs a cohort to do so with: queue b names none",
        "queues[1].pools[0].lend = 2: needs a cohort to do so with: queue b names none",
        "queueing.cohorts[0].pools[0].borrow = 1: needs a parent to do so with: cohort both names none",
    ]


def test_names_that_mean_something_else(queues: SiteDirectory) -> None:
    queues.site("name: c\n", "name: default\n")
    queues.site("queues: [a, c]", "queues: [a, default]")
    queues.site("name: one", "name: kube-system")
    queues.site("name: two", "name: kueue-system")
    queues.append(SITE, "queueing: {priorities: [{name: default, value: 1}]}\n")
    assert [error.partition(": ")[2] for error in queues.errors()] == [
        "queues[2].name = default: Kueue puts work that names no queue into one of this name, where it shall be held; name it "
        "otherwise",
        "tenants[0].name = kube-system: is a namespace (Kubernetes' own); name the team otherwise",
        "tenants[1].name = kueue-system: is a namespace (Kueue's); name the team otherwise",
        "queueing.priorities[0].name = default: Kueue gives the priority of this name to work that names none, which has 0; name "
        "it otherwise",
    ]


def test_what_looks_like_a_mistake_is_a_warning(queues: SiteDirectory) -> None:
    queues.site("  - name: b\n    cohort: both", "  - name: b\n    cohort: boht")
    queues.site("queues: [a, c]", "queues: [a]")
    assert [warning.partition(": ")[2] for warning in queues.warnings()] == [
        "queues[0].cohort = both: no other queue names this cohort; did you mean boht?",
        "queues[1].cohort = boht: no other queue names this cohort; did you mean both?",
        "queues[2].name = c: no tenant may submit to it",
    ]


def test_a_pool_that_no_queue_has_a_share_of(queues: SiteDirectory) -> None:
    queues.site("{pool: infer, gpus: 4, cpus: 8, memory: 64Gi}", "{pool: train, gpus: 0, cpus: 0, memory: '0'}")
    assert queues.warnings() == [f"{INFER}:1: infer.gpu_pool = (no queue): no queue has a share of this pool"]


def test_all_hosts_of_a_pool_have_a_place_or_none(queues: SiteDirectory) -> None:
    queues.replace("hosts.yml", "            w2:", "            w3: {ansible_host: 10.0.0.23, rack: r9}\n            w2:")
    assert queues.errors() == [
        "hosts.yml:14: w2.rack = (missing): other hosts of pool infer have it: the queue places work by it on all of them or on "
        "none"
    ]


def test_a_queue_system_there_is_not(site: SiteDirectory) -> None:
    site.append(SITE, "queueing: {system: slurm}\n")
    (error,) = site.errors()
    assert "queueing.system = slurm: must be" in error
