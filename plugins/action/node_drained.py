# SPDX-License-Identifier: Apache-2.0
"""Controller side of node_drained."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.controller_action import open_api
from ansible_collections.bedplate.metal.plugins.plugin_utils.node_drained import require_drained


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec({"kubeconfig": {"type": "str"}, "name": {"type": "str", "required": True}})
        try:
            require_drained(open_api(arguments["kubeconfig"]), arguments["name"])
        except BedplateError as error:
            return {**result, "failed": True, "msg": f"node_drained: {error}"}
        return {**result, "changed": False}
