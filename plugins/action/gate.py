# SPDX-License-Identifier: Apache-2.0
"""Controller side of gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.controller_action import open_api, results
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate import CHECKS
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate_gpus import GpuState
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate_run import Gate, Settings


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
                "image": {"type": "str", "required": True},
                "dns_domain": {"type": "str", "default": "cluster.local"},
                "timeout_seconds": {"type": "int", "default": 180},
                "checks": {"type": "list", "elements": "str", "choices": list(CHECKS), "default": list(CHECKS)},
                "recheck": {"type": "bool", "default": False},
                "desired": {"type": "dict", "default": {}},
                "driver_result": {"type": "str", "default": ""},
                "sharing_result": {"type": "str", "default": ""},
            }
        )
        check = bool(self._task.check_mode)
        result.update(results("gate", [], []), accepted=[], rejected={})
        if check and not arguments["kubeconfig"]:
            return {**result, "skipped": True, "msg": "no cluster yet: nothing to predict from"}
        keys = ("image", "checks", "dns_domain", "timeout_seconds", "recheck")
        gpus = _gpus(arguments, (task_vars or {}).get("hostvars") or {})
        try:
            gate = Gate(open_api(arguments["kubeconfig"]), Settings(gpus=gpus, **{key: arguments[key] for key in keys}))
            gate.run(arguments["hosts"], check=check)
        except BedplateError as error:
            return {**result, "failed": True, "msg": f"gate: {error}"}
        result.update(results("gate", gate.changes, []))
        result["accepted"] = [v.node for v in gate.verdicts if v.passed]
        result["rejected"] = {v.node: v.message for v in gate.verdicts if not v.passed}
        return result


def _gpus(arguments: Mapping[str, Any], hostvars: Mapping[str, Any]) -> dict[str, GpuState]:
    """Return what is declared of the hosts' GPUs and what their components registered."""
    found = {}
    for host in arguments["hosts"]:
        variables = hostvars.get(host) or {}
        results = [variables.get(arguments[key]) or {} for key in ("driver_result", "sharing_result")]
        found[host] = GpuState.of(arguments["desired"].get(host) or {}, *results)
    return found
