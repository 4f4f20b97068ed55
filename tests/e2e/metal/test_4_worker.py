# SPDX-License-Identifier: Apache-2.0
"""A machine joins the lab's cluster by the same site.yml: cgroup v2 and a kernel of its own (B10, D33, E38, E42), and policies
that hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from kubernetes import client

from ..cluster import AGNHOST, NAMESPACE, Cluster, gate_proof, taints
from ..hosts import lab, sh
from ..site import Run, Site
from ..wait import wait_until
from .joining import POOL, default_route, prepare, restore, site_with
from .machines import Metal, machine

NAME = "m1"
ADDRESS = machine(NAME).address
ALLOWED = ("--limit", NAME, "--extra-vars", "bedplate_allow=reboot")
CONTAINERD = "systemctl show --property MainPID --value containerd"
LIMIT = "Max locked memory"


def boots() -> list[str]:
    """Every boot of the machine so far, by what was written as it came up."""
    return [line for line in sh(NAME, "last -x reboot").splitlines() if line.startswith("reboot")]


def memlock(limits: str) -> str:
    """Return the limit of locked memory out of a process's limits."""
    return next(line.removeprefix(LIMIT).split()[0] for line in limits.splitlines() if line.startswith(LIMIT))


def runtime(host: str) -> tuple[str, str]:
    """A host's containerd: its process, and how much memory it may lock."""
    process = sh(host, CONTAINERD).strip()
    return process, memlock(sh(host, f"cat /proc/{process}/limits"))


def kubelet(name: str) -> dict[str, Any]:
    """The configuration a node's kubelet runs with."""
    answer = lab("kubectl", "get", "--raw", f"/api/v1/nodes/{name}/proxy/configz").stdout
    return dict(json.loads(answer)["kubeletconfig"])


@dataclass(frozen=True)
class Joined:
    """The run that made the machine a node, how often it was rebooted for that, and the other nodes' containerd before."""

    run: Run
    reboots: int
    others: dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def bigger(site: Site, metal: Metal, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """The lab's site with the machine."""
    return site_with(NAME, site, metal, tmp_path_factory.mktemp("worker"))


@pytest.fixture(scope="module")
def joined(bigger: Site, cluster: Cluster, workers: list[str]) -> Iterator[Joined]:
    """The machine as a node; it has its own default route back afterwards."""
    prepare(NAME)
    others = {name: runtime(name) for name in workers}
    before = len(boots())
    try:
        run = bigger.run(*ALLOWED).ok()
        yield Joined(run, len(boots()) - before, others)
    finally:
        leave(cluster)
        restore(NAME)


def leave(cluster: Cluster) -> None:
    """Take the machine out of the cluster as an operator does; nothing to do where it is not in it."""
    if cluster.node(NAME) is None:
        return
    lab("kubectl", "drain", NAME, "--ignore-daemonsets", "--force", "--timeout=60s")
    sh(NAME, "systemctl disable --now kubelet")
    lab("kubectl", "delete", "node", NAME)


def test_the_same_playbook_makes_it_a_ready_and_accepted_node(joined: Joined, cluster: Cluster, hosts: dict[str, Any]) -> None:
    cluster.wait_ready(NAME)
    node = cluster.nodes()[NAME]
    assert taints(node) == {("pool.bedplate.dev/name", POOL, "NoSchedule")}
    assert gate_proof(node)["passed"]
    assert node.status.node_info.kernel_version == sh(NAME, "uname -r").strip()
    assert {name: joined.run.of(name)["changed"] for name in hosts} == dict.fromkeys(hosts, 0)


def test_it_took_one_reboot_at_most(joined: Joined) -> None:
    assert joined.reboots <= 1
    assert "iommu=pt" in sh(NAME, "cat /proc/cmdline").split()


def test_e38_the_declared_address_counts_not_the_default_route(
    joined: Joined, cluster: Cluster, control_plane: str, workers: list[str]
) -> None:
    assert default_route(NAME) != ADDRESS
    node = cluster.nodes()[NAME]
    assert [a.address for a in node.status.addresses if a.type == "InternalIP"] == [ADDRESS]
    assert node.metadata.annotations["flannel.alpha.coreos.com/public-ip"] == ADDRESS
    for host in (control_plane, *workers):
        assert f"via {ADDRESS} " in sh(host, f"ip route show {node.spec.pod_cidr}"), host


def test_d33_a_file_without_a_version_is_migrated_and_runc_has_systemd_cgroups(joined: Joined, pods: dict[str, Any]) -> None:
    written = sh(NAME, "cat /etc/containerd/config.toml")
    assert "# as its owner left it" in written and "version = 2" in written
    assert "SystemdCgroup = true" in sh(NAME, "containerd config dump")
    assert sh(NAME, "stat --file-system --format=%T /sys/fs/cgroup").strip() == "cgroup2fs"
    uid = pods["server"].metadata.uid.replace("-", "_")
    assert sh(NAME, f"ls -d /sys/fs/cgroup/kubepods.slice/*/*pod{uid}.slice/cri-containerd-*.scope").split()


@pytest.fixture(scope="module")
def pods(joined: Joined, cluster: Cluster, namespace: None, workers: list[str]) -> dict[str, Any]:
    """A server on the machine, clients beside it and on another node, and a pod that sees what kubelet hands on of DNS."""
    where = {"server": NAME, "neighbour": NAME, "friend": workers[1], "stranger": workers[1]}
    for name, node in where.items():
        cluster.start(name, ["netexec", "--http-port=8080"] if name == "server" else ["pause"], node, {"role": name})
    tolerating = {"nodeName": NAME, "dnsPolicy": "Default"}
    cluster.create_pod("resolver", {"name": "cat", "image": AGNHOST, "command": ["cat", "/etc/resolv.conf"]}, tolerating)
    return {name: cluster.running(name) for name in where}


def test_b10_pods_get_the_name_server_behind_the_stub(pods: dict[str, Any], cluster: Cluster, workers: list[str]) -> None:
    assert "nameserver 127.0.0.53" in sh(NAME, "cat /etc/resolv.conf")
    assert kubelet(NAME)["resolvConf"] == "/run/systemd/resolve/resolv.conf"
    assert kubelet(workers[1])["resolvConf"] == "/etc/resolv.conf"
    succeeded, log = cluster.outcome("resolver")
    assert succeeded and "nameserver 10.87.0.1" in log and "127.0.0.53" not in log


def test_e42_locked_memory_is_raised_here_and_as_before_elsewhere(
    joined: Joined, pods: dict[str, Any], workers: list[str]
) -> None:
    assert runtime(NAME)[1] == "unlimited"
    assert {name: runtime(name) for name in workers} == joined.others
    limits = {name: lab("kubectl", "-n", NAMESPACE, "exec", name, "--", "cat", "/proc/self/limits").stdout for name in pods}
    assert memlock(limits["server"]) == "unlimited"
    assert memlock(limits["stranger"]) == joined.others[workers[1]][1] != "unlimited"


@pytest.fixture(scope="module")
def tried(pods: dict[str, Any]) -> Callable[[str], str]:
    """Have a client connect to the server: empty when it could, else the reason."""
    target = f"{pods['server'].status.pod_ip}:8080"

    def connect(name: str) -> str:
        argv = ("kubectl", "-n", NAMESPACE, "exec", name, "--", "/agnhost", "connect", "--timeout=3s", target)
        answer = lab(*argv, check=False)
        return "" if answer.returncode == 0 else answer.stderr

    return connect


def test_a_default_deny_policy_blocks_and_an_allowed_peer_passes(tried: Callable[[str], str], cluster: Cluster) -> None:
    """A server is protected by its own node: that one's kernel must have nftables' queue, which those of the containers lack."""
    networking = client.NetworkingV1Api(cluster.core.api_client)
    clients = ("friend", "stranger", "neighbour")
    assert {name: tried(name) for name in clients} == dict.fromkeys(clients, "")
    deny = {"podSelector": {}, "policyTypes": ["Ingress"]}
    networking.create_namespaced_network_policy(NAMESPACE, {"metadata": {"name": "default-deny"}, "spec": deny})
    wait_until(lambda: all("TIMEOUT" in tried(name) for name in clients), "the policy to keep everybody out", 60)
    peer = {"podSelector": {"matchLabels": {"role": "friend"}}}
    allow = {"podSelector": {"matchLabels": {"role": "server"}}, "ingress": [{"from": [peer]}]}
    networking.create_namespaced_network_policy(NAMESPACE, {"metadata": {"name": "friend"}, "spec": allow})
    wait_until(lambda: tried("friend") == "", "the allowed peer to pass", 60)
    assert all("TIMEOUT" in tried(name) for name in clients if name != "friend")


def test_a_second_run_changes_nothing_and_reboots_nothing(joined: Joined, pods: dict[str, Any], bigger: Site) -> None:
    before = boots()
    run = bigger.run(*ALLOWED).ok()
    assert run.changes() == {} and not run.of(NAME)["deferred"], run.output[-4000:]
    assert boots() == before


def test_without_it_the_cluster_is_as_before(
    joined: Joined, cluster: Cluster, site: Site, control_plane: str, hosts: dict[str, Any]
) -> None:
    network = cluster.nodes()[NAME].spec.pod_cidr
    leave(cluster)
    assert set(cluster.nodes()) == set(hosts)
    wait_until(lambda: not sh(control_plane, f"ip route show {network}"), "the route to its pods to go", 60)
    assert site.run("--limit", control_plane).ok().changes() == {}
