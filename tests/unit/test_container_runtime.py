# SPDX-License-Identifier: Apache-2.0
"""The container runtime on simulated hosts: proven before it is kept, put back otherwise, never restarted in service."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import rollback
from ansible_collections.bedplate.metal.plugins.module_utils.container_runtime import (
    ORIGINAL,
    UNIT_DROPIN,
    ContainerRuntime,
    Desired,
)
from ansible_collections.bedplate.metal.plugins.module_utils.containerd_config import DROPIN, MAIN
from ansible_collections.bedplate.metal.plugins.module_utils.core import UNKNOWN, Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.modules.container_runtime import build_desired
from fixtures_node import DISABLES_CRI, installed_runtime, runtime_desired, runtime_host
from simulated_node import LIMITS, effective

from recorded_host import Package, RecordedHost

HOSTS_TOML = "/etc/containerd/certs.d/registry.k8s.io/hosts.toml"
KEPT = rollback.rollback_path("container_runtime")
APPLY = Policy()
IN_SERVICE = Policy(in_service=True)
RUNC = ("plugins", "io.containerd.cri.v1.runtime", "containerd", "runtimes", "runc", "options", "SystemdCgroup")
ROOM = ("plugins", "io.containerd.cri.v1.runtime", "max_container_log_line_size")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that is not met will not be met later on a simulated host."""
    monkeypatch.setattr(rollback, "wait_until", lambda probe, seconds: probe())


def run(host: RecordedHost, desired: Desired | None = None, policy: Policy = APPLY) -> Outcome:
    return execute(ContainerRuntime(), host, desired or runtime_desired(), policy)


def restarts(host: RecordedHost) -> int:
    return len(host.ran("systemctl", "restart", "containerd"))


def settled(**options: Any) -> RecordedHost:
    """A host after a run."""
    host = runtime_host()
    run(host, runtime_desired(**options))
    host.commands.clear()
    return host


class TestFresh:
    def test_d32_a_package_that_disables_cri_is_enabled_backed_up_and_answers(self) -> None:
        host = runtime_host(DISABLES_CRI)
        run(host)
        assert effective(host)[("disabled_plugins",)] == []
        assert host.files[ORIGINAL] == DISABLES_CRI
        assert host.files["/run/containerd/cri"] == "ok"
        assert effective(host)[RUNC] is True
        assert restarts(host) == 1

    def test_what_the_package_will_bring_is_unknown_in_check_mode_and_nothing_changes(self) -> None:
        host = runtime_host()
        before = host.snapshot()
        outcome = run(host, policy=Policy(check=True))
        assert {c.what: c.after for c in outcome.changes}[f"file {DROPIN}"] == UNKNOWN
        assert {"package containerd", "package runc", "service containerd enabled"} <= {c.what for c in outcome.changes}
        assert host.snapshot() == before and host.changes == 0

    def test_a_second_run_changes_and_restarts_nothing(self) -> None:
        host = settled()
        assert not run(host).changed
        assert not host.ran("systemctl", "restart") and not host.ran("systemctl", "daemon-reload")

    def test_exact_versions_are_held(self) -> None:
        host = settled()
        assert host.packages["containerd"] == Package("2.4.2-1", "install ok installed", True)
        assert host.packages["runc"].held

    def test_containerd_1_is_refused_before_anything_is_installed(self) -> None:
        host = runtime_host()
        desired = Desired(package="containerd", packages={"containerd": "1.7.24", "runc": None})
        problems = run(host, desired).problems
        assert "1.7.24" in problems[0].found and "Kubernetes 1.36" in problems[0].wanted
        assert "containerd" not in host.packages


class TestProof:
    def test_d30_a_setting_containerd_does_not_know_is_put_back_without_a_restart(self) -> None:
        host = settled()
        before = host.snapshot()
        with pytest.raises(BedplateError, match=r"bogus.*does not know"):
            run(host, runtime_desired(settings={"extra": {"runtime.bogus": 1}}))
        assert restarts(host) == 0
        assert host.snapshot() == before

    def test_d30_a_configuration_it_does_not_come_up_with_is_rolled_back(self) -> None:
        host = settled()
        before = host.snapshot()
        with pytest.raises(BedplateError, match="containerd runs again"):
            run(host, runtime_desired(settings={"extra": {"runtime.max_container_log_line_size": -1}}))
        assert restarts(host) == 2
        assert host.snapshot() == before and host.files["/run/containerd/cri"] == "ok"
        assert not run(host).changed

    def test_a_run_killed_between_write_and_restart_still_proves_the_file_and_puts_it_back(self) -> None:
        host = settled()
        before = host.snapshot()
        bad = runtime_desired(settings={"extra": {"runtime.max_container_log_line_size": -1}})
        # What the killed run leaves: the file written, its old text kept, the restart owed.
        rollback.GuardedFile("container_runtime", DROPIN, _wanted_dropin(host, bad)).perform(host)
        record = json.loads(host.files["/var/lib/bedplate/container_runtime.json"])
        host.files["/var/lib/bedplate/container_runtime.json"] = json.dumps({**record, "pending": ["restart:containerd"]})
        with pytest.raises(BedplateError, match="containerd runs again"):
            run(host, bad)
        assert host.files == {**before["files"], "/run/containerd/cri": "ok"}

    def test_another_file_that_wins_over_ours_is_named(self) -> None:
        host = settled()
        late = 'version = 3\n[plugins."io.containerd.cri.v1.images".pinned_images]\nsandbox = "other:1"\n'
        host.files["/etc/containerd/conf.d/99-other.toml"] = late
        with pytest.raises(BedplateError, match='found "other:1" in effect'):
            run(host, runtime_desired(proxy={}))

    def test_a_running_containerd_whose_cri_is_broken_is_restarted(self) -> None:
        host = settled()
        host.files["/run/containerd/cri"] = "error"
        outcome = run(host)
        assert [c.what for c in outcome.changes] == ["CRI of containerd"]
        assert restarts(host) == 1


def _wanted_dropin(host: RecordedHost, desired: Desired) -> str:
    component = ContainerRuntime()
    plan = component.plan(component.observe(host, desired), desired)
    return str(next(c.after for c in plan.changes if c.what == f"file {DROPIN}"))


class TestInService:
    def test_what_restarts_containerd_waits_with_its_files(self) -> None:
        host = settled()
        before = host.snapshot()
        desired = runtime_desired(settings={"restrict_oom_score_adj": True}, memlock=None)
        outcome = run(host, desired, IN_SERVICE)
        assert {c.what for c in outcome.deferred} == {f"file {DROPIN}", f"file {UNIT_DROPIN}"}
        assert not outcome.changed and host.snapshot() == before
        run(host, desired, Policy(in_service=True, allow=frozenset({"restart:containerd"})))
        assert restarts(host) == 1
        assert not run(host, desired, IN_SERVICE).deferred

    def test_an_upgrade_waits(self) -> None:
        host = settled()
        host.packages["containerd"].version = "2.4.1-1"
        outcome = run(host, policy=IN_SERVICE)
        assert [c.what for c in outcome.deferred] == ["package containerd"]
        assert host.packages["containerd"].version == "2.4.1-1"

    def test_mirrors_are_read_at_every_pull_and_change_at_once(self) -> None:
        host = settled()
        del host.files[HOSTS_TOML]
        outcome = run(host, policy=IN_SERVICE)
        assert [c.what for c in outcome.changes] == [f"file {HOSTS_TOML}"]
        assert restarts(host) == 0

    def test_a_stopped_containerd_is_started(self) -> None:
        host = settled()
        host.services["containerd"] = "inactive"
        run(host, policy=IN_SERVICE)
        assert host.services["containerd"] == "active" and restarts(host) == 0


class TestFiles:
    def test_credentials_are_in_no_public_change(self) -> None:
        outcome = run(runtime_host(), runtime_desired(proxy={"http": "http://user:hunter3@proxy:1"}))
        shown = json.dumps([c.public() for c in outcome.changes])
        assert "hunter2" not in shown and "Authorization" not in shown and "hunter3" not in shown
        assert outcome.observed is not None

    def test_files_with_credentials_are_roots_alone(self) -> None:
        host = settled(proxy={"http": "http://user:hunter3@proxy:1"})
        assert (host.modes[HOSTS_TOML], host.modes[UNIT_DROPIN]) == (0o600, 0o600)

    def test_a_registry_no_longer_declared_loses_its_files_and_foreign_ones_stay(self) -> None:
        host = settled()
        foreign = "/etc/containerd/certs.d/foreign/hosts.toml"
        host.files[foreign] = 'server = "https://foreign"\n'
        desired = runtime_desired()
        run(host, Desired(desired.package, desired.packages, desired.settings, (), desired.proxy, desired.memlock))
        assert [p for p in host.files if p.startswith("/etc/containerd/certs.d/")] == [foreign]

    def test_d36_the_proxy_reaches_the_service_with_its_exceptions(self) -> None:
        host = settled(proxy={"https": "http://proxy:3128/%20", "no_proxy": ["10.96.0.0/16", ".example.com", "10.96.0.0/16"]})
        text = host.files[UNIT_DROPIN]
        assert 'Environment="NO_PROXY=10.96.0.0/16,.example.com"' in text
        assert 'Environment="HTTPS_PROXY=http://proxy:3128/%%20"' in text and "HTTP_PROXY" not in text.replace("HTTPS", "")

    def test_no_proxy_and_no_limit_is_no_dropin(self) -> None:
        host = settled()
        run(host, runtime_desired(proxy={"no_proxy": ["10.0.0.0/8"]}, memlock=None))
        assert UNIT_DROPIN not in host.files


class TestMemlock:
    def test_e42_the_limit_is_read_back_from_the_running_process(self) -> None:
        host = settled()
        assert "unlimited" in host.files[LIMITS]
        host.files[LIMITS] = "Max locked memory         8388608              8388608              bytes     \n"
        outcome = run(host)
        assert [(c.what, c.before, c.after) for c in outcome.changes] == [
            ("locked memory of the running containerd", "8388608", "infinity")
        ]
        assert restarts(host) == 1

    def test_other_pools_keep_the_packages_limit(self) -> None:
        host = settled(memlock=None)
        assert "LimitMEMLOCK" not in host.files[UNIT_DROPIN]


class TestVersions:
    @pytest.mark.parametrize("version", [2, 3, 4])
    def test_d30_an_existing_main_file_keeps_its_version(self, version: int) -> None:
        host = installed_runtime(f"version = {version} # mine\n")
        run(host)
        assert host.files[MAIN].startswith(f"version = {version} # mine\n")
        assert tomllib.loads(host.files[DROPIN])["version"] == version
        assert effective(host)[RUNC] is True

    def test_a_file_that_is_not_toml_stops_before_anything_changes(self) -> None:
        host = installed_runtime("version = 2\n")
        host.files[MAIN] = "version = 2\nplugins = [\n"
        before = host.snapshot()
        problems = run(host).problems
        assert problems[0].what == f"file {MAIN}" and "line 2" in problems[0].found
        assert host.snapshot() == before


class TestOptions:
    PARAMETERS: dict[str, Any] = {  # noqa: RUF012 - read only
        "package": "containerd",
        "version": "2.4.2-1",
        "runc_package": "runc",
        "sandbox_image": None,
        "registries": [],
        "proxy": {"http": None, "https": None, "no_proxy": []},
        "memlock": "",
        "restrict_oom_score_adj": False,
        "runtime_handlers": {},
        "cdi": False,
        "extra_config": {},
        "lock_timeout_seconds": 300,
    }

    def test_nothing_asked_for_is_no_setting(self) -> None:
        desired = build_desired(self.PARAMETERS)
        assert desired.packages == {"containerd": "2.4.2-1", "runc": None}
        assert desired.unit_dropin() == "" and not desired.settings.registries

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"memlock": "8G"}, "8G"),
            ({"extra_config": {"imports": []}}, "imports"),
            ({"registries": [{"prefix": "a"}]}, "prefix"),
            ({"runtime_handlers": {"runc": "/usr/bin/runc"}}, "runc"),
            ({"runtime_handlers": {"nvidia": "nvidia-container-runtime"}}, "absolute"),
        ],
    )
    def test_mistakes_are_named(self, options: dict[str, Any], named: str) -> None:
        with pytest.raises(ValueError, match=named):
            build_desired({**self.PARAMETERS, **options})
