# SPDX-License-Identifier: Apache-2.0
"""Controller side of rolling_plan."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.rolling import Upgrade, plan_waves
from ansible_collections.bedplate.metal.plugins.plugin_utils.controller_action import open_api
from ansible_collections.bedplate.metal.plugins.plugin_utils.rolling_nodes import pool_nodes, waiting


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "kubeconfig": {"type": "str"},
                "nodes": {"type": "list", "elements": "str", "required": True},
                "pending": {"type": "list", "elements": "str", "default": []},
                "waiting_results": {"type": "list", "elements": "str", "default": []},
                "upgrade": {"type": "dict", "default": {}},
            }
        )
        try:
            upgrade = Upgrade.of(arguments["upgrade"])
            hostvars = (task_vars or {}).get("hostvars") or {}
            pending = [*arguments["pending"], *waiting(hostvars, arguments["nodes"], arguments["waiting_results"])]
            nodes = pool_nodes(open_api(arguments["kubeconfig"]), arguments["nodes"], pending)
            plan = plan_waves(nodes, upgrade)
        except (BedplateError, ValueError) as error:
            return {**result, "failed": True, "msg": f"rolling_plan: {error}"}
        if plan.blocked:
            step = "bring these nodes back, then repeat"
            return {**result, "failed": True, "msg": f"rolling_plan: {plan.blocked}. Next: {step}"}
        return {
            **result,
            "changed": False,
            "order": plan.order,
            "sizes": [len(batch) for batch in plan.batches],
            "waves": list(plan.waves),
            "skipped_nodes": dict(plan.skipped),
        }
