# SPDX-License-Identifier: Apache-2.0
"""Validate the whole site on the controller and set the fact ``bedplate``; contacts no host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.plugin_utils.host_variables import set_host_variables
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.checks import CREATE, PURPOSES
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.templates import TemplarResolver
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.validate import validate


class ActionModule(ActionBase):
    """The action ``bedplate.metal.site``. Option: purpose, what the playbook is about to do."""

    _requires_connection = False
    _supports_check_mode = True
    _VALID_ARGS = frozenset(("purpose",))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        purpose = str(self._task.args.get("purpose", CREATE))
        if purpose not in PURPOSES:
            return {"failed": True, "msg": f"purpose = {purpose}: must be one of {', '.join(PURPOSES)}"}
        sources = [str(source) for source in variables.get("ansible_inventory_sources") or []]
        found = validate(sources, self._resolver(variables["hostvars"]), purpose)
        result: dict[str, Any] = {"changed": False}
        if found.warnings:
            result["warnings"] = [str(problem) for problem in found.warnings]
        if found.bedplate is None:
            lines = "\n".join(f"  {problem}" for problem in found.errors)
            count = len(found.errors)
            result["failed"] = True
            if not count:
                lines = "\n".join(f"  {problem}" for problem in found.warnings)
            result["msg"] = f"the site's data has {count} error{'s' if count != 1 else ''}; no host was contacted:\n{lines}"
        else:
            set_host_variables(self, result, {"bedplate": found.bedplate})
        return result

    def _resolver(self, hostvars: Any) -> TemplarResolver:
        def templar(variables: Mapping[str, Any]) -> Any:
            return self._templar.copy_with_new_env(available_variables=variables)

        return TemplarResolver(hostvars.raw_get, templar)
