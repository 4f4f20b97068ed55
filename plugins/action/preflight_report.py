# SPDX-License-Identifier: Apache-2.0
"""Controller side of preflight_report."""

from __future__ import annotations

import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.document import document, summary
from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.html import html


class ActionModule(ActionBase):
    """See the documentation of the module of the same name."""

    _requires_connection = False
    _supports_check_mode = True  # writes all the same: the files are the controller's, and no host is touched

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            {
                "hosts": {"type": "list", "elements": "str", "required": True},
                "desired": {"type": "dict", "required": True},
                "result": {"type": "str", "required": True},
                "directory": {"type": "path", "required": True},
            }
        )
        hostvars = (task_vars or {}).get("hostvars") or {}
        results = {host: (hostvars.get(host) or {}).get(arguments["result"]) or {} for host in arguments["hosts"]}
        report = document(arguments["desired"], results, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        directory = Path(arguments["directory"]).absolute()
        try:
            directory.mkdir(parents=True, exist_ok=True)
            _write(directory / "preflight.json", json.dumps(report, indent=1) + "\n")
            _write(directory / "preflight.html", html(report))
        except OSError as error:
            message = f"preflight_report: {directory}: found it refused ({error.strerror}); wanted to write the report there"
            return {**result, "failed": True, "msg": f"{message}. Next: -e bedplate_report_directory=DIRECTORY"}
        return {
            **result,
            "changed": False,
            "report": str(directory / "preflight.json"),
            "html": str(directory / "preflight.html"),
            "verdicts": {host: entry["verdict"] for host, entry in report["hosts"].items()},
            "summaries": {host: summary(entry) for host, entry in report["hosts"].items()},
        }


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by its owner: a report says much about a site."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".preflight-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
