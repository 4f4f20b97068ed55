# SPDX-License-Identifier: Apache-2.0
"""Runs the preflight module, and says plainly why a host cannot run modules at all."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.plugin_utils.connection_errors import (
    explain_exception,
    explain_result,
    explain_unreachable,
)


class ActionModule(ActionBase):
    """The first contact with a host: a missing or old Python, a missing password or a dead host is one clear message."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module with the task's own arguments."""
        variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, variables)
        option = self._connection.get_option("remote_user") if self._connection.has_option("remote_user") else None
        user = str(option or self._play_context.remote_user or "the current user")
        try:
            result.update(self._execute_module(module_name="bedplate.metal.preflight", task_vars=variables))
        except AnsibleConnectionFailure as error:
            address = str(variables.get("ansible_host") or variables.get("inventory_hostname"))
            raise AnsibleConnectionFailure(explain_unreachable(str(error), address, user)) from None
        except AnsibleError as error:
            message = explain_exception(str(error), user)
            if message is None:
                raise
            return {"failed": True, "msg": f"preflight: {message}"}
        explanation = explain_result(result, user)
        if explanation:
            return {"failed": True, "msg": f"preflight: {explanation}"}
        return result
