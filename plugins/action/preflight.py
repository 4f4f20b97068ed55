# SPDX-License-Identifier: Apache-2.0
"""Runs the preflight module, and says plainly why a host cannot run modules at all."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.plugin_utils.connection_errors import (
    explain_exception,
    explain_result,
    explain_unreachable,
)


class ActionModule(ActionBase):
    """The first contact with a host: a missing or old Python, a missing password or a dead host is one clear message.

    For a report no host fails: what kept one from being looked at is a result like any other, and the others go on.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the module with the task's own arguments."""
        result: dict[str, Any] = super().run(tmp, task_vars or {})
        if not boolean(self._task.args.get("report", False)):
            return {**result, **self._look(task_vars or {})}
        try:
            result.update(self._look(task_vars or {}))
        except AnsibleConnectionFailure as error:
            return {**result, "refused": {"state": "unreachable", "message": str(error)}}
        except AnsibleError as error:
            return {**result, "refused": {"state": "failed", "message": str(error)}}
        if result.pop("failed", False):
            result["refused"] = {"state": "failed", "message": result.get("msg", "the module gave no reason")}
        result.pop("exception", None)
        return result

    def _look(self, variables: dict[str, Any]) -> dict[str, Any]:
        option = self._connection.get_option("remote_user") if self._connection.has_option("remote_user") else None
        user = str(option or self._play_context.remote_user or "the current user")
        try:
            result: dict[str, Any] = self._execute_module(module_name="bedplate.metal.preflight", task_vars=variables)
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
