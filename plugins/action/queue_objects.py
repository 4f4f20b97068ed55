# SPDX-License-Identifier: Apache-2.0
"""Controller side of queue_objects."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.controller_action import open_api, results
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.apply import Objects
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.plan import plan_objects
from ansible_collections.bedplate.metal.plugins.plugin_utils.queues.wanted import (
    QUEUE_KINDS,
    SHARED_KINDS,
    keeps,
    unchangeable,
    wanted_objects,
)


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "kubeconfig": {"type": "str"},
                "plan": {"type": "dict", "required": True},
                "wait_seconds": {"type": "int", "default": 120},
            }
        )
        check = bool(self._task.check_mode)
        result.update(results("queue_objects", [], []))
        if check and not arguments["kubeconfig"]:
            return {**result, "skipped": True, "msg": "no cluster yet: nothing to predict from"}
        wanted = wanted_objects(arguments["plan"])
        try:
            objects = Objects(open_api(arguments["kubeconfig"]), arguments["wait_seconds"])
            found = objects.observe(wanted, listed=[*QUEUE_KINDS, *SHARED_KINDS], labelled=SHARED_KINDS)
            plan = plan_objects(found, wanted, unchangeable, keeps)
            problems = list(plan.problems)
            if not check:
                problems += objects.carry_out(plan)
        except BedplateError as error:
            return {**result, "failed": True, "msg": f"queue_objects: {error}"}
        result.update(results("queue_objects", plan.changes, problems))
        if plan.warnings:
            result["warnings"] = plan.warnings
        return result
