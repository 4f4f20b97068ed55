# SPDX-License-Identifier: Apache-2.0
"""The queue policy in writing, from the plan that also makes the queues. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from .document import bullets, code, heading, table
from .kueue_manifest import example, manifest_rules, places
from .words import POLICY

Plan = Mapping[str, Any]


def site_policy(plan: Plan) -> list[str]:
    """Return the policy of the whole site, in parts of a document."""
    return [
        heading(f"Queue policy of {plan['cluster']}", 1),
        "Who may use which GPUs, what may be borrowed, whose work is stopped for whom, and what waiting means. The data that "
        f"made this text also made the queues. Each team finds its part in its namespace, as ConfigMap `{POLICY}`.",
        *_pools(plan["flavors"]),
        *_queues(plan, plan["queues"]),
        *_stopping(plan, plan["queues"]),
        *_priorities(plan["priorities"]),
        *_waiting(plan, plan["queues"]),
        heading("Teams"),
        *(part for tenant in plan["tenants"] for part in _team(plan, tenant)),
    ]


def tenant_policy(plan: Plan, tenant: Plan) -> list[str]:
    """Return what a team needs to know of the policy, in parts of a document."""
    queues = _queues_of(plan, tenant)
    used = {share["flavor"] for queue in queues for share in queue["shares"]}
    allowed = [one for one in plan["priorities"] if tenant["priorities"] is None or one["name"] in tenant["priorities"]]
    return [
        heading(f"Queue policy of {plan['cluster']} for team {tenant['name']}", 1),
        *_pools([flavor for flavor in plan["flavors"] if flavor["name"] in used]),
        *_queues(plan, queues),
        *_stopping(plan, queues),
        *_priorities(allowed),
        *_waiting(plan, queues),
        *_manifest(plan, tenant, 2),
    ]


def example_text(plan: Plan, tenant: Plan) -> str:
    """Return a team's worked example as YAML documents."""
    return str(yaml.safe_dump_all(example(plan, tenant), sort_keys=False))


def _queues_of(plan: Plan, tenant: Plan) -> list[Plan]:
    return [queue for queue in plan["queues"] if queue["name"] in tenant["queues"]]


def _pools(flavors: Sequence[Plan]) -> list[str]:
    head = ["pool", "accelerator", "for", "nodes", "GPUs", "a manifest asks for", "most in one container", "places"]
    rows = [
        [
            f"`{flavor['pool']}`",
            flavor["accelerator"],
            flavor["workload"],
            str(flavor["nodes"]),
            str(flavor["gpus"]),
            _amounts(flavor["resources"]),
            _amounts(flavor["most_per_container"]),
            places(flavor),
        ]
        for flavor in flavors
    ]
    return [heading("Pools"), table(head, rows)]


def _amounts(amounts: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}` {amount}" for name, amount in amounts.items())


def _queues(plan: Plan, queues: Sequence[Plan]) -> list[str]:
    head = ["queue", "teams", "pool", "GPUs of its own", "may borrow", "lends", "cohort", "comes to"]
    rows = [
        [
            f"`{queue['name']}`",
            ", ".join(queue["tenants"]) or "nobody",
            f"`{share['pool']}`",
            str(share["gpus"]),
            _limit(queue, share["borrow"], "all that others do not use"),
            _limit(queue, share["lend"], "all it does not use"),
            f"`{queue['cohort']}`" if queue["cohort"] else "–",
            _amounts({name: quota["nominal"] for name, quota in share["resources"].items()}),
        ]
        for queue in queues
        for share in queue["shares"]
    ]
    common = [
        f"Cohort `{cohort['name']}` has {share['gpus']} GPUs of `{share['pool']}` for all of its queues."
        for cohort in plan["cohorts"]
        for share in cohort["shares"]
    ]
    below = [
        f"Cohort `{one['name']}` borrows from `{one['parent']}` and lends to it." for one in plan["cohorts"] if one["parent"]
    ]
    return [heading("Queues"), table(head, rows), *([bullets([*common, *below])] if common or below else [])]


def _limit(queue: Plan, value: int | None, unlimited: str) -> str:
    if queue["cohort"] is None or value == 0:
        return "nothing"
    return unlimited if value is None else f"{value} GPUs"


def _stopping(plan: Plan, queues: Sequence[Plan]) -> list[str]:
    return [
        heading("Whose work is stopped for whom"),
        bullets([sentence for queue in queues for sentence in _stopped(plan, queue)]),
        "Work that is stopped goes back to its queue as a whole and starts again when there is room. Its pods have their "
        "`terminationGracePeriodSeconds` to save what they have.",
    ]


def _stopped(plan: Plan, queue: Plan) -> Iterator[str]:
    name = f"`{queue['name']}`"
    if queue["preempt"] == "lower-priority":
        yield f"In {name}, work stops work of a lower priority where both do not fit."
    else:
        yield f"In {name}, no work stops other work of the queue."
    if queue["cohort"] is None:
        yield f"{name} neither borrows nor lends."
        return
    whose = {
        "any": f"{name} takes its own GPUs back from any queue that borrowed them, whatever the priority of the work there",
        "lower-priority": f"{name} takes its own GPUs back from work of a lower priority that borrowed them",
        "never": f"{name} waits for its own GPUs until the work that borrowed them ends",
    }[queue["reclaim"]]
    first = "; who borrows most beside its weight gives first" if plan["fair_sharing"] and queue["reclaim"] != "never" else ""
    yield f"{whose}{first}."
    others = [f"`{one['name']}`" for one in _lenders(plan, queue) if one["reclaim"] != "never"]
    if others:
        yield f"What {name} runs on borrowed GPUs may be stopped for {', '.join(others)}."


def _lenders(plan: Plan, queue: Plan) -> list[Plan]:
    """Return the queues that may lend to a queue: those of its cohort and of all cohorts under the same root."""
    parents = {cohort["name"]: cohort["parent"] for cohort in plan["cohorts"]}

    def root(name: str) -> str:
        while parents.get(name):
            name = parents[name]
        return name

    mine = root(queue["cohort"])
    return [one for one in plan["queues"] if one["name"] != queue["name"] and one["cohort"] and root(one["cohort"]) == mine]


def _priorities(priorities: Sequence[Plan]) -> list[str]:
    rows = [[f"`{one['name']}`", str(one["value"]), one["description"]] for one in priorities]
    return [heading("Priorities"), "Work that names none has 0.", table(["priority", "value", "for"], rows)]


def _waiting(plan: Plan, queues: Sequence[Plan]) -> list[str]:
    gang = _duration(plan["gang"]["timeout_seconds"])
    rows = [
        [
            "quota",
            "The GPUs of the queue, and what it may borrow, are in use.",
            "Work of the queue ends, or others stop borrowing.",
        ],
        ["place", "GPUs are free, but not together on the nodes or in the rack that the work asks for.", "Work there ends."],
        [
            "stopped",
            "It ran on borrowed GPUs, or work of a higher priority came.",
            "There is room again; nobody has to do anything.",
        ],
        ["not all pods ran", f"Not all of its pods ran within {gang}, so all of it was stopped.", "It is tried again by itself."],
        ["held", "It names no queue of its team.", "Put the label there and submit it again."],
        ["closed", "An operator closed the queue.", "It is opened again."],
    ]
    promises = [
        f"`{queue['name']}`: {_duration(queue['longest_wait_seconds'])} at most for work that fits into the queue's own GPUs."
        for queue in queues
        if queue["longest_wait_seconds"] is not None
    ]
    return [
        heading("What waiting means"),
        table(["reason", "means", "ends when"], rows),
        "Work that fits into the queue's own GPUs waits only until those who borrowed them have stopped. Work beyond that runs "
        "on what others do not use, and nothing is promised of how long it waits.",
        *([bullets(promises)] if promises else []),
    ]


def _duration(seconds: int) -> str:
    for size, word in ((3600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size} {word}"
    return f"{seconds} s"


def _team(plan: Plan, tenant: Plan) -> list[str]:
    named = "all" if tenant["priorities"] is None else ", ".join(f"`{name}`" for name in tenant["priorities"])
    members = ", ".join(f"`{group}`" for group in tenant["groups"]) or "nobody named"
    return [
        heading(tenant["name"], 3),
        bullets(
            [
                f"Namespace `{tenant['name']}`; members: {members}; pays: {tenant['owner']}.",
                f"Queues: {', '.join(f'`{name}`' for name in tenant['queues'])}; priorities: {named}.",
            ]
        ),
        *_manifest(plan, tenant, 4),
    ]


def _manifest(plan: Plan, tenant: Plan, level: int) -> list[str]:
    return [
        heading("What a manifest says", level),
        bullets(manifest_rules(plan, _queues_of(plan, tenant))),
        "This one is complete and runs as it is; put your image in its place.",
        code(example_text(plan, tenant)),
    ]
