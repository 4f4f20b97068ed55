# SPDX-License-Identifier: Apache-2.0
"""The lab's cluster through its API, as its administrator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from .hosts import lab, sh
from .wait import wait_until

NAMESPACE = "bedplate-e2e"
AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"
POD_SECONDS = 120


@dataclass(frozen=True)
class Cluster:
    """API clients of one cluster."""

    core: Any
    apps: Any
    discovery: Any
    custom: Any

    @classmethod
    def of(cls, control_plane: str, address: str) -> Cluster:
        """Connect with the administrator's kubeconfig of a control-plane host."""
        kubeconfig = yaml.safe_load(sh(control_plane, "cat /etc/kubernetes/admin.conf"))
        kubeconfig["clusters"][0]["cluster"]["server"] = f"https://{address}:6443"
        api = config.new_client_from_config_dict(kubeconfig)
        kinds = (client.CoreV1Api, client.AppsV1Api, client.DiscoveryV1Api, client.CustomObjectsApi)
        return cls(*(kind(api) for kind in kinds))

    def nodes(self) -> dict[str, Any]:
        """Every Node by name."""
        return {node.metadata.name: node for node in self.core.list_node().items}

    def node(self, name: str) -> Any | None:
        """One Node, None when there is none."""
        return self.nodes().get(name)

    def wait_ready(self, name: str, seconds: float = 180) -> None:
        """Wait for a node to be Ready."""
        wait_until(lambda: ready(self.node(name)), f"node {name} to be Ready", seconds)

    def start(self, name: str, args: list[str], node: str | None = None, labels: dict[str, str] | None = None) -> None:
        """Start an agnhost pod that tolerates every taint, on a node if one is named."""
        container = {"name": "agnhost", "image": AGNHOST, "args": args}
        spec: dict[str, Any] = {"tolerations": [{"operator": "Exists"}]}
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        self.create_pod(name, container, spec, labels)

    def create_pod(
        self, name: str, container: dict[str, Any], spec: dict[str, Any], labels: dict[str, str] | None = None
    ) -> None:
        """Create a pod of one container that is not started again; ``spec`` is what else its spec says."""
        own = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
        pod = {"metadata": {"name": name, "labels": {"app": name, **(labels or {})}}, "spec": {**own, **spec}}
        self.core.create_namespaced_pod(NAMESPACE, pod)

    def unschedulable(self, name: str, words: str) -> None:
        """Wait for the scheduler to refuse a pod for a reason that has these words."""

        def refused() -> bool:
            conditions = self.pod(name).status.conditions or []
            return any(c.type == "PodScheduled" and c.status == "False" and words in (c.message or "") for c in conditions)

        wait_until(refused, f"the scheduler to refuse pod {name}: {words}", 60)

    def pod(self, name: str) -> Any:
        """A pod of the tests' namespace."""
        return self.core.read_namespaced_pod(name, NAMESPACE)

    def running(self, name: str) -> Any:
        """Wait for a pod to run, and return it."""

        def runs() -> Any | None:
            pod = self.pod(name)
            return pod if pod.status.phase == "Running" and pod.status.pod_ip else None

        return wait_until(runs, f"pod {name} to run", POD_SECONDS)

    def outcome(self, name: str) -> tuple[bool, str]:
        """Wait for a pod to end; return whether it succeeded, and its log."""
        phase = wait_until(
            lambda: (p := self.pod(name).status.phase) in ("Succeeded", "Failed") and p, f"pod {name} to end", POD_SECONDS
        )
        log = self.core.read_namespaced_pod_log(name, NAMESPACE)
        return phase == "Succeeded", str(log)

    def make_namespace(self) -> None:
        """Make the tests' namespace, waiting for one of an earlier run to go."""
        self.drop_namespace()
        self.core.create_namespace({"metadata": {"name": NAMESPACE}})
        wait_until(self._has_account, "the namespace's service account", 60)

    def drop_namespace(self) -> None:
        """Remove the tests' namespace and wait until it is gone."""
        try:
            self.core.delete_namespace(NAMESPACE, grace_period_seconds=0)
        except ApiException as error:
            if error.status != 404:
                raise
        wait_until(
            lambda: NAMESPACE not in [n.metadata.name for n in self.core.list_namespace().items], "the namespace to go", 120
        )

    def _has_account(self) -> bool:
        return any(a.metadata.name == "default" for a in self.core.list_namespaced_service_account(NAMESPACE).items)


def ready(node: Any | None) -> bool:
    """Tell whether a Node says it is Ready."""
    return node is not None and any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ())


def taints(node: Any) -> set[tuple[str, str, str]]:
    """A node's taints as (key, value, effect)."""
    return {(taint.key, taint.value or "", taint.effect) for taint in node.spec.taints or ()}


def gate_proof(node: Any) -> dict[str, Any]:
    """What the gate wrote on a node; empty when it wrote nothing."""
    return dict(json.loads((node.metadata.annotations or {}).get("bedplate.dev/gate", "{}")))


def etcdctl(control_plane: str, *arguments: str) -> str:
    """Run etcdctl in the etcd pod of a control-plane host."""
    pki = "/etc/kubernetes/pki/etcd"
    files = [f"--cacert={pki}/ca.crt", f"--cert={pki}/healthcheck-client.crt", f"--key={pki}/healthcheck-client.key"]
    return lab("kubectl", "-n", "kube-system", "exec", f"etcd-{control_plane}", "--", "etcdctl", *files, *arguments).stdout
