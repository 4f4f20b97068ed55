# SPDX-License-Identifier: Apache-2.0
"""Callback ``bedplate.metal.run_report``: counts and collects what a run did (see plugin_utils/run_report.py)."""

from __future__ import annotations

DOCUMENTATION = r"""
name: run_report
type: aggregate
short_description: Says per host what a run executed, changed and left for later
version_added: 0.1.0
author: The Bedplate authors
description:
  - Counts, for every host and for the controller, executed tasks (module runs on a host), changed and failed ones, and seconds.
  - Collects the C(changes), C(deferred) and C(problems) that the collection's modules return.
  - Prints a short summary at the end of a run, with every deferred change and the command that rolls it out.
  - Prints the report of M(bedplate.metal.preflight_report) where the run made one.
  - Writes all of it as JSON (format 1, mode 0600) when a path is given.
  - Removes the kubeconfigs that the run kept in memory when it ends.
  - Results of tasks with C(no_log) are counted; nothing of their content is looked at.
options:
  path:
    description: File the JSON report is written to; its directory is made. Without it nothing is written.
    type: path
    env: [{name: BEDPLATE_REPORT}]
    ini: [{section: bedplate, key: report}]
"""

import atexit
import json
import os
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible import context
from ansible.executor.task_result import CallbackTaskResult
from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import action_loader
from ansible.utils.color import ANSIBLE_COLOR
from ansible_collections.bedplate.metal.plugins.plugin_utils.run_report import (
    CONTROLLER,
    Outcome,
    RunReport,
    TaskEvent,
    findings,
)
from ansible_collections.bedplate.metal.plugins.plugin_utils.runtime_directory import forget
from ansible_collections.bedplate.metal.plugins.plugin_utils.site.problem import shown_path

CONTROL_PLANE, SYSTEM_NODES, GPU_NODES = "control_plane", "system_nodes", "gpu_nodes"
NO_RUN = frozenset({"meta", "include_tasks", "include_role", "import_tasks", "import_role", "import_playbook", "pause"})
"""Actions of ansible.builtin that run no module although they do not say so through their plugin."""
PREFLIGHT_REPORT = "bedplate.metal.preflight_report"


class CallbackModule(CallbackBase):
    """Feeds a :class:`RunReport` from Ansible's events."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "bedplate.metal.run_report"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._started = time.monotonic()
        self._begun: dict[tuple[str, str], float] = {}
        self._items: dict[tuple[str, str], Counter[str]] = {}
        self._connects: dict[str, bool] = {}
        self._report = RunReport("")
        self._preflight: Mapping[str, Any] | None = None

    def v2_playbook_on_start(self, playbook: Any) -> None:
        self._started = time.monotonic()
        atexit.register(forget, os.getpid())  # also where a run ends by an interrupt
        name, check = os.path.basename(playbook._file_name), bool(context.CLIARGS.get("check"))
        self._report = RunReport(name, check=check, command=_command(sys.argv[0], context.CLIARGS.get("inventory") or ()))

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        self._begun[host.get_name(), task._uuid] = time.monotonic()

    def v2_runner_item_on_ok(self, result: CallbackTaskResult) -> None:
        self._count_item(result)

    def v2_runner_item_on_failed(self, result: CallbackTaskResult) -> None:
        self._count_item(result)

    def v2_runner_on_ok(self, result: CallbackTaskResult) -> None:
        self._add(result, "ok")
        if result.task.resolved_action == PREFLIGHT_REPORT:
            self._preflight = result.result

    def v2_runner_on_failed(self, result: CallbackTaskResult, ignore_errors: bool = False) -> None:
        self._add(result, "ignored" if ignore_errors else "failed")

    def v2_runner_on_skipped(self, result: CallbackTaskResult) -> None:
        self._add(result, "skipped")

    def v2_runner_on_unreachable(self, result: CallbackTaskResult) -> None:
        self._add(result, "unreachable")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._show_preflight()
        seconds = time.monotonic() - self._started
        lines = self._report.lines(seconds)
        if lines:
            self._display.banner("RUN REPORT")
            for line in lines:
                self._display.display(line)
        path = self.get_option("path")
        if path:
            _write(Path(path), self._report.public(seconds))

    def _show_preflight(self) -> None:
        if self._preflight is None:
            return
        # A run without this report does not pay for the library of its tables.
        from ansible_collections.bedplate.metal.plugins.plugin_utils.preflight_report.terminal import IN_A_FILE, terminal

        report = json.loads(Path(self._preflight["report"]).read_text(encoding="utf-8"))
        self._display.banner("PREFLIGHT")
        width = self._display.columns if sys.stdout.isatty() else IN_A_FILE
        self._display.display(terminal(report, width=width, colour=ANSIBLE_COLOR))
        for path in (self._preflight["html"], self._preflight["report"]):
            self._display.display(f"written: {shown_path(path)}")

    def _add(self, result: CallbackTaskResult, outcome: Outcome) -> None:
        host, task, data = result.host.get_name(), result.task, result.result
        begun = self._begun.pop((host, task._uuid), None)
        # A loop may be delegated item by item; its findings are those of the host that ran the first.
        runs = self._items.pop((host, task._uuid), Counter({str(task.delegate_to or host): 1}))
        if outcome == "skipped":  # the host it would have been delegated to may not even have been worked out
            runs = Counter({host: 0})
        elif not self._runs_a_module(task):
            runs = Counter({CONTROLLER if outcome == "ok" else host: 0})
        for number, (ran_on, times) in enumerate(runs.items()):
            event = TaskEvent(
                host=host,
                ran_on=ran_on,
                task=task.get_name().strip(),
                action=str(task.resolved_action or task.action),
                outcome=outcome,
                runs=times,
                seconds=time.monotonic() - begun if begun is not None else 0.0,
            )
            if number == 0:
                event = replace(
                    event,
                    changed=result.is_changed(),
                    changes=findings(data, "changes"),
                    deferred=findings(data, "deferred"),
                    problems=findings(data, "problems"),
                    planned=bool(task.check_mode),
                    pool=_pool(result.host),
                )
            self._report.add(event)

    def _count_item(self, result: CallbackTaskResult) -> None:
        key = result.host.get_name(), result.task._uuid
        self._items.setdefault(key, Counter())[str(result.task.delegate_to or result.host.get_name())] += 1

    def _runs_a_module(self, task: Any) -> bool:
        """Tell whether the task's action runs a module: not when its action plugin says that it needs no connection."""
        action = str(task.resolved_action or task.action)
        if action not in self._connects:
            plugin = action_loader.get(action, class_only=True, collection_list=task.collections)
            needs = getattr(plugin, "_requires_connection", True)
            self._connects[action] = needs and action.removeprefix("ansible.builtin.") not in NO_RUN
        return self._connects[action]


def _pool(host: Any) -> str:
    """Return the group a host is rolled with: the one right under gpu_nodes, or that of its kind; "" for another host."""
    groups = {group.name: group for group in host.get_groups()}
    for name, group in groups.items():
        if GPU_NODES in {parent.name for parent in group.parent_groups}:
            return str(name)
    return next((name for name in (SYSTEM_NODES, CONTROL_PLANE) if name in groups), "")


def _command(program: str, inventories: Iterable[str]) -> str:
    """Return how ansible-playbook was called, with its inventories, so that it can be pasted where this run was started."""
    name = shown_path(program) if os.path.basename(program) == "ansible-playbook" else "ansible-playbook"
    given = [word for path in inventories for word in ("-i", path if "," in path else shown_path(path))]
    return shlex.join([name, *given])


def _write(path: Path, report: dict[str, Any]) -> None:
    """Write the report whole or not at all, readable by its owner."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".run_report-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1, sort_keys=True)
        file.write("\n")
    os.replace(temporary, path)
