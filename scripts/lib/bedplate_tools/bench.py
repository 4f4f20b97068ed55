# SPDX-License-Identifier: Apache-2.0
"""``scripts/bench``: what a run of site.yml executes and how long it takes, beside Kubespray on hosts of the same kind."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bedplate_tools import REPORTS, ROOT
from bedplate_tools.lab import LAB, runs
from bedplate_tools.lab_site import add_hosts, remove_hosts

FORMAT = 1
RUN_SECONDS = 1800
NEW_WORKER = "bench1"


@dataclass(frozen=True)
class Peer:
    """Figures of another tool: seconds of wall time, tasks executed per kind of host, hosts' changes in a repeated run."""

    seconds: int
    executed: Mapping[str, str]
    changed: str


KUBESPRAY: dict[str, Peer] = {
    # Measured on hosts of this kind: one control plane, two workers, 2 cores, 10 forks, pipelining.
    "fresh": Peer(453, {"control plane": "476", "workers": "355-374"}, "not counted"),
    "again": Peer(429, {"control plane": "439", "workers": "336-355"}, "7-13 per host"),
}
LIMITS: dict[str, dict[str, int]] = {
    "fresh": {"seconds": 110},
    "again": {"seconds": 20, "executed": 15, "changed": 0},
    "worker": {"executed": 40},
}
"""What is to be held, from the design: seconds of wall time, executed tasks on any one host, changed hosts."""


@dataclass(frozen=True)
class Measured:
    """One run. executed and changed: per host, the controller included; seconds: wall time of ansible-playbook."""

    scenario: str
    seconds: float
    executed: dict[str, int]
    changed: dict[str, int]
    limits: dict[str, int] = field(default_factory=dict)
    peer: dict[str, Any] | None = None

    @property
    def most(self) -> int:
        """The most tasks executed on any one host."""
        return max((count for host, count in self.executed.items() if host != "controller"), default=0)

    def missed(self) -> list[str]:
        """Limits that were not held, as sentences."""
        found = {"seconds": round(self.seconds, 1), "executed": self.most, "changed": sum(self.changed.values())}
        return [f"{self.scenario}: {key} {found[key]}, limit {limit}" for key, limit in self.limits.items() if found[key] > limit]


def lab(*arguments: str) -> str:
    """Run scripts/lab; raise SystemExit with its output unless it answers 0."""
    done = subprocess.run([LAB, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"scripts/lab {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def site(scenario: str, *arguments: str) -> Measured:
    """Run site.yml and read its report; raise SystemExit with the end of the output when it fails."""
    directory = REPORTS / "bench"
    directory.mkdir(parents=True, exist_ok=True)
    report = directory / f"{scenario}.json"
    report.unlink(missing_ok=True)
    started = time.monotonic()
    done = subprocess.run(
        ["ansible-playbook", "-i", "inventories/lab", *arguments, "playbooks/site.yml"],
        cwd=ROOT,
        env={**os.environ, "BEDPLATE_REPORT": str(report)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    seconds = time.monotonic() - started
    if done.returncode != 0:
        raise SystemExit(f"{scenario}: site.yml: exit code {done.returncode}\n{done.stdout[-4000:]}{done.stderr}")
    hosts: dict[str, dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["hosts"]
    executed = {name: int(host["executed"]) for name, host in sorted(hosts.items())}
    changed = {name: len(host["changes"]) for name, host in sorted(hosts.items()) if host["changes"]}
    peer = KUBESPRAY.get(scenario)
    return Measured(scenario, round(seconds, 1), executed, changed, LIMITS[scenario], asdict(peer) if peer else None)


def fresh() -> Measured:
    """Three bare hosts become a cluster; ends when every node is Ready and has passed its gate."""
    if runs():
        raise SystemExit(
            "fresh: found a lab that runs; wanted none, because the measurement starts from bare hosts. "
            "Next: scripts/lab down, or measure only again and worker"
        )
    lab("up", "--no-site")
    return site("fresh")


def again() -> Measured:
    """The same command with nothing to do."""
    return site("again")


def worker() -> Measured:
    """One bare host becomes a worker; the run is limited to it. The host and its node are removed afterwards."""
    inventory = {"all": {"children": {"gpu_nodes": {"children": {"train": {"hosts": add_hosts(NEW_WORKER, gpus="h100-80gb")}}}}}}
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "hosts.yml")
            path.write_text(json.dumps(inventory), encoding="utf-8")
            return site("worker", "-i", str(path), "--limit", NEW_WORKER)
    finally:
        lab("kubectl", "delete", "node", NEW_WORKER, "--ignore-not-found", "--wait=false")
        remove_hosts(NEW_WORKER)


SCENARIOS: dict[str, Callable[[], Measured]] = {"fresh": fresh, "again": again, "worker": worker}


def table(measurements: Sequence[Measured]) -> Table:
    """The figures beside Kubespray's, with the ratio of executed tasks on the control plane."""
    made = Table(
        "run", "seconds", "executed per host", "changes", "Kubespray: seconds", "executed", "changed", "ratio of seconds"
    )
    for one in measurements:
        executed = " ".join(f"{host} {count}" for host, count in one.executed.items())
        changed = " ".join(f"{host} {count}" for host, count in one.changed.items()) or "none"
        peer = KUBESPRAY.get(one.scenario)
        theirs = (
            [
                str(peer.seconds),
                ", ".join(f"{kind} {count}" for kind, count in peer.executed.items()),
                peer.changed,
                f"{peer.seconds / one.seconds:.1f}",
            ]
            if peer
            else ["-"] * 4
        )
        made.add_row(one.scenario, f"{one.seconds:.1f}", executed, changed, *theirs)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the command line names; exit code 1 when a limit was not held."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure site.yml on lab hosts; a lab brought up here is taken down again.",
    )
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], metavar="|".join(SCENARIOS), help="default: all")
    parser.add_argument("--keep", action="store_true", help="leave the lab up afterwards")
    options = parser.parse_args(argv)
    wanted = [name for name in SCENARIOS if name in (options.scenarios or SCENARIOS)]
    measurements: list[Measured] = []
    was_up = runs()
    try:
        for name in wanted:
            measurements.append(SCENARIOS[name]())
    finally:
        if not was_up and not options.keep:
            lab("down")
    path = REPORTS / "bench.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"format": FORMAT, "runs": [asdict(one) for one in measurements]}, indent=2) + "\n", encoding="utf-8"
    )
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table(measurements))
    console.print(f"written to {path.relative_to(ROOT)}")
    missed = [sentence for one in measurements for sentence in one.missed()]
    for sentence in missed:
        console.print(f"not held: {sentence}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
