# SPDX-License-Identifier: Apache-2.0
"""Controller side of the storage checks: compares with baselines, keeps them on Nodes, prints and writes the report."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils import measurements, storage_baseline
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api

FORMAT = 1
"""Version of the JSON report's shape."""
NOTHING = (
    "storage: found no host in this run with a place for data; wanted one. "
    "Next: declare storage or a pool's nvme in the site data, or correct --limit"
)


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "bedplate": {"type": "dict", "required": True},
                "hosts": {"type": "list", "elements": "str", "required": True},
                "results": {"type": "str", "required": True},
                "kubeconfig": {"type": "str", "default": ""},
                "record": {"type": "bool", "default": False},
                "at_once": {"type": "int", "default": 1},
                "path": {"type": "path"},
            }
        )
        bedplate = arguments["bedplate"]
        hosts = [host for host in arguments["hosts"] if bedplate["hosts"][host]["places"]]
        if not hosts:
            return {**result, "failed": True, "msg": NOTHING}
        hostvars: dict[str, Any] = (task_vars or {}).get("hostvars") or {}
        measured = {host: (hostvars.get(host) or {}).get(arguments["results"]) or {} for host in hosts}
        api, nodes = self._nodes(arguments["kubeconfig"], result)
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        judged = {
            host: storage_baseline.judge(
                host,
                measured[host].get("results"),
                nodes.get(host) or measured[host].get("baseline") or {},
                storage_baseline.settings_of(bedplate, arguments["at_once"]),
                tolerance_percent=int(bedplate["storage_check"]["tolerance_percent"]),
                record=arguments["record"],
                time=time,
            )
            for host in hosts
        }
        rows = [row for one in judged.values() for row in one.rows]
        for line in storage_baseline.table(rows):
            Display().display(line)
        if arguments["path"]:
            measurements.write_report(Path(arguments["path"]), {"format": FORMAT, "time": time, "results": rows})
        keep, changed = {}, False
        for host, one in judged.items():
            if api is not None and host in nodes:
                if one.baseline and one.baseline != nodes[host]:  # also one that the host kept while there was no Node
                    storage_baseline.write_node(api, host, one.baseline)
                    changed = True
            elif one.changed:
                keep[host] = dict(one.baseline)
        failed = {host: one.message for host, one in judged.items() if one.message}
        return {**result, "changed": changed, "results": rows, "keep": keep, "failed_hosts": failed}

    def _nodes(self, kubeconfig: str, result: dict[str, Any]) -> tuple[Api | None, dict[str, dict[str, Any]]]:
        """Return the API and the baselines on its Nodes; none where no cluster answers, which is a warning where one should."""
        if not kubeconfig:
            return None, {}
        try:
            api = Api(kubeconfig)
            return api, storage_baseline.read_nodes(api)
        except BedplateError as error:
            result["warnings"] = [f"storage: {error}; baselines are those of the hosts' own records"]
            return None, {}
