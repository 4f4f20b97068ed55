# SPDX-License-Identifier: Apache-2.0
"""Controller side of cluster_objects."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.controller_action import open_api, results
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.apply import Objects
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.definitions import definition_problems, is_definition
from ansible_collections.bedplate.metal.plugins.plugin_utils.objects.plan import plan_objects


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
                "objects": {"type": "list", "elements": "dict", "required": True},
                "namespace": {"type": "str", "default": "default"},
                "wait_seconds": {"type": "int", "default": 120},
            }
        )
        check = bool(self._task.check_mode)
        result.update(results("cluster_objects", [], []))
        if check and not arguments["kubeconfig"]:
            return {**result, "skipped": True, "msg": "no cluster yet: nothing to predict from"}
        definitions = [item for item in arguments["objects"] if is_definition(item)]
        rest = [item for item in arguments["objects"] if not is_definition(item)]
        changes, warnings = [], []
        try:
            objects = Objects(open_api(arguments["kubeconfig"]), arguments["wait_seconds"])
            found = objects.observe(definitions)
            if problems := definition_problems(found, definitions):
                return {**result, **results("cluster_objects", [], problems)}
            # The API must know a resource before an object of it can be applied.
            for there, wanted in ((found, definitions), (None, rest)):
                named = [objects.named(item, arguments["namespace"]) for item in wanted]
                plan = plan_objects(objects.observe(named) if there is None else there, named)
                problems += [*plan.problems, *([] if check else objects.carry_out(plan))]
                changes += plan.changes
                warnings += plan.warnings
                if there is not None and plan.apply and not check:
                    objects.wait_served(plan.apply)
        except BedplateError as error:
            return {**result, "failed": True, "msg": f"cluster_objects: {error}"}
        result.update(results("cluster_objects", changes, problems))
        if warnings:
            result["warnings"] = warnings
        return result
