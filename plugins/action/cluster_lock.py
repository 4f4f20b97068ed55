# SPDX-License-Identifier: Apache-2.0
"""Controller side of cluster_lock. The owner is the ansible-playbook process, the parent of the worker this runs in."""

from __future__ import annotations

import os
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.cluster_lock import acquire, release, this_run
from ansible_collections.bedplate.metal.plugins.plugin_utils.controller_action import open_api


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "kubeconfig": {"type": "str"},
                "state": {"type": "str", "choices": ["held", "released"], "required": True},
                "purpose": {"type": "str", "default": ""},
                "duration_seconds": {"type": "int", "default": 900},
                "force": {"type": "bool", "default": False},
            }
        )
        if self._task.check_mode:
            return {**result, "changed": False, "skipped": True, "msg": "a check needs no lock"}
        me = this_run(arguments["purpose"], os.getppid())
        try:
            api = open_api(arguments["kubeconfig"])
            if arguments["state"] == "released":
                return {**result, "changed": release(api, me), "owner": me.identity}
            decision = acquire(api, me, duration_seconds=arguments["duration_seconds"], force=arguments["force"])
        except BedplateError as error:
            return {**result, "failed": True, "msg": str(error)}
        return {**result, "changed": decision.action == "take", "owner": me.identity, "reason": decision.reason}
