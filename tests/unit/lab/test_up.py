# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_podman import FakePodman
from rich.console import Console

from bedplate_lab import aptrepo, ca, cluster, depot, hostimage, inventory, machine, network, serve, site, ssh, state, traces
from bedplate_lab import up as up_module
from bedplate_lab.errors import LabError
from bedplate_lab.podman import Podman
from bedplate_lab.steps import Steps
from bedplate_lab.up import Options


@pytest.fixture
def runs(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Everything around the hosts stands in; what is done to the depot and by site.yml is noted."""
    done: list[str] = []
    for name in ("check", "check_podman", "check_space"):
        monkeypatch.setattr(machine, name, lambda: None)
    monkeypatch.setattr(machine, "missing", list)
    monkeypatch.setattr(traces, "snapshot", lambda: {"boot": traces.boot_id()})
    monkeypatch.setattr(traces, "load_modules", lambda before: [])
    monkeypatch.setattr(traces, "raise_limits", list)
    monkeypatch.setattr(network, "ensure", lambda podman: False)
    monkeypatch.setattr(ssh, "ensure_key", lambda: "ssh-ed25519 AAAA")
    monkeypatch.setattr(hostimage, "ensure", lambda report: "image")
    monkeypatch.setattr(depot, "prepare", lambda source, report, url: done.append(f"depot from {source}"))
    monkeypatch.setattr(serve, "start", lambda podman, report: [])
    monkeypatch.setattr(ca, "ensure", lambda: SimpleNamespace(pem="CA\n"))
    monkeypatch.setattr(aptrepo, "public_key", lambda repository: "KEY\n")
    monkeypatch.setattr(cluster, "nodes", lambda lab: {})
    playbook = checkout / "playbooks" / "site.yml"
    playbook.parent.mkdir()
    playbook.write_text("- hosts: all\n")
    monkeypatch.setattr(site, "PLAYBOOK", playbook)
    digest = site.digest
    monkeypatch.setattr(site, "digest", lambda hosts: digest(hosts, checkout))
    monkeypatch.setattr(site, "run", lambda: done.append("site"))
    return done


def up(fake: FakePodman, **options: object) -> str:
    output = io.StringIO()
    up_module.up(Options(**options), Steps(Console(file=output)), Podman(fake))  # type: ignore[arg-type]
    return output.getvalue()


def test_a_first_run_makes_everything_and_says_how_to_use_it(fake: FakePodman, runs: list[str]) -> None:
    text = up(fake)
    assert runs == ["depot from build", "site"]
    assert {"bedplate-lab-cp1", "bedplate-lab-w1", "bedplate-lab-w2"} <= set(fake.containers)
    assert inventory.HOSTS.exists()
    assert "booted cp1, w1, w2" in text
    assert "scripts/lab kubectl get nodes" in text
    assert ".venv/bin/ansible-playbook -i inventories/lab playbooks/site.yml" in " ".join(text.split())


def test_a_second_run_changes_nothing_and_leaves_site_out(fake: FakePodman, runs: list[str]) -> None:
    up(fake)
    fake.calls.clear()
    text = up(fake)
    assert runs.count("site") == 1
    assert fake.verbs() == []
    assert "nothing it reads has changed" in text


def test_site_runs_again_when_what_it_reads_changes(fake: FakePodman, runs: list[str], checkout: Path) -> None:
    up(fake)
    (checkout / "playbooks/site.yml").write_text("- hosts: none\n")
    up(fake)
    assert runs.count("site") == 2
    up(fake, workers=3)
    assert runs.count("site") == 3


def test_site_runs_again_when_a_host_was_replaced(fake: FakePodman, runs: list[str]) -> None:
    up(fake)
    del fake.containers["bedplate-lab-w1"]
    up(fake)
    assert runs.count("site") == 2


def test_a_failed_run_of_site_is_repeated(fake: FakePodman, runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise LabError("site.yml: exit code 2")

    with monkeypatch.context() as patched, pytest.raises(LabError, match="exit code 2"):
        patched.setattr(site, "run", fails)
        up(fake)
    up(fake)
    assert runs.count("site") == 1


def test_no_site_stops_before_it(fake: FakePodman, runs: list[str]) -> None:
    up(fake, site=False)
    assert "site" not in runs
    assert state.load().site == {}


def test_no_hosts_are_a_depot_alone(fake: FakePodman, runs: list[str]) -> None:
    up(fake, control_planes=0, workers=0)
    assert runs == ["depot from build"]
    assert fake.containers == {}


def test_the_source_is_kept_for_the_next_run(fake: FakePodman, runs: list[str]) -> None:
    up(fake, source="upstream", site=False)
    up(fake, site=False)
    assert runs == ["depot from upstream", "depot from upstream"]


def test_a_depot_that_fails_leaves_the_hosts_to_go_on_with(
    fake: FakePodman, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise LabError("etcd: no space left")

    with monkeypatch.context() as patched, pytest.raises(LabError, match="no space left"):
        patched.setattr(depot, "prepare", full)
        up(fake)
    fake.calls.clear()
    up(fake)
    assert fake.verbs() == []
    assert runs == ["depot from build", "site"]
