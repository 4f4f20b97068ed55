# SPDX-License-Identifier: Apache-2.0
"""Teams find queues they can submit to, read the policy, and what names no queue does not run."""

from __future__ import annotations

import json
from typing import Any

import yaml
from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane"]
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
TEAM = f"{KUBECTL} -n molecule-team"
MEMBER = "--as somebody --as-group oidc:molecule"
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "nameless", "namespace": "molecule-team"},
    "spec": {
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10.2"}]}
        }
    },
}


def found(host: Host, what: str, options: str = "") -> Any:
    return json.loads(host.check_output(f"{TEAM} get {what} {options} -o json"))


def test_the_queue_takes_work(host: Host) -> None:
    assert host.run(f"{TEAM} wait localqueue/molecule --for condition=Active --timeout 60s").rc == 0


def test_a_member_reads_queues_and_policy_and_changes_nothing(host: Host) -> None:
    policy = found(host, "configmap bedplate-queue-policy", MEMBER)["data"]
    assert "# Queue policy of molecule for team molecule-team" in policy["policy.md"]
    assert yaml.safe_load(policy["example.yaml"])["metadata"]["labels"] == {
        "kueue.x-k8s.io/queue-name": "molecule",
        "kueue.x-k8s.io/priority-class": "low",
    }
    assert found(host, "clusterqueue molecule", MEMBER)["spec"]["resourceGroups"][0]["coveredResources"][0] == "nvidia.com/gpu"
    for question in ("update clusterqueues", "create workloads", "list secrets"):
        assert host.run(f"{TEAM} auth can-i {question} {MEMBER}").stdout.strip() == "no", question


def test_the_webhook_holds_what_names_no_queue(host: Host) -> None:
    text = json.dumps(JOB)
    made = json.loads(host.check_output(f"echo '{text}' | {KUBECTL} create --dry-run=server -o json -f -"))
    assert made["spec"]["suspend"] is True


def test_a_priority_the_team_may_not_name_is_refused(host: Host) -> None:
    job = {**JOB, "metadata": {**JOB["metadata"], "labels": {"kueue.x-k8s.io/priority-class": "high"}}}  # type: ignore[dict-item]
    refused = host.run(f"echo '{json.dumps(job)}' | {KUBECTL} create --dry-run=server -f -")
    assert refused.rc != 0 and "priority high: this team may name low" in refused.stderr
