# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import hashlib
from dataclasses import replace

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.kube_state import observe_kube_state
from ansible_collections.bedplate.metal.plugins.module_utils.network import Address
from ansible_collections.bedplate.metal.plugins.module_utils.packages import UNFINISHED
from ansible_collections.bedplate.metal.plugins.module_utils.preflight import Preflight
from ansible_collections.bedplate.metal.plugins.module_utils.preflight_checks import node_ip
from ansible_collections.bedplate.metal.plugins.module_utils.preflight_facts import (
    PreflightDesired,
    parse_default_interfaces,
    public_facts,
)
from ansible_collections.bedplate.metal.plugins.module_utils.record import Record
from fixtures_host import CA, RecordedNetwork, debian, half_configured

from recorded_host import Package, RecordedHost

DESIRED = PreflightDesired(
    distributions=("debian-12",), min_disk_bytes=10 * 1024**3, min_memory_bytes=1_700_000_000, apt_lock_timeout_seconds=120
)
KUBECONFIG = (
    "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: "
    + base64.b64encode(CA.encode()).decode()
    + "\n    server: https://api.example:6443\n"
)


def run(
    host: RecordedHost, desired: PreflightDesired = DESIRED, network: RecordedNetwork | None = None, check: bool = False
) -> Outcome:
    return execute(Preflight(network or RecordedNetwork()), host, desired, Policy(check=check))


def whats(outcome: Outcome) -> list[str]:
    return [p.what for p in outcome.problems]


def member(kind: str = "worker") -> RecordedHost:
    host = debian(**{"/etc/kubernetes/kubelet.conf": KUBECONFIG, "/var/lib/kubelet/config.yaml": ""})
    if kind == "control-plane":
        host.files["/etc/kubernetes/admin.conf"] = KUBECONFIG
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"):
            host.files[f"/etc/kubernetes/manifests/{name}.yaml"] = ""
    return host


def test_a_good_host_has_no_problem_and_no_change() -> None:
    outcome = run(debian())
    assert outcome.problems == [] and not outcome.changed
    facts = public_facts(outcome.observed, node_ip(outcome.observed, DESIRED))
    assert (facts["distribution"], facts["node_ip"], facts["cgroup_version"]) == ("debian-12", "10.0.0.11", 2)
    assert facts["kubelet"]["state"] == "none" and facts["memory_bytes"] == 8_192_000_000


def test_all_problems_come_at_once() -> None:
    host = debian(**{"/etc/os-release": "ID=centos\nVERSION_ID=7\n", "/proc/meminfo": "MemTotal: 500000 kB\n"})
    del host.files["/run/systemd/system/x"]
    host.disk_free = "1000000 10 2000000"
    network = RecordedNetwork(found=[], closed={"https://depot": "depot port 443: Connection refused"})
    outcome = run(host, replace(DESIRED, depot_uris=("https://depot",)), network)
    assert {"distribution", "init system", "memory", "disk /var/lib", "node_ip", "reachability of https://depot"} <= set(
        whats(outcome)
    )
    assert all(p.found and p.wanted and p.next_step for p in outcome.problems)


def test_a_source_that_is_down_stops_a_new_node_and_warns_on_a_working_one() -> None:
    network = RecordedNetwork(closed={"https://depot": "depot port 443: Connection refused"})
    desired = replace(DESIRED, depot_uris=("https://depot",))
    assert [p.severity for p in run(debian(), desired, network).problems] == ["error"]
    assert [p.severity for p in run(member(), desired, network).problems] == ["warning"]


class TestDisk:
    def test_a_new_node_needs_room_a_working_one_only_must_not_be_full(self) -> None:
        fresh, working = debian(), member()
        fresh.disk_free = working.disk_free = f"{2 * 1024**3} 100000 200000"
        assert whats(run(fresh)) == ["disk /var/lib"]
        assert whats(run(working)) == []
        working.disk_free = f"{10 * 1024**2} 100000 200000"
        outcome = run(working)
        assert "disk /" in whats(outcome) and outcome.problems[0].found == "10.0 MiB free"

    def test_file_systems_without_inode_counts_are_fine(self) -> None:
        host = debian()
        host.disk_free = "50000000000 - -"
        assert run(host).problems == []
        host.disk_free = "50000000000 0 0"
        assert run(host).problems == []


class TestPackageManager:
    def locked(self) -> RecordedHost:
        return debian(
            **{"/proc/locks": "1: POSIX  ADVISORY  WRITE 812 08:01:100 0 EOF\n", "/proc/812/cmdline": "apt-get\0upgrade\0"}
        )

    def test_b11_a_lock_held_for_90_seconds_is_waited_for(self) -> None:
        host = self.locked()

        def release(now: float) -> None:
            if now >= 90:
                host.files["/proc/locks"] = ""

        network = RecordedNetwork(while_sleeping=release)
        assert run(host, network=network).problems == []
        assert 90 <= network.now < 100

    def test_b11_a_lock_held_for_good_is_a_bounded_failure_that_names_the_holder(self) -> None:
        host, network = self.locked(), RecordedNetwork()
        host.files["/var/lib/dpkg/lock-frontend"] = ""
        outcome = run(host, network=network)
        assert network.now == 120
        assert whats(outcome) == ["package lock /var/lib/dpkg/lock-frontend"]
        assert "process 812 (apt-get upgrade) for more than 120 s" in outcome.problems[0].found
        assert "/var/lib/dpkg/lock-frontend" in host.files

    def test_b12_a_half_configured_package_is_a_clear_stop(self) -> None:
        host = debian()
        host.packages["libc-bin"] = Package("2.36", "install ok half-configured")
        outcome = run(host)
        assert whats(outcome) == ["package libc-bin"]
        assert "half-configured" in outcome.problems[0].found and "dpkg --configure -a" in outcome.problems[0].next_step
        assert host.packages["libc-bin"].status == "install ok half-configured"

    def test_b12_what_an_interrupted_run_of_ours_left_is_finished(self) -> None:
        host = half_configured()
        assert not run(host, check=True).problems and host.packages["kubelet"].status.endswith("half-configured")
        assert run(host).changed
        assert host.packages["kubelet"].status == "install ok installed" and UNFINISHED not in host.files
        assert not run(host).changed

    def test_an_interrupted_dpkg_is_found(self) -> None:
        assert whats(run(debian(**{"/var/lib/dpkg/updates/0001": ""}))) == ["dpkg"]


class TestClock:
    desired = replace(DESIRED, time_servers=("time.example",), time_service_required=True)

    def test_b15_an_hour_behind_stops_with_the_offset(self) -> None:
        outcome = run(debian(), self.desired, RecordedNetwork(clocks={"time.example": -3600.2}))
        assert whats(outcome) == ["clock"]
        assert outcome.problems[0].found == "3600.2 s behind time.example" and outcome.problems[0].severity == "error"

    def test_b15_no_time_service(self) -> None:
        host = debian()
        host.services.clear()
        outcome = run(host, self.desired, RecordedNetwork(clocks={"time.example": 0.1}))
        assert [(p.what, p.severity) for p in outcome.problems] == [("time service", "warning")], "the role kernel brings one"
        outcome = run(host, replace(self.desired, time_servers=()))
        assert [(p.what, p.severity) for p in outcome.problems] == [("time service", "error")]
        outcome = run(host, self.desired, RecordedNetwork(clocks={"time.example": 3600.0}))
        assert [(p.what, p.severity) for p in outcome.problems] == [("clock", "error"), ("time service", "warning")]
        assert not run(
            host, replace(self.desired, time_service_required=False), RecordedNetwork(clocks={"time.example": 0.1})
        ).problems

    def test_the_median_decides_and_one_wrong_server_does_not(self) -> None:
        desired = replace(self.desired, time_servers=("a", "b", "c"))
        assert run(debian(), desired, RecordedNetwork(clocks={"a": 0.1, "b": 7200.0, "c": 0.2})).problems == []
        assert run(debian(), desired, RecordedNetwork(clocks={"b": 0.0})).problems == []

    def test_no_answer_stops_a_new_node_and_warns_on_a_working_one(self) -> None:
        assert [p.severity for p in run(debian(), self.desired).problems] == ["error"]
        outcome = run(member(), self.desired)
        assert [p.severity for p in outcome.problems] == ["warning"] and "timed out" in outcome.problems[0].found

    def test_without_servers_the_service_must_be_synchronized(self) -> None:
        from ansible_collections.bedplate.metal.plugins.module_utils.host import Result

        host = debian()
        host.on("timedatectl", lambda h, argv, stdin: Result(0, "no\n"))
        assert whats(run(host)) == ["clock"]


class TestNodeIp:
    two = (Address("eth0", "192.168.1.5", 24), Address("eth1", "10.0.0.11", 24))

    def test_e38_the_declared_address_counts_whatever_the_default_route(self) -> None:
        host = debian(**{"/proc/net/route": "Iface\tDestination\neth0\t00000000\t0101A8C0\t3\t0\t0\t0\t00000000\n"})
        desired = replace(DESIRED, node_ip="10.0.0.11")
        outcome = run(host, desired, RecordedNetwork(found=list(self.two)))
        assert outcome.problems == []
        facts = public_facts(outcome.observed, node_ip(outcome.observed, desired))
        assert (facts["node_ip"], facts["default_interfaces"]) == ("10.0.0.11", ["eth0"])

    def test_e38_undeclared_and_ambiguous_lists_the_candidates(self) -> None:
        outcome = run(debian(), network=RecordedNetwork(found=list(self.two)))
        assert outcome.problems[0].found == "2 candidates (192.168.1.5 on eth0, 10.0.0.11 on eth1)"

    def test_e38_node_cidrs_settle_it(self) -> None:
        desired = replace(DESIRED, node_cidrs=("10.0.0.0/24",))
        outcome = run(debian(), desired, RecordedNetwork(found=list(self.two)))
        assert outcome.problems == [] and node_ip(outcome.observed, desired) == "10.0.0.11"

    def test_e38_a_declared_address_must_be_there_and_in_range(self) -> None:
        network = RecordedNetwork(found=list(self.two))
        missing = run(debian(), replace(DESIRED, node_ip="10.0.0.99"), network)
        assert missing.problems[0].wanted == "10.0.0.99 on an interface"
        outside = run(debian(), replace(DESIRED, node_ip="192.168.1.5", node_cidrs=("10.0.0.0/24",)), network)
        assert outside.problems[0].wanted == "an address inside 10.0.0.0/24"

    def test_container_bridges_and_the_endpoint_are_no_candidates(self) -> None:
        found = [*self.two[1:], Address("cni0", "10.244.0.1", 24), Address("eth0", "10.0.0.100", 32)]
        assert run(debian(), replace(DESIRED, endpoint_address="10.0.0.100"), RecordedNetwork(found=found)).problems == []

    def test_e39_ipv6_is_compared_by_value_and_bare(self) -> None:
        network = RecordedNetwork(found=[Address("eth0", "fd00::b", 64)])
        desired = replace(DESIRED, node_ip="FD00:0:0::000B", node_cidrs=("fd00::/64",))
        outcome = run(debian(), desired, network)
        assert outcome.problems == [] and node_ip(outcome.observed, desired) == "fd00::b"
        assert node_ip(run(debian(), network=network).observed, DESIRED) == "fd00::b"

    def test_e39_ipv4_is_unchanged_beside_ipv6(self) -> None:
        network = RecordedNetwork(found=[*self.two[1:], Address("eth1", "fd00::b", 64)])
        outcome = run(debian(), network=network)
        assert outcome.problems == [] and node_ip(outcome.observed, DESIRED) == "10.0.0.11"

    def test_default_routes_of_both_families(self) -> None:
        route = "Iface\nens2\t00000000\t01\t3\t0\t0\t100\t00000000\nens1\t0000000A\t0\t1\t0\t0\t0\t00FFFFFF\n"
        zeros = "0" * 32
        ipv6 = f"{zeros} 00 {zeros} 00 {'fe80'.ljust(32, '0')} 00000050 1 0 3 ens1\n{zeros} 00 {zeros} 00 {zeros} ff 1 0 2 lo\n"
        assert parse_default_interfaces(route, ipv6) == ("ens1", "ens2")


class TestPorts:
    table = "  sl  local_address\n   0: 00000000:192B 00000000:0000 0A\n   1: 0100007F:280A 00000000:0000 01\n"

    def test_a_port_in_use_on_a_fresh_control_plane_host(self) -> None:
        host = debian(**{"/proc/net/tcp": self.table})
        assert whats(run(host, replace(DESIRED, kind="control-plane"))) == ["port 6443"]
        assert run(host).problems == []
        assert run(host, replace(DESIRED, kind="control-plane", kubernetes_ports_free=False)).problems == []

    def test_a_member_uses_its_own_ports(self) -> None:
        host = member("control-plane")
        host.files["/proc/net/tcp"] = self.table
        assert run(host, replace(DESIRED, kind="control-plane")).problems == []


class TestKubeState:
    def test_none_also_with_packages_and_drop_ins_installed(self) -> None:
        host = debian(
            **{
                "/etc/kubernetes/kubelet.conf.d/10-host.conf": "{}",
                "/var/lib/bedplate/kubelet.json": '{"format": 1, "data": {"a": 1}}',
            }
        )
        state = observe_kube_state(host, "worker")
        assert (state.state, state.ours, state.ca_sha256, state.server) == ("none", False, None, None)

    def test_a_member_shows_its_cluster_by_the_ca_fingerprint(self) -> None:
        state = observe_kube_state(member(), "worker")
        assert (state.state, state.server, state.ours) == ("complete", "https://api.example:6443", False)
        assert state.ca_sha256 == hashlib.sha256(b"MIIB").hexdigest()
        assert observe_kube_state(member("control-plane"), "control-plane").state == "complete"

    @pytest.mark.parametrize(
        "trace",
        [
            "/etc/kubernetes/pki/ca.crt",
            "/var/lib/etcd/member/wal",
            "/etc/kubernetes/manifests/etcd.yaml",
            "/var/lib/kubelet/config.yaml",
        ],
    )
    def test_any_trace_alone_is_partial(self, trace: str) -> None:
        assert observe_kube_state(debian(**{trace: "x"}), "control-plane").state == "partial"

    def test_a_killed_join_is_partial_and_ours(self) -> None:
        host = member()
        host.files["/etc/kubernetes/bootstrap-kubelet.conf"] = KUBECONFIG
        assert observe_kube_state(host, "worker").state == "partial"
        del host.files["/etc/kubernetes/bootstrap-kubelet.conf"]
        Record("worker").remembering(phase="joining").save(host)
        state = observe_kube_state(host, "worker")
        assert (state.state, state.ours, state.phases) == ("partial", True, {"worker": "joining"})

    def test_a_killed_init_is_partial_although_everything_is_there(self) -> None:
        host = member("control-plane")
        Record("control_plane").remembering(phase="initialising").save(host)
        assert observe_kube_state(host, "control-plane").state == "partial"
        Record("control_plane").remembering(phase="initialised").save(host)
        assert observe_kube_state(host, "control-plane").state == "complete"

    def test_a_worker_where_a_control_plane_should_be_is_partial(self) -> None:
        assert observe_kube_state(member(), "control-plane").state == "partial"
