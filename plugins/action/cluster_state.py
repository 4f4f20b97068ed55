# SPDX-License-Identifier: Apache-2.0
"""Controller side of cluster_state: delegated to control-plane hosts one by one, it reads admin.conf and asks the API once."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.kubeadm import ADMIN_CONF
from ansible_collections.bedplate.metal.plugins.plugin_utils.cluster_state import Search, decoded_slurp, facts
from ansible_collections.bedplate.metal.plugins.plugin_utils.host_variables import set_host_variables

_SEARCHES: dict[str, Search] = {}
"""By task: the items of a loop run one after another in one process and share what they found."""


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        _, arguments = self.validate_argument_spec(
            {
                "cluster": {"type": "str", "required": True},
                "control_plane": {"type": "list", "elements": "str", "required": True},
                "hosts": {"type": "list", "elements": "str", "default": []},
                "classify": {"type": "bool", "default": True},
                "set_facts": {"type": "bool", "default": True},
            }
        )
        search = _SEARCHES.setdefault(str(self._task._uuid), Search())
        if search.answered:
            return {**result, "changed": False, "asked": False}
        asked = self._task.delegate_to or task_vars["inventory_hostname"]
        hostvars = task_vars["hostvars"]
        try:
            self._ask(search, str(asked), hostvars, arguments["cluster"], task_vars)
        except BedplateError as error:
            return {**result, "failed": True, "msg": f"cluster_state: {error}"}
        observed = {host: _observed(hostvars, host) for host in arguments["hosts"]}
        found = facts(search, arguments["hosts"], observed, arguments["control_plane"], classes=arguments["classify"])
        result.update(changed=False, asked=True, kubeconfig=found["bedplate_kubeconfig"], source=search.source)
        if arguments["set_facts"]:
            set_host_variables(self, result, found)
        return result

    def _ask(self, search: Search, host: str, hostvars: Any, cluster: str, task_vars: dict[str, Any]) -> None:
        """Read a control-plane host's admin.conf; its content is never shown, at any verbosity."""
        self._play_context.no_log = True
        try:
            slurped = self._execute_module(
                module_name="ansible.legacy.slurp", module_args={"src": ADMIN_CONF}, task_vars=task_vars
            )
        except AnsibleConnectionFailure as error:
            search.unknown.append(host)
            self._display.warning(f"control-plane host {host} could not be asked for the cluster: {error}")
            return
        if slurped.get("failed"):
            if not _absent(slurped):
                raise BedplateError(
                    f"{ADMIN_CONF} on {host}: {slurped.get('msg')}. Next: see that the user may become root there"
                )
            search.take(host, None, "", cluster)
            return
        variables = hostvars[host]
        search.take(host, decoded_slurp(slurped), str(variables.get("ansible_host") or host), cluster)


def _absent(slurped: dict[str, Any]) -> bool:
    return "not found" in str(slurped.get("msg", "")).lower() or "no such file" in str(slurped.get("msg", "")).lower()


def _observed(hostvars: Any, host: str) -> dict[str, Any]:
    """Return the preflight's kubelet observation of a host (empty when there is none)."""
    observed = hostvars[host].get("bedplate_observed") or {} if host in hostvars else {}
    return dict(observed.get("kubelet") or {})
