# SPDX-License-Identifier: Apache-2.0
"""`scripts/lab up`: from nothing, from an interrupted run or from a running lab to a running lab."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bedplate_lab import (
    aptrepo,
    ca,
    depot,
    gpus,
    hostimage,
    hosts,
    inventory,
    machine,
    network,
    paths,
    serve,
    site,
    ssh,
    state,
    summary,
    traces,
)
from bedplate_lab.errors import LabError
from bedplate_lab.podman import Podman
from bedplate_lab.state import State
from bedplate_lab.steps import Steps


@dataclass(frozen=True)
class Options:
    """What the command line asks for; None means as it is, or the default for a new lab."""

    control_planes: int | None = None
    workers: int | None = None
    source: str | None = None
    upstream_url: str | None = None
    site: bool = True


DEFAULT_CONTROL_PLANES = 1
DEFAULT_WORKERS = 2


def up(options: Options, steps: Steps, podman: Podman | None = None) -> None:
    """Bring the lab up and run site.yml. Raises LabError; the same command repeated goes on."""
    podman = podman or Podman()
    with paths.lock("lab"), steps.shown():
        prepare(steps, podman)
        lab = choose(options)
        hosts_made = _boot_and_fill(lab, steps, podman)
    ids = {name: container.id for name, container in podman.containers().items()}
    _site(lab, options, steps, ids)
    summary.show(state.load(), steps, changed=hosts_made)


def prepare(steps: Steps, podman: Podman, also: Mapping[str, tuple[str, ...]] | None = None) -> None:
    """Everything before the first host: the machine's programs (`also`: more of them, as machine.NEEDS), limits, key, network."""
    _programs(steps, also)
    with steps.step("check the machine") as report:
        machine.check_podman()
        machine.check_space()
        with state.update() as record:
            if record.machine.get("boot") != traces.boot_id():
                record.machine = traces.snapshot()
        lines = [*traces.load_modules(record.machine), *traces.raise_limits()]
        if lines:
            report("; ".join(lines))
        ssh.ensure_key()
        network.ensure(podman)


def _programs(steps: Steps, also: Mapping[str, tuple[str, ...]] | None = None) -> None:
    machine.check()
    lacking = machine.missing({**machine.NEEDS, **(also or {})})
    if lacking:
        with steps.step("install what the machine lacks") as report:
            machine.install(lacking, report)
        with state.update() as record:
            record.packages = sorted({*record.packages, *lacking})


def build(options: Options, steps: Steps) -> None:
    """Fill the cache and the depot's content, and start nothing. Raises LabError."""
    with paths.lock("lab"), steps.shown():
        _programs(steps)
        with steps.step("base host image") as report:
            hostimage.build(report)
        with steps.step("packages and images") as report:
            depot.prepare(options.source or "build", report, options.upstream_url)


def choose(options: Options) -> State:
    """Record what is asked for; the record. Raises LabError for fewer hosts than there are."""
    with state.update() as record:
        fresh = not record.hosts()
        for field, asked, default in (
            ("control_planes", options.control_planes, DEFAULT_CONTROL_PLANES),
            ("workers", options.workers, DEFAULT_WORKERS),
        ):
            there = getattr(record, field)
            wanted = asked if asked is not None else (default if fresh else there)
            if wanted < there:
                option = "--" + field.replace("_", "-")
                raise LabError(
                    f"{option} {wanted}: the lab has {there}, and hosts of a cluster are not taken away in passing. "
                    "next: scripts/lab down, then up again"
                )
            setattr(record, field, wanted)
        record.planned()
        if options.source is not None:
            record.source = options.source
        if options.upstream_url is not None:
            record.upstream_url = options.upstream_url
    return record


def _boot_and_fill(lab: State, steps: Steps, podman: Podman) -> list[str]:
    """Boot the hosts beside filling and starting the depot, then write the inventory; names of hosts made or started."""
    public_key = ssh.ensure_key()
    made: list[str] = []

    def boot() -> None:
        with steps.step("base host image") as report:
            image = hostimage.ensure(report)
        names = " ".join(host.name for host in lab.hosts())
        with steps.step(f"hosts: {names or 'none'}") as report:
            made.extend(hosts.ensure(podman, lab.hosts(), image, public_key, report))
            if given := gpus.ensure(podman, lab.planned()):
                report(f"GPUs plugged into {' '.join(given)}")

    def fill() -> None:
        with steps.step("packages and images") as report:
            depot.prepare(lab.source, report, lab.upstream_url or None)
        with steps.step("depot") as report:
            serve.start(podman, report)

    side_by_side(boot, fill)
    describe(lab, steps)
    return made


def describe(lab: State, steps: Steps) -> None:
    """Write the generated part of the inventory: the lab's hosts, and the depot, which must be filled."""
    with steps.step("inventory") as report:
        known = inventory.Depot(ca.ensure().pem, aptrepo.public_key(depot.content() / "apt"), str(depot.helm_program()))
        report("written" if inventory.write(lab.planned(), known) else "unchanged")


def side_by_side(*works: Callable[[], object]) -> None:
    """Run works at the same time and wait for all; raises the first failure once all have ended."""
    with ThreadPoolExecutor(max_workers=len(works)) as pool:
        tasks = [pool.submit(work) for work in works]
    for task in tasks:
        task.result()


def _site(lab: State, options: Options, steps: Steps, ids: dict[str, str]) -> None:
    if not options.site or not lab.planned():
        return
    if not site.PLAYBOOK.is_file():
        raise LabError(f"{site.PLAYBOOK}: not found, wanted the playbook that makes the cluster. next: complete the checkout")
    members = {host.container: ids.get(host.container, "") for host in lab.planned()}
    wanted = site.digest(members)
    if lab.site.get("digest") == wanted:
        with steps.step("site.yml: nothing it reads has changed since it last succeeded"):
            return
    with steps.step("site.yml"):
        site.run()
    with state.update() as record:
        record.site = {"digest": wanted}
