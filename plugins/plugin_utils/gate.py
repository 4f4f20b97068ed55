# SPDX-License-Identifier: Apache-2.0
"""The gate of new nodes: which nodes need it, the pod that checks one, and the verdict on it. Pure; see gate_run.py."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

TAINT = "bedplate.dev/unaccepted"
ANNOTATION = "bedplate.dev/gate"
"""JSON, format 1: time, passed, checks (each with passed, seconds, found) and, of a node that failed, the message."""
FORMAT = 1
NAMESPACE = "kube-system"
LABEL = "bedplate-gate"
CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
CHECKS = ("service", "pod-network", "registry")
GPU_HEALTH, GPU_RESOURCES = "gpu-health", "gpu-resources"

_WANTED = {
    "ready": "condition Ready of the node to be True",
    "dns": "a cluster DNS pod that is Ready",
    "service": "a connection to the API through cluster DNS and its Service",
    "pod-network": "a connection to a pod over the pod network",
    "registry": "the image pulled from the registry",
    GPU_HEALTH: "every GPU in service",
    GPU_RESOURCES: "all of them allocatable",
}
_NEXT = {
    "ready": "kubectl describe node, and the journal of kubelet and the pod network's pod on the host",
    "dns": "kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide, and kubectl describe of one",
    "service": "look at kube-proxy and cluster DNS on the node (kubectl -n kube-system get pods -o wide)",
    "pod-network": "look at the pod network's pod on the node and the routes between the nodes",
    GPU_HEALTH: "drain the node and look at its GPUs (nvidia-smi, and dmesg for Xid); other nodes are not affected",
    GPU_RESOURCES: "kubectl describe node; the device plugin's pod and its log on the node",
    "registry": "crictl pull the image on the host; look at its mirrors under /etc/containerd/certs.d",
}


@dataclass(frozen=True)
class Check:
    """Outcome of one check. seconds: how long it took when it passed. found: what was seen when it did not.

    mig: MIG instances of each GPU by profile that it was passed with.
    """

    name: str
    passed: bool
    seconds: float = 0.0
    found: str = ""
    mig: Mapping[str, int] = field(default_factory=dict)

    def stored(self) -> dict[str, Any]:
        """Return the outcome as the annotation keeps it."""
        data: dict[str, Any] = {"passed": self.passed, "seconds": round(self.seconds, 1)}
        if not self.passed:
            return {**data, "found": self.found}
        return {**data, "mig": dict(self.mig)} if self.mig else data

    def sentence(self, node: str) -> str:
        """Return the failure as an operator reads it."""
        return f"node {node} check {self.name}: found {self.found}; wanted {_WANTED[self.name]}. Next: {_NEXT[self.name]}"


@dataclass(frozen=True)
class Verdict:
    """What the gate decided on a node."""

    node: str
    checks: Sequence[Check] = field(default_factory=tuple)

    @property
    def passed(self) -> bool:
        """True when every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def taints(self) -> bool:
        """True when an accepted node must take no more work: its GPUs failed, which nothing but the node itself can mend."""
        return any(check.name in (GPU_HEALTH, GPU_RESOURCES) and not check.passed for check in self.checks)

    @property
    def message(self) -> str:
        """Sentences of what failed, one line each."""
        return "\n".join(check.sentence(self.node) for check in self.checks if not check.passed)

    def annotation(self, time: datetime) -> str:
        """Return the annotation's text."""
        data: dict[str, Any] = {
            "format": FORMAT,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "passed": self.passed,
            "checks": {check.name: check.stored() for check in self.checks},
        }
        if not self.passed:
            data["message"] = self.message
        return json.dumps(data, sort_keys=True)


def has_taint(node: Mapping[str, Any]) -> bool:
    """Tell whether a Node object carries the gate's taint."""
    return any(taint["key"] == TAINT for taint in (node.get("spec") or {}).get("taints") or [])


def needs_gate(node: Mapping[str, Any], *, recheck: bool = False) -> bool:
    """Tell whether a Node object is to be checked.

    Tainted nodes are. A control-plane node may register without the taint (cluster DNS must run somewhere before the first gate),
    so it is checked as long as no passing result is stored on it.
    """
    if recheck or has_taint(node):
        return True
    metadata = node["metadata"]
    if CONTROL_PLANE_LABEL not in (metadata.get("labels") or {}):
        return False
    try:
        return not json.loads((metadata.get("annotations") or {}).get(ANNOTATION, "{}")).get("passed", False)
    except ValueError:
        return True


def node_ready(node: Mapping[str, Any]) -> Check:
    """Return the check of a Node object's Ready condition."""
    for condition in (node.get("status") or {}).get("conditions") or []:
        if condition["type"] == "Ready":
            found = f"{condition['status']} ({condition.get('reason', '')}: {condition.get('message', '')})"
            return Check("ready", condition["status"] == "True", found=found)
    return Check("ready", False, found="no condition Ready yet")


def dns_targets(pods: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (node, address) of the cluster DNS pods that are Ready."""
    targets = []
    for pod in pods:
        status = pod.get("status") or {}
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])
        if ready and status.get("podIP") and not pod["metadata"].get("deletionTimestamp"):
            targets.append((str(pod["spec"].get("nodeName")), str(status["podIP"])))
    return sorted(targets)


def choose_target(node: str, targets: Sequence[tuple[str, str]]) -> str:
    """Return the address of a DNS pod on another node where there is one, else of any."""
    return next((address for host, address in targets if host != node), targets[0][1])


def gate_pod(
    node: str, image: str, checks: Sequence[str], *, target: str, dns_domain: str, run: str, deadline_seconds: int
) -> dict[str, Any]:
    """Return the Pod that checks a node; placed by name, it tolerates every taint and obeys the restricted policy.

    target: address of a pod that listens on TCP 53. run: label value that tells this run's pods from leftovers.
    """
    bracketed = f"[{target}]" if ":" in target else target
    destinations = {"service": f"kubernetes.default.svc.{dns_domain}:443", "pod-network": f"{bracketed}:53"}
    commands = {name: ["connect", "--timeout=5s", address] for name, address in destinations.items() if name in checks}
    commands = commands or {"registry": ["help"]}
    containers = [
        {
            "name": name,
            "image": image,
            "args": arguments,
            "imagePullPolicy": "Always" if "registry" in checks else "IfNotPresent",
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "resources": {"requests": {"cpu": "1m", "memory": "8Mi"}, "limits": {"memory": "64Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        for name, arguments in commands.items()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{LABEL}-{node}",
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": LABEL, "app.kubernetes.io/managed-by": "bedplate", "bedplate.dev/run": run},
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": "OnFailure",
            "activeDeadlineSeconds": deadline_seconds,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": containers,
        },
    }


def finished(pod: Mapping[str, Any]) -> bool:
    """Tell whether every check of a gate pod has passed."""
    return str((pod.get("status") or {}).get("phase")) == "Succeeded"


def judge(node: str, pod: Mapping[str, Any] | None, checks: Sequence[str], *, why_none: str = "") -> Verdict:
    """Return the verdict a gate pod's status allows (of a pod that has not finished: what is missing, as failures)."""
    if pod is None:
        return Verdict(node, [Check("ready", True), *(Check(name, False, found=why_none) for name in checks)])
    statuses = {s["name"]: s for s in (pod.get("status") or {}).get("containerStatuses") or []}
    names = [c["name"] for c in pod["spec"]["containers"]]
    pull_problem = next((problem for s in statuses.values() if (problem := _pull_problem(s))), None)
    results = [Check("ready", True)]
    if "registry" in checks:
        started = any(_started(s) for s in statuses.values())
        found = pull_problem or f"no container started ({_pod_reason(pod)})"
        results.append(Check("registry", started and pull_problem is None, found=found))
    for name in names:
        if name != "registry":
            results.append(_container_check(name, statuses.get(name), pod))
    return Verdict(node, results)


def _container_check(name: str, status: Mapping[str, Any] | None, pod: Mapping[str, Any]) -> Check:
    if status is None:
        return Check(name, False, found=f"no status ({_pod_reason(pod)})")
    state = status.get("state") or {}
    ended = state.get("terminated")
    if ended and ended.get("exitCode") == 0:
        return Check(name, True, _seconds(ended))
    ended = ended or (status.get("lastState") or {}).get("terminated")
    if ended:
        message = str(ended.get("message") or ended.get("reason") or "no output").strip()
        return Check(
            name, False, found=f"{message} (exit code {ended.get('exitCode')}, {status.get('restartCount', 0)} restarts)"
        )
    waiting = state.get("waiting") or {}
    return Check(name, False, found=f"{waiting.get('reason') or 'running'} {waiting.get('message') or ''}".strip())


def _started(status: Mapping[str, Any]) -> bool:
    state, last = status.get("state") or {}, status.get("lastState") or {}
    return bool(state.get("running") or state.get("terminated") or last.get("terminated"))


def _pull_problem(status: Mapping[str, Any]) -> str | None:
    waiting = (status.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName"):
        return f"{waiting['reason']}: {waiting.get('message') or status.get('image')}"
    return None


def _pod_reason(pod: Mapping[str, Any]) -> str:
    status = pod.get("status") or {}
    return " ".join(str(part) for part in (status.get("phase"), status.get("reason"), status.get("message")) if part)


def _seconds(ended: Mapping[str, Any]) -> float:
    try:
        start, end = (datetime.fromisoformat(str(ended[key]).replace("Z", "+00:00")) for key in ("startedAt", "finishedAt"))
    except (KeyError, ValueError):
        return 0.0
    return max(0.0, (end - start).total_seconds())
