# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import kubeadm
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.worker import CLIENT_CERTIFICATE, Worker
from fixtures_kubeadm import HASH, TOKEN, bare_host, documents, worker_desired

from recorded_host import KilledError, RecordedHost


def run(host: RecordedHost, policy: Policy | None = None, **changes: Any) -> Outcome:
    return execute(Worker(), host, worker_desired(**changes), policy or Policy())


def test_a_bare_host_joins_and_a_second_run_needs_no_credentials() -> None:
    host = bare_host()
    assert [c.what for c in run(host).changes] == ["membership"]
    assert not run(host, token="", ca_cert_hashes=()).changed
    assert not host.exists(kubeadm.BOOTSTRAP_KUBELET_CONF) and not host.exists("/run/bedplate/kubeadm.yaml")


def test_the_node_registers_with_its_labels_and_taints() -> None:
    registration = worker_desired(kubelet_extra_args=({"name": "v", "value": "2"},)).registration
    assert registration["taints"] == [{"key": "bedplate.dev/unaccepted", "effect": "NoSchedule"}]
    assert {"name": "node-labels", "value": "pool.bedplate.dev/name=train"} in registration["kubeletExtraArgs"]


def test_a_join_killed_before_the_certificate_runs_again_with_the_new_token() -> None:
    host = bare_host()
    given: list[str] = []
    original = host.handlers["flock"]

    def spy(host: RecordedHost, argv: Any, stdin: str | None) -> Any:
        if argv[-1] != "true":
            given.append(documents(host.files["/run/bedplate/kubeadm.yaml"])[0]["discovery"]["bootstrapToken"]["token"])
        return original(host, argv, stdin)

    host.on("flock", spy)
    host.kill_after(6)
    with pytest.raises(KilledError):
        run(host)
    assert host.exists(kubeadm.BOOTSTRAP_KUBELET_CONF) and not host.exists(CLIENT_CERTIFICATE)
    host.kill_after(None)
    run(host, token="ghijkl.0123456789abcdef")
    assert given[-1] == "ghijkl.0123456789abcdef"
    assert not run(host).changed


def test_a_join_killed_after_the_certificate_is_closed_without_credentials() -> None:
    host = bare_host()
    run(host)
    host.files["/var/lib/bedplate/worker.json"] = host.files["/var/lib/bedplate/worker.json"].replace("joined", "joining")
    host.files[kubeadm.BOOTSTRAP_KUBELET_CONF] = "left"
    host.services["kubelet"] = "inactive"
    outcome = run(host, Policy(in_service=True), token="", ca_cert_hashes=())
    assert outcome.changed and not outcome.deferred
    assert host.services["kubelet"] == "active" and not host.exists(kubeadm.BOOTSTRAP_KUBELET_CONF)


@pytest.mark.parametrize("path", [kubeadm.KUBELET_CONF, kubeadm.CA_CERTIFICATE, f"{kubeadm.MANIFESTS}/kube-apiserver.yaml"])
def test_state_without_our_record_stops_and_is_left_alone(path: str) -> None:
    host = bare_host(files={path: "somebody's"})
    outcome = run(host)
    assert "no record of Bedplate explains" in str(outcome.problems[0]) and host.changes == 0


def test_a_member_without_our_record_is_recorded_and_left_running() -> None:
    host = bare_host()
    run(host)
    host.remove("/var/lib/bedplate/worker.json")
    commands = len(host.commands)
    assert [c.what for c in run(host, Policy(in_service=True)).changes] == ["membership"]
    assert not [c for c in host.commands[commands:] if c[0] in ("flock", "systemctl")]


def test_joining_without_credentials_says_so() -> None:
    with pytest.raises(BedplateError, match="join credentials"):
        run(bare_host(), token="")


def test_secrets_of_a_failing_join_are_not_shown() -> None:
    host = bare_host(files={"/test/failing": "yes"})
    with pytest.raises(BedplateError) as raised:
        run(host)
    shown = str(raised.value) + repr(worker_desired())
    assert TOKEN not in shown and HASH not in shown and "repeat the run" in shown


def test_a_kubeadm_that_still_runs_is_waited_for_and_then_named() -> None:
    from ansible_collections.bedplate.metal.plugins.module_utils.host import Result

    host = bare_host()
    host.on("flock", lambda host, argv, stdin: Result(75))
    with pytest.raises(BedplateError, match="another kubeadm running"):
        run(host)
    assert host.ran("flock", "--wait", "300")
