# SPDX-License-Identifier: Apache-2.0
"""Kills a component's run at every change boundary, repeats it, and compares the end with an undisturbed run's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import Component, Outcome, Policy, execute

from recorded_host import KilledError, RecordedHost

MOST_BOUNDARIES = 200


@dataclass(frozen=True)
class Case:
    """A component, what is desired of it, and a function that makes the host as it is before the run.

    comparable: turns a snapshot into what must agree, where a component makes something random (a token); by default all.
    """

    name: str
    component: Callable[[], Component[Any, Any]]
    desired: Callable[[], Any]
    host: Callable[[], RecordedHost]
    policy: Policy = field(default_factory=Policy)
    comparable: Callable[[dict[str, Any]], Any] = lambda snapshot: snapshot


def run(case: Case, host: RecordedHost) -> Outcome:
    """Run the component once, with a fresh component and desired state as a fresh module call has."""
    outcome = execute(case.component(), host, case.desired(), case.policy)
    assert not [p for p in outcome.problems if p.severity == "error"], [str(p) for p in outcome.problems]
    return outcome


def check_interrupted(case: Case) -> int:
    """Kill and repeat at every boundary; return how many boundaries there were."""
    undisturbed = case.host()
    undisturbed.kill_after(None)
    run(case, undisturbed)
    boundaries = undisturbed.changes
    assert 0 < boundaries <= MOST_BOUNDARIES
    wanted = case.comparable(undisturbed.snapshot())
    for boundary in range(1, boundaries + 1):
        host = case.host()
        host.kill_after(boundary)
        try:
            run(case, host)
        except KilledError:
            pass
        else:
            raise AssertionError(f"{case.name}: not killed before change {boundary} of {boundaries}")
        host.kill_after(None)
        run(case, host)
        found = case.comparable(host.snapshot())
        assert found == wanted, f"{case.name}: killed before change {boundary} of {boundaries}, the repeated run ends differently"
        assert not run(case, host).changed, f"{case.name}: killed before change {boundary}, a third run still changes something"
    return boundaries
