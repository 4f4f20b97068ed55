# SPDX-License-Identifier: Apache-2.0
"""Run the gate: one pod per new node, all nodes side by side, bounded by one deadline."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import UNKNOWN, Change
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate import (
    ANNOTATION,
    LABEL,
    NAMESPACE,
    TAINT,
    Check,
    Verdict,
    choose_target,
    dns_targets,
    finished,
    gate_pod,
    has_taint,
    judge,
    needs_gate,
    node_ready,
)
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate_gpus import (
    GpuState,
    failed,
    had,
    hopeless,
    stored,
    with_gpus,
)
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, KubeError, node_path

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
POLL_SECONDS = 1.0
ACCEPTED_WAIT_SECONDS = 45.0
"""How long a node in service may advertise less than it has: a device plugin that is being replaced comes back sooner."""
ATTEMPTS = 5


@dataclass(frozen=True)
class Settings:
    """What to check and for how long. checks: subset of service, pod-network, registry. gpus: of hosts that have any."""

    image: str
    checks: Sequence[str]
    dns_domain: str = "cluster.local"
    timeout_seconds: float = 180
    recheck: bool = False
    gpus: Mapping[str, GpuState] = field(default_factory=dict)


@dataclass
class Gate:
    """One run of the gate over an API. now and sleep are replaced in tests."""

    api: Api
    settings: Settings
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    run_label: str = field(default_factory=lambda: secrets.token_hex(4))
    changes: list[Change] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def run(self, hosts: Sequence[str], *, check: bool) -> None:
        """Check the nodes of hosts that need it and accept those that pass; with nothing to do it costs one list call.

        A node in service whose GPUs are in trouble is looked at too, and loses its acceptance.
        """
        nodes = {node["metadata"]["name"]: node for node in self.api.nodes()}
        waiting = [host for host in hosts if host in nodes and needs_gate(nodes[host], recheck=self.settings.recheck)]
        others = [host for host in hosts if host in nodes and host not in waiting]
        suspect = [host for host in others if self._gpus(host).lapsed(nodes[host])]
        if check:
            self.changes += [_change(host, nodes[host], UNKNOWN) for host in [*waiting, *suspect]]
            return
        self._add_baselines([host for host in others if host not in suspect], nodes)
        waiting = self._without_hopeless(waiting, nodes, new=True)
        suspect = self._without_hopeless(suspect, nodes, new=False)
        if waiting:
            self._check_new(waiting, nodes)
        if suspect:
            self._check_accepted(suspect)

    def _check_new(self, waiting: list[str], nodes: Mapping[str, Any]) -> None:
        """Run one pod on each node and decide on all of them."""
        self._remove_leftovers(waiting)
        deadline = self.now() + self.settings.timeout_seconds
        while True:
            nodes, pods, targets = self._look(waiting, nodes)
            for host in list(waiting):
                pod = pods.get(host)
                if pod is not None and finished(pod) and not failed(self._gpus(host).new(nodes[host])):
                    self._decide(self._judged(host, pod, nodes[host]), nodes[host])
                    waiting.remove(host)
                elif pod is None and node_ready(nodes[host]).passed and targets:
                    self._create(host, targets, deadline - self.now())
            if not waiting:
                return
            if self.now() > deadline:
                break
            self.sleep(POLL_SECONDS)
        for host in waiting:
            self._decide(self._late(nodes[host], pods.get(host), targets), nodes[host])

    def _check_accepted(self, suspect: list[str]) -> None:
        """Wait for nodes in service to advertise their GPUs again; those that do not lose their acceptance."""
        deadline = self.now() + min(ACCEPTED_WAIT_SECONDS, self.settings.timeout_seconds)
        while True:
            nodes = {host: self.api.get(node_path(host)) for host in suspect}
            suspect = [host for host in suspect if self._gpus(host).lapsed(nodes[host])]
            if not suspect:
                return
            if self.now() > deadline:
                break
            self.sleep(POLL_SECONDS)
        for host in suspect:
            self._decide(Verdict(host, self._gpus(host).accepted(nodes[host])), nodes[host])

    def _without_hopeless(self, hosts: Sequence[str], nodes: Mapping[str, Any], *, new: bool) -> list[str]:
        """Decide at once on nodes whose host's probe has found its GPUs out of service; return the others."""
        rest = []
        for host in hosts:
            gpus = self._gpus(host)
            found = hopeless(gpus.new(nodes[host]) if new else gpus.accepted(nodes[host]))
            if found:
                self._decide(Verdict(host, found), nodes[host])
            else:
                rest.append(host)
        return rest

    def _add_baselines(self, hosts: Sequence[str], nodes: Mapping[str, Any]) -> None:
        """Keep the GPU checks of nodes that were accepted before they had GPUs and have them now."""
        for host in hosts:
            checks = self._gpus(host).accepted(nodes[host])
            fresh = any(not had(nodes[host], check.name) for check in checks)
            if stored(nodes[host]).get("passed") and fresh and not failed(checks):
                self.api.patch(node_path(host), {"metadata": {"annotations": {ANNOTATION: with_gpus(nodes[host], checks)}}})
                self.changes.append(Change(f"node {host} GPUs", "not checked", "accepted"))

    def _gpus(self, host: str) -> GpuState:
        return self.settings.gpus.get(host, GpuState())

    def _judged(self, host: str, pod: Mapping[str, Any] | None, node: Mapping[str, Any], why_none: str = "") -> Verdict:
        """Return the verdict on a new node: its pod's and that on its GPUs."""
        verdict = judge(host, pod, self.settings.checks, why_none=why_none)
        return Verdict(host, [*verdict.checks, *self._gpus(host).new(node)])

    def _look(
        self, waiting: Sequence[str], known: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], list[tuple[str, str]]]:
        """Return Node objects, this run's pods by node and the DNS pods that are Ready."""
        nodes = dict(known)
        fresh = self.api.nodes() if len(waiting) > 8 else [self.api.get(node_path(host)) for host in waiting]
        nodes.update({node["metadata"]["name"]: node for node in fresh})
        listed = self.api.get(PODS, labelSelector=f"bedplate.dev/run={self.run_label}")["items"]
        pods = {pod["spec"]["nodeName"]: pod for pod in listed}
        dns = self.api.get(PODS, labelSelector="k8s-app=kube-dns")["items"] if len(pods) < len(waiting) else []
        return nodes, pods, dns_targets(dns)

    def _create(self, host: str, targets: Sequence[tuple[str, str]], left_seconds: float) -> None:
        pod = gate_pod(
            host,
            self.settings.image,
            self.settings.checks,
            target=choose_target(host, targets),
            dns_domain=self.settings.dns_domain,
            run=self.run_label,
            deadline_seconds=max(int(left_seconds) + 5, 5),
        )
        try:
            self.api.create(PODS, pod)
        except KubeError as error:
            if error.status != 409:  # a leftover of that name is still going away: the next look creates it
                raise

    def _late(self, node: Mapping[str, Any], pod: Mapping[str, Any] | None, targets: Sequence[tuple[str, str]]) -> Verdict:
        """Return the verdict on a node that the deadline caught."""
        host = node["metadata"]["name"]
        ready = node_ready(node)
        if not ready.passed:
            return Verdict(host, [ready])
        if pod is None and not targets:
            return Verdict(host, [ready, Check("dns", False, found="none")])
        return self._judged(host, pod, node, why_none="no pod could be made in time")

    def _decide(self, verdict: Verdict, node: Mapping[str, Any]) -> None:
        """Store the verdict on the node; take the taint away when it passed, set it when it did not.

        The pod goes first, so a killed run repeats.
        """
        self.api.delete(f"{PODS}/{LABEL}-{verdict.node}", gracePeriodSeconds="0")
        text = verdict.annotation(datetime.now(UTC))
        for _attempt in range(ATTEMPTS):
            patch: dict[str, Any] = {
                "metadata": {
                    "annotations": {ANNOTATION: text},
                    "resourceVersion": node["metadata"].get("resourceVersion"),
                }
            }
            taints = (node.get("spec") or {}).get("taints") or []
            if verdict.passed and has_taint(node):
                patch["spec"] = {"taints": [t for t in taints if t["key"] != TAINT]}
            elif verdict.taints and not has_taint(node):
                patch["spec"] = {"taints": [*taints, {"key": TAINT, "effect": "NoSchedule"}]}
            try:
                self.api.patch(node_path(verdict.node), patch)
                break
            except KubeError as error:
                if error.status != 409:
                    raise
                node = self.api.get(node_path(verdict.node))
        else:
            raise BedplateError(f"node {verdict.node}: found it changing {ATTEMPTS} times while patching it. Next: repeat")
        self.verdicts.append(verdict)
        self.changes.append(_change(verdict.node, node, "accepted" if verdict.passed else "rejected"))

    def _remove_leftovers(self, waiting: Sequence[str]) -> None:
        """Remove pods of an interrupted gate on the nodes to check."""
        for pod in self.api.get(PODS, labelSelector=f"app.kubernetes.io/name={LABEL}")["items"]:
            if pod["spec"].get("nodeName") in waiting:
                self.api.delete(f"{PODS}/{pod['metadata']['name']}", gracePeriodSeconds="0")


def _change(host: str, node: Mapping[str, Any], after: str) -> Change:
    return Change(f"node {host} acceptance", "unaccepted" if has_taint(node) else "not checked", after)
