# SPDX-License-Identifier: Apache-2.0
"""Controller side of a measurement of the fabric: who measures against whom, and what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.bedplate.metal.plugins.plugin_utils import fabric_ring, measurements

FORMAT = 1
"""Version of the JSON report's shape."""
NO_CARDS = (
    "fabric: found no host in this run whose pool has a card with fabric infiniband, roce or soft-roce; wanted at least two. "
    "Next: declare nics in the pools, or correct --limit"
)


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "step": {"type": "str", "choices": ["plan", "report"], "required": True},
                "bedplate": {"type": "dict", "required": True},
                "hosts": {"type": "list", "elements": "str", "required": True},
                "rounds": {"type": "list", "elements": "dict", "default": []},
                "results": {"type": "str", "default": ""},
                "path": {"type": "path"},
            }
        )
        hostvars: dict[str, Any] = (task_vars or {}).get("hostvars") or {}
        bedplate, hosts = arguments["bedplate"], arguments["hosts"]
        alone = fabric_ring.alone(bedplate, hosts)
        if arguments["step"] == "plan":
            addresses = {
                name: str(host["node_ip"] or hostvars[name].get("ansible_host", name)) for name, host in bedplate["hosts"].items()
            }
            rounds = fabric_ring.plan(bedplate, hosts, addresses)
            if not rounds and not alone:
                return {**result, "failed": True, "msg": NO_CARDS}
            return {**result, "changed": False, "rounds": rounds}
        measured = {name: (hostvars.get(name) or {}).get(arguments["results"]) or [] for name in bedplate["hosts"]}
        found = [{"host": name, **one} for name, some in measured.items() for one in some]
        found += [*fabric_ring.missing(arguments["rounds"], measured), *alone]
        for line in fabric_ring.table(found):
            Display().display(line)
        if arguments["path"]:
            measurements.write_report(Path(arguments["path"]), {"format": FORMAT, "results": found})
        failed = [one for one in found if not one["passed"]]
        result["changed"] = False
        if failed:  # the table has said the rest
            lines = [f"  {one['host']} to {one['peer']}, {one['rail']}: {one['reason']}" for one in failed]
            result["failed"] = True
            result["msg"] = "\n".join([f"fabric: {len(failed)} of {len(found)} measurements did not pass:", *lines])
            return result
        return {**result, "results": found}
