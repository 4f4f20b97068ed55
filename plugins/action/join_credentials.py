# SPDX-License-Identifier: Apache-2.0
"""Controller side of join_credentials.

Its result is secret, so the task that calls it has ``no_log: true``. That would hide an error too: what went wrong is returned as
``problem``, scrubbed, for a task that fails with it in the open.
"""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.module_utils.control_plane_files import ENCRYPTION
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.kubeadm import scrub
from ansible_collections.bedplate.metal.plugins.plugin_utils.cluster_state import decoded_slurp
from ansible_collections.bedplate.metal.plugins.plugin_utils.controller_action import NO_KUBECONFIG
from ansible_collections.bedplate.metal.plugins.plugin_utils.join_credentials import make, upload_input, withdraw

UPLOAD = ("kubeadm", "init", "phase", "upload-certs", "--upload-certs", "--skip-certificate-key-print")


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "kubeconfig": {"type": "str"},
                "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
                "token": {"type": "str", "no_log": True},
                "control_plane": {"type": "bool", "default": False},
                "ttl_seconds": {"type": "int", "default": 1800},
            }
        )
        self._task.no_log = self._play_context.no_log = True
        result.update(changed=True, token="", ca_cert_hashes=[], problem="")
        if self._task.check_mode:
            return result
        try:
            kubeconfig = arguments["kubeconfig"]
            if not kubeconfig:
                raise BedplateError(NO_KUBECONFIG)
            if arguments["state"] == "absent":
                withdraw(kubeconfig, arguments["token"])
                return result
            result.update(make(kubeconfig, arguments["ttl_seconds"]))
            if arguments["control_plane"]:
                result.update(self._control_plane(kubeconfig, task_vars or {}))
        except BedplateError as error:
            result.update(changed=False, problem=f"join_credentials: {scrub(str(error))}")
        return result

    def _control_plane(self, kubeconfig: str, task_vars: dict[str, Any]) -> dict[str, Any]:
        """Upload the certificates from the host this task is delegated to and read its encryption configuration."""
        key, text = upload_input(kubeconfig)
        uploaded = self._execute_module(
            module_name="ansible.legacy.command",
            module_args={
                "argv": [*UPLOAD, "--config", "/dev/stdin"],
                "stdin": text,
            },
            task_vars=task_vars,
        )
        if uploaded.get("failed") or uploaded.get("rc", 1) != 0:
            reason = uploaded.get("stderr") or uploaded.get("msg")
            raise BedplateError(f"cannot upload the control plane's certificates: {reason}. Next: correct that and repeat")
        slurped = self._execute_module(module_name="ansible.legacy.slurp", module_args={"src": ENCRYPTION}, task_vars=task_vars)
        return {
            "certificate_key": key,
            "encryption_config": None if slurped.get("failed") else decoded_slurp(slurped),
        }
