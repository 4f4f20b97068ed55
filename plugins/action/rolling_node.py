# SPDX-License-Identifier: Apache-2.0
"""Controller side of rolling_node."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.rolling import Upgrade
from ansible_collections.bedplate.metal.plugins.plugin_utils.controller_action import open_api, results
from ansible_collections.bedplate.metal.plugins.plugin_utils.rolling_nodes import STEPS, pool_nodes, refusal, take_step


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
                "name": {"type": "str", "required": True},
                "step": {"type": "str", "choices": list(STEPS), "required": True},
                "action": {"type": "str", "default": ""},
                "message": {"type": "str", "default": ""},
                "batch": {"type": "list", "elements": "str", "default": []},
                "pool": {"type": "list", "elements": "str", "default": []},
                "upgrade": {"type": "dict", "default": {}},
            }
        )
        try:
            api = open_api(arguments["kubeconfig"])
            if arguments["step"] == "begin" and arguments["pool"]:
                batch = arguments["batch"] or [arguments["name"]]
                reason = refusal(pool_nodes(api, arguments["pool"], []), batch, Upgrade.of(arguments["upgrade"]))
                if reason:
                    return {**result, **results("rolling_node", [], []), "proceed": False, "reason": reason}
            changes = take_step(
                api,
                arguments["name"],
                arguments["step"],
                action=arguments["action"],
                message=arguments["message"],
                check=bool(self._task.check_mode),
            )
        except (BedplateError, ValueError) as error:
            return {**result, "failed": True, "msg": f"rolling_node: {error}"}
        return {**result, **results("rolling_node", changes, []), "proceed": True, "reason": ""}
