# SPDX-License-Identifier: Apache-2.0
"""Bad input and bad luck on one fresh worker, in the order an unlucky operator meets them; it ends Ready all the same."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.watch import Watch

from bedplate_tools.lab_site import add_hosts, remove_hosts

from .cluster import Cluster, gate_proof, taints
from .hosts import sh
from .site import Run, Site
from .wait import wait_until

NAME = "e2"
NOBODY = "10.87.0.254"
"""An address of the lab's network that no host has."""
TOKEN = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")
PRIVATE_KEY = re.compile(r"BEGIN [A-Z ]*PRIVATE KEY")
REGISTRY_PORT = 5000


@pytest.fixture(scope="module")
def variables(site: Site, cluster: Cluster) -> Iterator[dict[str, Any]]:
    """The inventory variables of a fresh host."""
    yield add_hosts(NAME, gpus="h100-80gb")[NAME]
    if cluster.node(NAME) is not None:
        cluster.core.delete_node(NAME)
    remove_hosts(NAME)


@pytest.fixture(scope="module")
def bigger(site: Site, scratch: Path, variables: dict[str, Any]) -> Site:
    """The site with the fresh host."""
    return site.adding(scratch, {NAME: variables})


def refused(run: Run, *words: str) -> Run:
    """Assert that a run failed and that its output has all the words."""
    assert run.code != 0, run.output[-4000:]
    message = run.message()
    assert [word for word in words if word not in message] == [], run.output[-6000:]
    assert "Traceback (most recent call last)" not in run.output
    return run


def test_an_unreachable_host_is_named_and_the_others_carry_on(site: Site, scratch: Path, workers: list[str]) -> None:
    gone = {"ansible_host": NOBODY, "node_ip": NOBODY, "rack": "r1", "topology_block": "b1"}
    run = site.adding(scratch, {"e9": gone}).run("--limit", f"e9,{workers[0]}", "--timeout", "5")
    refused(run, "e9", NOBODY, "Next")
    assert run.of(workers[0])["failed"] == 0
    assert run.of(workers[0])["executed"] >= 5
    assert run.of(workers[0])["changed"] == 0


@pytest.mark.parametrize("password", [[], ["--extra-vars", "ansible_become_password=wrong"]], ids=["none", "wrong"])
def test_sudo_without_the_right_password_is_one_clear_message(bigger: Site, password: list[str]) -> None:
    sh(NAME, "id oncall >/dev/null 2>&1 || useradd --create-home --shell /bin/sh oncall")
    sh(NAME, "echo 'oncall ALL=(ALL) ALL' >/etc/sudoers.d/oncall && echo oncall:right | chpasswd")
    sh(NAME, "cp /etc/ssh/authorized_keys/bedplate /etc/ssh/authorized_keys/oncall")
    run = refused(
        bigger.run("--limit", NAME, "--extra-vars", "ansible_user=oncall", *password),
        NAME,
        "oncall",
        "password",
        "--ask-become-pass",
    )
    assert run.of(NAME)["changed"] == 0


def test_a_foreign_host_is_stopped_and_never_reset(bigger: Site) -> None:
    ca = sh(NAME, "openssl version >/dev/null 2>&1 && echo yes", check=False).strip()
    make = (
        "mkdir -p /etc/kubernetes/pki && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout /dev/null "
        "-out /etc/kubernetes/pki/ca.crt 2>/dev/null"
    )
    assert ca == "yes", "the host image has openssl"
    sh(NAME, make)
    kubeconfig = (
        "apiVersion: v1\\nkind: Config\\nclusters:\\n- name: other\\n  cluster:\\n    server: https://api.other.test:6443\\n"
        "    certificate-authority-data: %s\\n"
    )
    sh(NAME, f"printf '{kubeconfig}' $(base64 -w0 /etc/kubernetes/pki/ca.crt) >/etc/kubernetes/kubelet.conf")
    try:
        run = refused(bigger.run("--limit", NAME), NAME, "api.other.test")
        assert run.of(NAME)["changed"] == 0
        assert "api.other.test" in sh(NAME, "cat /etc/kubernetes/kubelet.conf"), "never reset by itself"
    finally:
        sh(NAME, "rm -r /etc/kubernetes")


def test_a_depot_that_is_down_is_named_before_anything_changes(bigger: Site) -> None:
    sh(NAME, f"cp /etc/hosts /root/hosts && sed -i 's/^[^ ]* depot/{NOBODY} depot/' /etc/hosts")
    try:
        run = refused(bigger.run("--limit", NAME), NAME, "depot.lab.bedplate.test", "Next")
        assert run.of(NAME)["changed"] == 0
    finally:
        sh(NAME, "cat /root/hosts >/etc/hosts")


def test_a_version_the_depot_lacks_is_refused_with_what_it_offers(bigger: Site) -> None:
    run = bigger.run("--limit", NAME, "--extra-vars", "kubelet_version=1.36.99-1.1")
    refused(run, NAME, "1.36.99-1.1", "1.36.3-1.1", "Next")
    assert sh(NAME, "dpkg --audit").strip() == "", "nothing is half installed"
    assert "kubelet" not in sh(NAME, "dpkg-query -f '${Package}\\n' -W").split()


def test_a_failing_join_leaks_no_token_at_any_verbosity(bigger: Site, cluster: Cluster) -> None:
    """Something sits on kubelet's port, so kubeadm's preflight refuses; meanwhile the tokens made for the run are watched."""
    seen: set[str] = set()

    def watch() -> None:
        tokens: dict[str, Any] = {
            "namespace": "kube-system",
            "field_selector": "type=bootstrap.kubernetes.io/token",
            "timeout_seconds": 600,
        }
        for event in Watch().stream(cluster.core.list_namespaced_secret, **tokens):
            seen.add(event["object"].metadata.name.removeprefix("bootstrap-token-"))

    listener = "import socket,time; s=socket.socket(); s.bind(('0.0.0.0', 10250)); s.listen(); time.sleep(600)"
    sh(NAME, f'systemd-run --unit on-kubelets-port python3 -c "{listener}"')
    threading.Thread(target=watch, daemon=True).start()
    try:
        run = bigger.run("--limit", NAME, "-vvv", "--diff", "--extra-vars", '{"preflight_kubernetes_ports_free": false}')
    finally:
        sh(NAME, "systemctl stop on-kubelets-port")
    refused(run, NAME, "10250")
    wait_until(lambda: seen, "the token of the join to be seen", 30)
    shown = run.output + str(run.report) + sh(NAME, "journalctl --no-pager -o cat -n 2000")
    assert TOKEN.findall(shown) == []
    assert [token for token in seen if re.search(rf"\b{token}\.", shown)] == []
    assert PRIVATE_KEY.findall(shown) == []
    left = sh(NAME, "ls -A /run/bedplate 2>/dev/null", check=False).split()
    assert [name for name in left if not name.endswith(".lock")] == [], "no configuration with a token is left"


@pytest.mark.parametrize("task", ["container_runtime", "worker"])
def test_a_run_is_killed(bigger: Site, task: str) -> None:
    """Not a claim of its own: the next test says what must hold after both kills."""
    if task == "container_runtime":
        sh(NAME, "rm -f /etc/containerd/conf.d/*")
    output = bigger.run_killed_at(rf"TASK \[bedplate\.metal\.{task} : (?!Validating)", "--limit", NAME)
    assert "RUN REPORT" not in output


def test_the_same_command_repeated_ends_ready_and_then_changes_nothing(bigger: Site, cluster: Cluster) -> None:
    bigger.run("--limit", NAME).ok()
    cluster.wait_ready(NAME)
    assert "bedplate.dev/unaccepted" not in {key for key, _value, _effect in taints(cluster.nodes()[NAME])}
    again = bigger.run("--limit", NAME).ok()
    assert again.of(NAME)["changed"] == 0, again.output[-4000:]
    tokens = [s for s in cluster.core.list_namespaced_secret("kube-system").items if s.type == "bootstrap.kubernetes.io/token"]
    assert len(tokens) <= 1, "at most the killed run's token waits for its end"


def test_a_registry_that_is_down_keeps_the_node_out_until_it_is_back(bigger: Site, cluster: Cluster) -> None:
    rule = f"OUTPUT -p tcp --dport {REGISTRY_PORT} -j REJECT"
    cluster.core.patch_node(
        NAME, {"spec": {"taints": [*_taints(cluster), {"key": "bedplate.dev/unaccepted", "effect": "NoSchedule"}]}}
    )
    sh(NAME, f"iptables -I {rule}")
    try:
        refused(bigger.run("--limit", NAME, "--extra-vars", "gate_timeout_seconds=25"), NAME, "registry")
        assert ("bedplate.dev/unaccepted", "", "NoSchedule") in taints(cluster.nodes()[NAME])
    finally:
        sh(NAME, f"iptables -D {rule}")
    bigger.run("--limit", NAME).ok()
    wait_until(
        lambda: "bedplate.dev/unaccepted" not in {key for key, _v, _e in taints(cluster.nodes()[NAME])}, "the taint to go", 30
    )
    assert gate_proof(cluster.nodes()[NAME])["format"] == 1


def _taints(cluster: Cluster) -> list[dict[str, str]]:
    return [{"key": key, "value": value, "effect": effect} for key, value, effect in taints(cluster.nodes()[NAME])]
