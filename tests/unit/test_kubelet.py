# SPDX-License-Identifier: Apache-2.0
"""Kubelet on simulated hosts: before it joins, on a node in service, and when it does not come up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import rollback
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.module_utils.kubelet import FLAGS, UNIT_DROPIN, Desired, Kubelet
from ansible_collections.bedplate.metal.plugins.module_utils.kubelet_config import DIRECTORY, parse
from ansible_collections.bedplate.metal.plugins.module_utils.record import Record
from ansible_collections.bedplate.metal.plugins.modules.kubelet import build_desired
from fixtures_node import CPU_STATE, STATIC, joined_host, kubelet_desired, kubelet_host, moving_host

from recorded_host import RecordedHost

APPLY = Policy()
IN_SERVICE = Policy(in_service=True)
DRAINED = Policy(in_service=True, allow=frozenset({"drain"}))
SITE, POOL, HOST = (f"{DIRECTORY}/{name}" for name in ("20-site.conf", "30-pool.conf", "10-host.conf"))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that is not met will not be met later on a simulated host."""
    monkeypatch.setattr(rollback, "wait_until", lambda probe, seconds: probe())


def run(host: RecordedHost, desired: Desired | None = None, policy: Policy = APPLY) -> Outcome:
    return execute(Kubelet(), host, desired or kubelet_desired(), policy)


def effects(outcome: Outcome) -> dict[str, set[str]]:
    return {c.what: set(c.effects) for c in [*outcome.changes, *outcome.deferred]}


class TestFresh:
    def test_everything_is_there_and_nothing_is_restarted(self) -> None:
        host = kubelet_host()
        run(host)
        assert {n: (p.version, p.held) for n, p in host.packages.items() if n != "bash"} == {
            "kubelet": ("1.36.3-1.1", True),
            "kubeadm": ("1.36.3-1.1", True),
            "kubectl": ("1.36.3-1.1", True),
            "cri-tools": ("1.37.0-1.1", True),
            "kubernetes-cni": ("1.10.0-1.1", True),
        }
        assert f"--config-dir={DIRECTORY} --node-ip=10.0.0.11" in host.files[FLAGS]
        assert "10.0.0.10 api.example.test" in host.files["/etc/hosts"]
        assert parse(host.files[SITE]) == {"maxPods": 110}
        assert not host.ran("systemctl", "restart") and not host.ran("systemctl", "stop")
        assert not run(host).changed

    def test_k1_check_mode_predicts_the_same_changes(self) -> None:
        host = kubelet_host()
        predicted = [c.public() for c in run(host, policy=Policy(check=True)).changes]
        assert host.changes == 0
        assert predicted == [c.public() for c in run(host).changes]

    def test_the_dropin_directory_is_never_empty_because_kubelet_stops_without_it(self) -> None:
        host = kubelet_host()
        run(host, kubelet_desired(dropins={}))
        assert parse(host.files[HOST]) == {}

    def test_kubelet_starts_after_the_runtime_and_systemd_knows(self) -> None:
        host = kubelet_host()
        run(host)
        assert "[Unit]\nAfter=containerd.service\n" in host.files[UNIT_DROPIN] and "[Service]" not in host.files[UNIT_DROPIN]
        assert host.ran("systemctl", "daemon-reload")

    def test_b10_pods_get_the_upstream_servers_of_a_stub(self) -> None:
        host = kubelet_host()
        host.files["/etc/resolv.conf"] = "nameserver 127.0.0.53\n"
        host.files["/run/systemd/resolve/resolv.conf"] = "nameserver 10.0.0.2\n"
        run(host)
        assert parse(host.files[HOST]) == {"resolvConf": "/run/systemd/resolve/resolv.conf"}

    def test_b10_hosts_without_the_stub_stay_as_they_are(self) -> None:
        host = kubelet_host()
        run(host)
        assert parse(host.files[HOST]) == {}

    def test_b10_a_site_that_names_its_own_file_is_not_warned(self) -> None:
        host = kubelet_host()
        host.files["/etc/resolv.conf"] = "nameserver 127.0.0.1\n"
        assert [p.severity for p in run(host).problems] == ["warning"]
        assert not run(host, kubelet_desired(dropins={"20-site.conf": {"resolvConf": "/etc/pods.conf"}})).problems

    def test_e39_ipv6_is_bare(self) -> None:
        host = kubelet_host()
        run(host, kubelet_desired(node_ip="fd00::11", endpoint_address="fd00::10"))
        assert "--node-ip=fd00::11" in host.files[FLAGS] and "[" not in host.files[FLAGS]
        assert "\nfd00::10 api.example.test\n" in host.files["/etc/hosts"]

    def test_another_address_for_the_endpoint_stops(self) -> None:
        host = kubelet_host()
        host.files["/etc/hosts"] = "10.0.0.9 api.example.test\n"
        problems = run(host).problems
        assert problems[0].what == "file /etc/hosts" and "10.0.0.9" in problems[0].found
        assert "kubelet" not in host.packages

    def test_state_of_an_init_that_did_not_end_is_no_reason_to_restart(self) -> None:
        host = kubelet_host()
        host.files["/var/lib/kubelet/config.yaml"] = "kind: KubeletConfiguration\n"
        run(host)
        assert not host.ran("systemctl", "restart")


class TestInService:
    def test_a_settled_node_is_left_alone(self) -> None:
        host = joined_host()
        assert not run(host, policy=IN_SERVICE).changed

    def test_a_dropin_restarts_kubelet_only_and_without_daemon_reload(self) -> None:
        host = joined_host()
        outcome = run(host, kubelet_desired(dropins={"20-site.conf": {"maxPods": 220}}), IN_SERVICE)
        assert effects(outcome) == {f"file {SITE}": {"restart:kubelet"}}
        assert host.ran("systemctl", "restart") == [["systemctl", "restart", "kubelet"]]
        assert not host.ran("systemctl", "daemon-reload")
        assert parse(host.files[SITE]) == {"maxPods": 220}

    def test_pinned_cpus_wait_for_a_drain(self) -> None:
        host = joined_host()
        before = host.snapshot()
        outcome = run(host, kubelet_desired(dropins=STATIC), IN_SERVICE)
        assert [c.what for c in outcome.deferred] == ["state of the cpu manager", f"file {POOL}"]
        assert host.snapshot() == before

    def test_drained_the_state_file_goes_and_kubelet_comes_up(self) -> None:
        host = joined_host()
        run(host, kubelet_desired(dropins=STATIC), DRAINED)
        assert json.loads(host.files[CPU_STATE])["policyName"] == "static"
        assert host.services["kubelet"] == "active"
        stop, restart = host.ran("systemctl", "stop", "kubelet"), host.ran("systemctl", "restart", "kubelet")
        assert host.commands.index(stop[0]) < host.commands.index(restart[0])
        assert not run(host, kubelet_desired(dropins=STATIC), IN_SERVICE).deferred

    def test_an_ordinary_setting_beside_a_deferred_one_is_applied(self) -> None:
        host = joined_host()
        desired = kubelet_desired(dropins={**STATIC, "20-site.conf": {"maxPods": 220}})
        outcome = run(host, desired, IN_SERVICE)
        assert [c.what for c in outcome.changes] == [f"file {SITE}"]
        assert POOL not in host.files and host.services["kubelet"] == "active"

    def test_a_new_version_waits_for_a_drain_and_then_restarts(self) -> None:
        host = joined_host()
        for name in ("kubelet", "kubeadm", "kubectl"):
            host.packages[name].version = "1.36.2-1.1"
        outcome = run(host, policy=IN_SERVICE)
        assert effects(outcome)["package kubelet"] == {"drain", "restart:kubelet"} and not outcome.changed
        run(host, policy=DRAINED)
        assert host.packages["kubelet"].version == "1.36.3-1.1" and host.ran("systemctl", "restart", "kubelet")

    def test_a_proxy_needs_a_daemon_reload_and_waits(self) -> None:
        host = joined_host()
        outcome = run(host, kubelet_desired(proxy={"http": "http://u:hunter2@p:1"}), IN_SERVICE)
        assert [c.what for c in outcome.deferred] == [f"file {UNIT_DROPIN}"]
        assert "hunter2" not in json.dumps([c.public() for c in outcome.deferred])
        run(host, kubelet_desired(proxy={"http": "http://u:hunter2@p:1"}), DRAINED)
        assert host.ran("systemctl", "daemon-reload") and host.modes[UNIT_DROPIN] == 0o600

    def test_a_dropin_no_longer_wanted_is_removed_and_foreign_ones_stay(self) -> None:
        host = joined_host()
        host.files[f"{DIRECTORY}/90-admin.conf"] = "kind: KubeletConfiguration\n"
        run(host, kubelet_desired(dropins={}), IN_SERVICE)
        assert SITE not in host.files and f"{DIRECTORY}/90-admin.conf" in host.files

    def test_the_endpoint_moves_without_a_restart(self) -> None:
        outcome = run(moving_host(), kubelet_desired(endpoint_address="10.0.0.99"), IN_SERVICE)
        assert effects(outcome) == {"file /etc/hosts": set()}

    @pytest.mark.parametrize("check", [False, True])
    def test_the_endpoint_never_moves_to_where_the_cluster_does_not_answer(self, check: bool) -> None:
        host = joined_host()
        before = host.snapshot()
        desired = kubelet_desired(endpoint_address="10.0.0.98", dropins={"20-site.conf": {"maxPods": 220}})
        outcome = run(host, desired, Policy(check=check, in_service=True))
        (problem,) = outcome.problems
        assert "api.example.test" in problem.what and "10.0.0.98:6443" in problem.found and "timed out" in problem.found
        assert "cluster.endpoint.address" in problem.next_step
        assert host.snapshot() == before and not outcome.changes

    def test_a_name_left_to_dns_must_lead_to_the_cluster(self) -> None:
        host = moving_host()
        assert "no address of api.example.test in DNS" in run(host, kubelet_desired(endpoint_address=None)).problems[0].found
        host.on("getent", lambda host, argv, stdin: Result(0, "10.0.0.99  STREAM api.example.test\n"))
        run(host, kubelet_desired(endpoint_address=None))
        assert "api.example.test" not in host.files["/etc/hosts"]

    def test_a_settled_endpoint_is_not_asked_for(self) -> None:
        host = joined_host()
        run(host, policy=IN_SERVICE)
        assert not [c for c in host.commands if "10.0.0.10" in c]

    def test_an_init_that_did_not_end_may_correct_its_endpoint(self) -> None:
        host = joined_host()
        Record("control_plane", data={"phase": "initialising"}).save(host)
        assert effects(run(host, kubelet_desired(endpoint_address="10.0.0.98"))) == {"file /etc/hosts": set()}


class TestProof:
    def test_settings_kubelet_does_not_come_up_with_are_put_back(self) -> None:
        host = joined_host()
        before = host.snapshot()
        with pytest.raises(BedplateError, match="kubelet is healthy again") as caught:
            run(host, kubelet_desired(dropins={"20-site.conf": {"maxPods": -1}}), IN_SERVICE)
        assert SITE in str(caught.value)
        after = host.snapshot()
        assert json.loads(after["files"].pop("/var/lib/bedplate/kubelet.json"))["pending"] == []
        assert after["files"] == before["files"] and after["services"] == before["services"]
        assert not run(host, policy=IN_SERVICE).changed

    def test_units_newer_than_loaded_are_loaded(self) -> None:
        host = joined_host()
        inner = host.handlers["systemctl"]

        def stale(recorded: RecordedHost, argv: Any, stdin: str | None) -> Any:
            result = inner(recorded, argv, stdin)
            if argv[1] == "daemon-reload":
                recorded.files["/run/reloaded"] = ""
            old = argv[1] == "show" and "/run/reloaded" not in recorded.files
            return type(result)(result.rc, result.out.replace("NeedDaemonReload=no", "NeedDaemonReload=yes")) if old else result

        host.on("systemctl", stale)
        assert [c.what for c in run(host, policy=IN_SERVICE).deferred] == ["unit files of kubelet"]
        assert [c.what for c in run(host, policy=DRAINED).changes] == ["unit files of kubelet"]


class TestOptions:
    PARAMETERS: dict[str, Any] = {  # noqa: RUF012 - read only
        "version": "1.36.3-1.1",
        "cri_tools_version": None,
        "cni_plugins_version": "",
        "packages": [],
        "node_ip": "10.0.0.11",
        "endpoint": {"name": "api.example.test", "address": None, "port": 6443},
        "dropins": {},
        "extra_args": {"v": 2},
        "proxy": {"http": None, "https": None, "no_proxy": []},
        "runtime_endpoint": "unix:///run/containerd/containerd.sock",
        "lock_timeout_seconds": 300,
    }

    def test_defaults(self) -> None:
        desired = build_desired(self.PARAMETERS)
        assert desired.packages["cri-tools"] is None and desired.packages["kubernetes-cni"] is None
        assert desired.endpoint_address is None and "--v=2" in desired.flags()

    def test_e39_a_dual_stack_host_has_one_address_of_each_family(self) -> None:
        desired = build_desired({**self.PARAMETERS, "node_ip": "10.0.0.11, FD00:0::11"})
        assert desired.node_ip == "10.0.0.11,fd00::11"

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ({"node_ip": "[fd00::1]"}, r"node_ip.*\[fd00::1\].*without brackets"),
            ({"node_ip": ""}, "node_ip"),
            ({"node_ip": "10.0.0.1,10.0.0.2"}, "one of each family"),
            ({"endpoint": {"name": "a", "address": "api", "port": 6443}}, "endpoint.address.*'api'"),
            ({"extra_args": {"node-ip": "10.0.0.1"}}, "node-ip"),
            ({"extra_args": {"v": "2 --x"}}, "blanks"),
            ({"dropins": {"30-pool.conf": {"maxPod": 1}}}, "did you mean maxPods"),
        ],
    )
    def test_mistakes_are_named(self, options: dict[str, Any], named: str) -> None:
        with pytest.raises(ValueError, match=named):
            build_desired({**self.PARAMETERS, **options})
