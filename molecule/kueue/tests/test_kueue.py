# SPDX-License-Identifier: Apache-2.0
"""The controller runs and keeps itself to the namespaces of teams."""

from __future__ import annotations

import json
from typing import Any

import yaml
from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
TENANTS = {"matchExpressions": [{"key": "bedplate.dev/tenant", "operator": "Exists"}]}


def found(host: Host, what: str) -> Any:
    return json.loads(host.check_output(f"{KUBECTL} -n kueue-system get {what} -o json"))


def test_the_controller_runs(host: Host) -> None:
    waited = host.run(
        f"{KUBECTL} -n kueue-system wait deployment/kueue-controller-manager --for condition=Available --timeout 180s"
    )
    assert waited.rc == 0, host.run(f"{KUBECTL} -n kueue-system describe pods").stdout


def test_what_is_nobodys_work_never_meets_its_webhooks(host: Host) -> None:
    for kind in ("mutating", "validating"):
        hooks = found(host, f"{kind}webhookconfiguration kueue-{kind}-webhook-configuration")["webhooks"]
        held = [hook for hook in hooks if not any("kueue.x-k8s.io" in rule["apiGroups"] for rule in hook["rules"])]
        assert held and all(hook["namespaceSelector"] == TENANTS for hook in held)


def test_its_configuration_is_the_sites(host: Host) -> None:
    data = found(host, "configmap kueue-manager-config")["data"]["controller_manager_config.yaml"]
    config = yaml.safe_load(data)
    assert config["manageJobsWithoutQueueName"] is True and config["managedJobsNamespaceSelector"] == TENANTS
    assert config["waitForPodsReady"]["timeout"] == "120s"


def test_definitions_are_those_of_its_release(host: Host) -> None:
    definition = found(host, "customresourcedefinition clusterqueues.kueue.x-k8s.io")
    assert definition["metadata"]["labels"]["app.kubernetes.io/version"] == "v0.19.2"
    assert [v["name"] for v in definition["spec"]["versions"] if v["storage"]] == ["v1beta2"]
