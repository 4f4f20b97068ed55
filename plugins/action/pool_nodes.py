# SPDX-License-Identifier: Apache-2.0
"""Controller side of pool_nodes."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.module_utils.core import DRAIN
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.controller_action import open_api, results
from ansible_collections.bedplate.metal.plugins.plugin_utils.pool_nodes import reconcile


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
                "hosts": {"type": "list", "elements": "str", "required": True},
                "desired": {"type": "dict", "required": True},
                "in_service": {"type": "list", "elements": "str", "default": []},
                "allow": {"type": "list", "elements": "str", "default": []},
            }
        )
        check = bool(self._task.check_mode)
        if check and not arguments["kubeconfig"]:
            return {
                **result,
                **results("pool_nodes", [], []),
                "missing": {},
                "skipped": True,
                "msg": "no cluster yet: nothing to predict from",
            }
        try:
            api = open_api(arguments["kubeconfig"])
            busy = [] if DRAIN in arguments["allow"] else arguments["in_service"]
            found = reconcile(api, arguments["hosts"], arguments["desired"], check=check, busy=busy)
        except BedplateError as error:
            return {**result, "failed": True, "msg": f"pool_nodes: {error}"}
        result.update(results("pool_nodes", found.changes, []), deferred=found.deferred_results())
        result["missing"] = {} if check else found.missing
        return result
