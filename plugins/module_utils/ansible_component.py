# SPDX-License-Identifier: Apache-2.0
"""Turns a component into an Ansible module: the only place where host components meet Ansible."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from ansible.module_utils.basic import AnsibleModule

from .apt import DEFAULT_LOCK_TIMEOUT_SECONDS
from .core import Change, Component, Outcome, Policy, Problem, execute
from .errors import BedplateError
from .host import Host, LocalHost

Desired = TypeVar("Desired")
Observed = TypeVar("Observed")

COMMON_OPTIONS: dict[str, Any] = {
    "in_service": {"type": "bool", "default": False},
    "allow": {"type": "list", "elements": "str", "default": []},
}
LOCK_TIMEOUT_OPTION: dict[str, Any] = {"type": "int", "default": DEFAULT_LOCK_TIMEOUT_SECONDS}
SITE_PLAYBOOK = "bedplate.metal.site"
PROXY_OPTION: dict[str, Any] = {
    "type": "dict",
    "apply_defaults": True,
    "options": {
        "http": {"type": "str", "no_log": True},
        "https": {"type": "str", "no_log": True},
        "no_proxy": {"type": "list", "elements": "str", "default": []},
    },
}


def run_component(
    component: Component[Desired, Observed],
    argument_spec: Mapping[str, Any],
    build_desired: Callable[[dict[str, Any]], Desired],
    *,
    returns: Callable[[Outcome], dict[str, Any]] | None = None,
    stops: Callable[[], bool] = lambda: True,
    host: Host | None = None,
) -> NoReturn:
    """Run a component as the module's ``main`` and exit.

    argument_spec: the component's own options; ``in_service`` and ``allow`` are added. build_desired: makes the desired state
    from the parameters (and ``allow``) and raises :class:`BedplateError` or ValueError for what the argument spec cannot refuse.
    returns: extra results made from the outcome. stops: whether problems fail the module; a report only lists them.
    host: stands in for the machine in tests.
    """
    module = AnsibleModule(argument_spec={**argument_spec, **COMMON_OPTIONS}, supports_check_mode=True)
    parameters = dict(module.params)
    policy = Policy(module.check_mode, parameters.pop("in_service"), frozenset(parameters["allow"]))
    try:
        outcome = execute(component, host or LocalHost(), build_desired(parameters), policy)
    except (BedplateError, ValueError) as error:
        module.fail_json(msg=f"{component.name}: {error}", changes=[], deferred=[], problems=[])
    except OSError as error:
        module.fail_json(msg=f"{component.name}: {os_error_message(error)}", changes=[], deferred=[], problems=[])
    results = outcome_results(component, outcome, policy.in_service)
    stopping = outcome.problems if stops() else []
    for problem in stopping:
        if problem.severity == "warning":
            module.warn(str(problem))
    errors = [p for p in stopping if p.severity == "error"]
    if errors:
        module.fail_json(msg=problems_message(component.name, errors), problems=results["problems"])
    if returns is not None:
        results.update(returns(outcome))
    module.exit_json(**results)
    raise SystemExit  # not reached: exit_json ends the process


def outcome_results(component: Component[Any, Any], outcome: Outcome, in_service: bool) -> dict[str, Any]:
    """Return the module's results: changed, changes, deferred (each with its playbook), problems, reboot, diff.

    What waits on a host that carries no work waits for leave to reboot it, which site.yml takes.
    """
    playbook = component.rolling_playbook if in_service else SITE_PLAYBOOK
    return {
        "changed": outcome.changed,
        "changes": [c.public() for c in outcome.changes],
        "deferred": [{**c.public(), "playbook": playbook} for c in outcome.deferred],
        "problems": [p.public() for p in outcome.problems],
        "reboot": outcome.reboot,
        "diff": [change_diff(c) for c in outcome.changes],
    }


def os_error_message(error: OSError) -> str:
    """Explain what the host's file system refused."""
    what = f"file {error.filename}" if error.filename else "file system"
    return (
        f"{what}: found it refused ({error.strerror or error}); wanted to read or write it. "
        "Next: free space or correct permissions on the host, then repeat"
    )


def problems_message(name: str, problems: list[Problem]) -> str:
    """Return every problem on its own line under the component's name; Ansible puts the host's name before it."""
    if len(problems) == 1:
        return f"{name}: {problems[0]}"
    return "\n".join([f"{name}: {len(problems)} problems:", *(f"  - {problem}" for problem in problems)])


def change_diff(change: Change) -> dict[str, str]:
    """Return a change in the form of Ansible's ``--diff``."""
    public = change.public()
    effects = f" ({', '.join(public['effects'])})" if public["effects"] else ""
    return {
        "before_header": change.what,
        "after_header": change.what + effects,
        "before": _text(public["before"]),
        "after": _text(public["after"]),
    }


def _text(value: Any) -> str:
    """Return a value as lines for a diff; an absent thing is an empty text."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True)
    return text if text.endswith("\n") else text + "\n"
