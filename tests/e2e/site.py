# SPDX-License-Identifier: Apache-2.0
"""Runs of playbooks against the lab's hosts, with the run report of each."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .wait import wait_until

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = ROOT / "inventories" / "lab"
LOGS = ROOT / "reports" / "test" / os.environ.get("BEDPLATE_TEST_RUN", "e2e")
"""Of this run of pytest alone: others may run beside it."""
RUN_SECONDS = 900

_number = itertools.count(1)


@dataclass(frozen=True)
class Run:
    """An ansible-playbook that ended. report: the run report, None when the run was killed before its end."""

    code: int
    output: str
    report: dict[str, Any] | None
    seconds: float

    @property
    def hosts(self) -> dict[str, dict[str, Any]]:
        """The report's hosts; fails with the output when there is no report."""
        assert self.report is not None, self.output[-4000:]
        hosts: dict[str, dict[str, Any]] = self.report["hosts"]
        return hosts

    def of(self, host: str) -> dict[str, Any]:
        """What the report says of a host; of one that the run did not touch, zeros."""
        return self.hosts.get(host, {"executed": 0, "changed": 0, "failed": 0, "unreachable": 0, "changes": [], "deferred": []})

    def changes(self, *but: str) -> dict[str, list[str]]:
        """The names of changes by host, hosts without changes and those in ``but`` left out."""
        names = {
            host: sorted(change["what"] for change in found["changes"]) for host, found in self.hosts.items() if host not in but
        }
        return {host: found for host, found in names.items() if found}

    def ok(self) -> Run:
        """Fail with the end of the output unless the run ended well."""
        assert self.code == 0, self.output[-6000:]
        return self

    def message(self) -> str:
        """The output with whitespace and line breaks of its wrapping made one space."""
        return " ".join(self.output.replace("\\n", " ").split())


@dataclass(frozen=True)
class Site:
    """The lab's inventory, or another one in its place, with further inventory files."""

    inventories: Sequence[Path] = (INVENTORY,)

    def adding(self, directory: Path, hosts: Mapping[str, Mapping[str, Any]], pool: str = "train") -> Site:
        """Return the site with one more inventory file that puts hosts into a pool."""
        path = directory / f"{'-'.join(hosts)}.yml"
        data = {"all": {"children": {"gpu_nodes": {"children": {pool: {"hosts": {name: dict(v) for name, v in hosts.items()}}}}}}}
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        return Site((*self.inventories, path))

    def run(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        playbook: str = "playbooks/site.yml",
        seconds: float = RUN_SECONDS,
    ) -> Run:
        """Run a playbook to its end. Arguments are ansible-playbook's."""
        process, log, report, started = self._start(arguments, env, playbook)
        try:
            code = process.wait(seconds)
        finally:
            _kill(process)
        found = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
        return Run(code, log.read_text(encoding="utf-8", errors="replace"), found, time.monotonic() - started)

    def run_killed_at(self, pattern: str, *arguments: str) -> str:
        """Start site.yml and kill it with SIGKILL as soon as its output matches; return what it had written."""
        process, log, _report, _started = self._start(arguments, None, "playbooks/site.yml")
        found = re.compile(pattern)
        try:
            wait_until(
                lambda: found.search(log.read_text(encoding="utf-8", errors="replace")) or process.poll() is not None,
                f"a run's output to match {pattern!r}",
                RUN_SECONDS,
            )
            assert process.poll() is None, f"ended before it reached {pattern!r}:\n{log.read_text()[-4000:]}"
        finally:
            _kill(process)
        return log.read_text(encoding="utf-8", errors="replace")

    def _start(
        self, arguments: Sequence[str], env: Mapping[str, str] | None, playbook: str
    ) -> tuple[subprocess.Popen[bytes], Path, Path, float]:
        LOGS.mkdir(parents=True, exist_ok=True)
        name = f"{next(_number):02}"
        log, report = LOGS / f"{name}.log", LOGS / f"{name}.json"
        report.unlink(missing_ok=True)
        argv = ["ansible-playbook", *(f"--inventory={path}" for path in self.inventories), *arguments, playbook]
        with log.open("wb") as output:
            output.write(f"$ {' '.join(argv)}\n".encode())
            output.flush()
            process = subprocess.Popen(
                argv,
                cwd=ROOT,
                env={**os.environ, "BEDPLATE_REPORT": str(report), "ANSIBLE_NOCOLOR": "true", **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return process, log, report, time.monotonic()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a run and its workers as a power cut would; what it started on hosts goes on for a moment, as it really would."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
