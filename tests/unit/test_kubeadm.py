# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import kubeadm
from ansible_collections.bedplate.metal.plugins.module_utils.control_plane_files import AUDIT_POLICY, DIRECTORY, ENCRYPTION
from fixtures_kubeadm import CERTIFICATE_KEY, CLUSTER, HASH, TOKEN, control_plane_desired, worker_desired
from real_kubeadm import needs_kubeadm, validate


@pytest.mark.parametrize(
    "secret",
    [
        TOKEN,
        CERTIFICATE_KEY,
        HASH.partition(":")[2],
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIE cut off",
        "A" * 90 + "==",
    ],
)
def test_secrets_are_scrubbed(secret: str) -> None:
    assert secret not in kubeadm.scrub(f'token="{secret}" next\n{secret}')


def test_what_an_operator_needs_is_not_scrubbed() -> None:
    text = "dial tcp 10.87.0.11:6443: connect: connection refused; kube-apiserver.yaml api.lab.bedplate.test:6443 v1.36.3"
    assert kubeadm.scrub(text) == text


def test_tokens_have_the_form_kubeadm_accepts() -> None:
    tokens = {kubeadm.new_token() for _ in range(50)}
    assert len(tokens) == 50
    assert all(re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", token) for token in tokens)


def test_certificate_names_are_unique_and_bare() -> None:
    cluster = kubeadm.cluster_configuration(
        {"kubernetesVersion": "1.36.3", "apiServer": {"certSANs": ["a", "[fd00::1]", "fd00::1", "a", None, " "]}}
    )
    assert cluster["apiServer"]["certSANs"] == ["a", "fd00::1"]
    assert cluster["kubernetesVersion"] == "v1.36.3"


def test_what_the_site_sets_itself_wins_over_added_arguments() -> None:
    server = control_plane_desired().configuration["apiServer"]
    arguments = [(a["name"], a["value"]) for a in server["extraArgs"]]
    assert ("audit-log-maxage", "7") in arguments and ("audit-log-maxage", "30") not in arguments
    assert ("audit-policy-file", AUDIT_POLICY) in arguments and ("encryption-provider-config", ENCRYPTION) in arguments
    assert DIRECTORY in [v["mountPath"] for v in server["extraVolumes"]]


def test_the_first_bootstrap_token_is_short_lived() -> None:
    init = kubeadm.init_configuration("cp1", {}, TOKEN)
    assert init["bootstrapTokens"][0]["ttl"] == "2m0s"


def test_given_registration_is_kept_and_ignored_errors_are_joined() -> None:
    given: dict[str, Any] = {"nodeRegistration": {"taints": [], "ignorePreflightErrors": ["SystemVerification"]}}
    registration = kubeadm.init_configuration("cp1", given, TOKEN, ["Port-6443"])["nodeRegistration"]
    assert registration["taints"] == []
    assert registration["ignorePreflightErrors"] == ["SystemVerification", "Port-6443"]


def rendered() -> dict[str, str]:
    desired = control_plane_desired()
    worker = worker_desired()
    join: dict[str, Any] = {"node_name": "w1", "endpoint": worker.endpoint, "token": TOKEN, "ca_cert_hashes": [HASH]}
    ipv6 = {**CLUSTER, "networking": {"podSubnet": "fd00:10:244::/56", "serviceSubnet": "fd00:10:96::/112"}}
    ipv6["apiServer"] = {"certSANs": ["[fd00::11]", "api.lab.test", "api.lab.test"]}
    ipv6_desired = control_plane_desired(cluster=ipv6, init={"localAPIEndpoint": {"advertiseAddress": "fd00::11"}})
    further = {"localAPIEndpoint": {"advertiseAddress": "192.0.2.12"}, "certificateKey": CERTIFICATE_KEY}
    return {
        "init": desired.documents(desired.configuration, kubeadm.init_configuration("cp1", desired.init, TOKEN, ["Port-6443"])),
        "init ipv6": ipv6_desired.documents(
            ipv6_desired.configuration, kubeadm.init_configuration("cp1", ipv6_desired.init, TOKEN)
        ),
        "join": kubeadm.documents([kubeadm.join_configuration(**join, node_registration=worker.registration)]),
        "join control plane": kubeadm.documents(
            [kubeadm.join_configuration(**join, node_registration={}, control_plane=further, skip_phases=["kubelet-start"])]
        ),
    }


@pytest.mark.parametrize("name", rendered())
def test_what_is_rendered_is_a_list_of_objects(name: str) -> None:
    assert all(document["apiVersion"] and document["kind"] for document in map(json_document, rendered()[name].split("---\n")))


@needs_kubeadm
@pytest.mark.parametrize("name", rendered())
def test_kubeadm_itself_accepts_what_is_rendered(name: str) -> None:
    assert validate(rendered()[name]) == (0, "ok\n")


@needs_kubeadm
def test_kubeadm_itself_refuses_a_misspelt_field() -> None:
    code, answer = validate(rendered()["init"].replace("criSocket", "criSokcet"))
    assert code != 0 and "criSokcet" in answer


def json_document(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(text)
    return loaded
