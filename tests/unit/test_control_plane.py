# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import kubeadm
from ansible_collections.bedplate.metal.plugins.module_utils.control_plane import ControlPlane
from ansible_collections.bedplate.metal.plugins.module_utils.control_plane_files import AUDIT_POLICY, ENCRYPTION, Files
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from fixtures_kubeadm import CERTIFICATE_KEY, CLUSTER, HASH, PKI_FILES, TOKEN, bare_host, control_plane_desired, documents

from recorded_host import KilledError, RecordedHost


def run(host: RecordedHost, mode: str = "init", policy: Policy | None = None, **changes: Any) -> Outcome:
    return execute(ControlPlane(), host, control_plane_desired(mode, **changes), policy or Policy())


def problems(outcome: Outcome) -> str:
    return "\n".join(str(p) for p in outcome.problems)


def killed_inside_init(last: str) -> RecordedHost:
    """A host whose init was killed right after a file was made."""
    for boundary in range(1, 100):
        host = bare_host()
        host.kill_after(boundary)
        try:
            run(host)
        except KilledError:
            pass
        if last in host.files:
            host.kill_after(None)
            return host
    raise AssertionError(last)


def test_a_bare_host_becomes_a_control_plane_and_a_second_run_changes_nothing() -> None:
    host = bare_host()
    assert [c.what for c in run(host).changes] == [
        f"file {AUDIT_POLICY}",
        "file /etc/kubernetes/bedplate/admission.yaml",
        f"file {ENCRYPTION}",
        "control plane",
    ]
    assert not run(host).changed
    assert host.modes[ENCRYPTION] == 0o600
    assert not host.exists("/run/bedplate/kubeadm.yaml")


def test_check_mode_predicts_the_run_and_changes_nothing() -> None:
    host = bare_host()
    predicted = run(host, policy=Policy(check=True))
    assert host.changes == 0
    assert [c.public() for c in predicted.changes] == [c.public() for c in run(host).changes]


@pytest.mark.parametrize("last", [f"{kubeadm.PKI}/ca.key", f"{kubeadm.MANIFESTS}/etcd.yaml", "/var/lib/etcd/member/snap/db"])
def test_an_init_killed_halfway_goes_on_with_its_own_keys(last: str) -> None:
    host = killed_inside_init(last)
    host.files[f"{kubeadm.PKI}/ca.key"] = "the key of the first try"
    host.files[ENCRYPTION] = "the encryption key of the first try"
    outcome = run(host, policy=Policy(in_service=True))
    assert outcome.changed and not outcome.deferred
    assert host.files[f"{kubeadm.PKI}/ca.key"] == "the key of the first try"
    assert host.files[ENCRYPTION] == "the encryption key of the first try"
    assert not [c for c in host.commands if "reset" in c]
    assert not run(host).changed


def test_only_errors_that_the_unfinished_init_explains_are_ignored() -> None:
    host = bare_host()
    given: list[dict[str, Any]] = []
    original = host.handlers["flock"]

    def spy(host: RecordedHost, argv: Any, stdin: str | None) -> Any:
        if argv[-1] != "true":
            given.append(documents(host.files["/run/bedplate/kubeadm.yaml"])[0])
        return original(host, argv, stdin)

    host.on("flock", spy)
    run(host)
    assert "ignorePreflightErrors" not in given[0]["nodeRegistration"]
    second = killed_inside_init(f"{kubeadm.MANIFESTS}/kube-apiserver.yaml")
    second.on("flock", spy)
    run(second)
    ignored = given[1]["nodeRegistration"]["ignorePreflightErrors"]
    assert "Port-6443" in ignored and "Port-2379" not in ignored and "Swap" not in ignored


def test_foreign_and_partial_state_stops_and_is_left_alone() -> None:
    partial = bare_host(files={kubeadm.ADMIN_CONF: "x", f"{kubeadm.MANIFESTS}/etcd.yaml": "etcd"})
    outcome = run(partial)
    assert "no record of Bedplate explains" in problems(outcome) and "kubeadm reset" in problems(outcome)
    assert partial.changes == 0


def test_a_healthy_control_plane_without_our_record_is_taken_over() -> None:
    host = bare_host()
    run(host)
    host.remove("/var/lib/bedplate/control_plane.json")
    outcome = run(host)
    assert [c.what for c in outcome.changes] == ["record of control_plane"]
    assert not host.ran("flock")[1:]


def test_a_host_reset_by_hand_is_bare_again() -> None:
    host = bare_host()
    run(host)
    for path in (kubeadm.KUBERNETES_DIRECTORY, "/var/lib/etcd", "/var/lib/kubelet"):
        host.remove(path)
    host.services["kubelet"] = "inactive"
    outcome = run(host)
    assert "no record of Bedplate explains" not in problems(outcome)
    assert outcome.changed and not run(host).changed


def test_an_unfinished_join_is_not_turned_into_an_init() -> None:
    host = bare_host(files={"/var/lib/bedplate/control_plane.json": json.dumps({"format": 1, "data": {"phase": "joining"}})})
    assert "unfinished join" in problems(run(host))


def test_a_lost_encryption_key_is_never_made_anew() -> None:
    host = bare_host()
    run(host)
    host.remove(ENCRYPTION)
    assert "could not read the stored secrets" in problems(run(host))
    assert not host.exists(ENCRYPTION)


def test_a_changed_audit_policy_waits_for_the_flag_in_service() -> None:
    host = bare_host()
    run(host)
    files = Files("new policy\n", control_plane_desired().files.admission, True)
    waiting = run(host, policy=Policy(in_service=True), files=files)
    assert not waiting.changed and [c.what for c in waiting.deferred] == [f"file {AUDIT_POLICY}"]
    done = run(host, policy=Policy(in_service=True, allow=frozenset({"restart:kube-apiserver"})), files=files)
    assert done.changed and host.ran("crictl", "stop")
    assert not run(host, files=files).changed


def test_changed_settings_are_rendered_again_and_remembered() -> None:
    host = bare_host()
    run(host)
    cluster = {**CLUSTER, "scheduler": {"extraArgs": [{"name": "v", "value": "4"}]}}
    outcome = run(host, cluster=cluster)
    assert [c.what for c in outcome.changes] == ["ClusterConfiguration"]
    assert not run(host, cluster=cluster).changed


def test_a_new_version_is_never_rolled_out_by_the_way() -> None:
    host = bare_host()
    run(host)
    outcome = run(host, policy=Policy(in_service=True), cluster={**CLUSTER, "kubernetesVersion": "v1.37.0"})
    assert not outcome.changed and [c.what for c in outcome.deferred] == ["control plane version"]
    assert outcome.deferred[0].effects == {"drain"}


def test_what_cannot_change_after_init_is_refused() -> None:
    host = bare_host()
    run(host)
    outcome = run(host, cluster={**CLUSTER, "networking": {**CLUSTER["networking"], "podSubnet": "10.0.0.0/8"}})
    assert "ClusterConfiguration networking" in problems(outcome)


def test_join_without_credentials_says_so() -> None:
    with pytest.raises(BedplateError, match="join credentials"):
        run(bare_host(), "join", join={})


def test_secrets_of_a_failing_join_reach_neither_error_nor_record() -> None:
    host = bare_host(files={"/test/failing": "yes"})
    with pytest.raises(BedplateError) as raised:
        run(host, "join")
    shown = str(raised.value) + repr(control_plane_desired("join")) + host.files["/var/lib/bedplate/control_plane.json"]
    for secret in (TOKEN, CERTIFICATE_KEY, HASH):
        assert secret not in shown
    assert "couldn't validate the identity" in shown
    assert not host.exists("/run/bedplate/kubeadm.yaml")


def test_changes_never_show_the_encryption_key() -> None:
    host = bare_host()
    outcome = run(host, "join")
    shown = json.dumps([c.public() for c in outcome.changes])
    assert "secretbox" not in shown and "(secret)" in shown
    assert "secretbox" in host.files[ENCRYPTION]


def test_keys_of_the_first_control_plane_are_not_part_of_a_join() -> None:
    host = bare_host()
    run(host, "join")
    assert host.files[f"{kubeadm.PKI}/ca.key"] == f"key of {PKI_FILES[1]}"


def test_going_on_with_an_init_waits_for_a_kubeadm_that_outlived_its_run_and_lets_dns_be_made_anew() -> None:
    host = killed_inside_init("/var/lib/etcd/member/snap/db")
    before = len(host.commands)
    assert run(host).changed
    commands = [command for command in host.commands[before:] if command[0] in ("flock", "kubectl")]
    assert commands[0][-1] == "true", "what it left is looked at after its end"
    dns = next(number for number, command in enumerate(commands) if "coredns" in command)
    assert dns < next(number for number, command in enumerate(commands) if "init" in command)


def test_a_first_init_deletes_nothing() -> None:
    host = bare_host()
    run(host)
    assert not [command for command in host.commands if "coredns" in command]
