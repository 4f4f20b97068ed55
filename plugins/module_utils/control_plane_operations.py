# SPDX-License-Identifier: Apache-2.0
"""How the control plane's changes are carried out: kubeadm between two entries in our record."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

from . import kubeadm
from .errors import BedplateError
from .host import Host
from .record import Record

if TYPE_CHECKING:
    from .control_plane import ControlPlaneDesired

API_SERVER = "kube-apiserver"
COMPONENT = "control_plane"
ANSWER_TIMEOUT_SECONDS = 180
KUBECTL = ("kubectl", "--kubeconfig", kubeadm.ADMIN_CONF, "--request-timeout=10s")


@dataclass(frozen=True)
class Remember:
    """Write entries into the component's record."""

    data: Mapping[str, Any]

    def perform(self, host: Host) -> None:
        """Write them."""
        Record.load(host, COMPONENT).remembering(**self.data).save(host)


@dataclass(frozen=True)
class Init:
    """Run ``kubeadm init``; ``text`` makes its input from a bootstrap token, which is removed again: joins make their own."""

    text: Callable[[str], str] = field(repr=False)
    configuration: Mapping[str, Any] = field(repr=False)
    timeout_seconds: float
    resumed: bool = False

    def perform(self, host: Host) -> None:
        """Run it to its end and see that the API answers."""
        Remember({"phase": kubeadm.INITIALISING, "configuration": self.configuration}).perform(host)
        if self.resumed:
            # kubeadm takes a DNS that is there for an old one to migrate, and knows only versions older than itself.
            host.run([*KUBECTL, "--namespace", "kube-system", "delete", "deployment", "coredns", "--ignore-not-found"])
        token = kubeadm.new_token()
        kubeadm.run_kubeadm(
            host,
            ["init"],
            self.text(token),
            purpose="initialise the control plane",
            timeout_seconds=self.timeout_seconds,
            next_step="correct what it names and repeat the run: it goes on with the same keys",
        )
        wait_for_api(host)
        secret = f"bootstrap-token-{token.split('.')[0]}"
        host.run([*KUBECTL, "--namespace", "kube-system", "delete", "secret", secret, "--ignore-not-found"])
        Remember({"phase": kubeadm.INITIALISED}).perform(host)


@dataclass(frozen=True)
class Join:
    """Run ``kubeadm join`` for a further control-plane host."""

    desired: ControlPlaneDesired = field(repr=False)
    ignore: Sequence[str] = ()
    skip_phases: Sequence[str] = ()

    def perform(self, host: Host) -> None:
        """Run it to its end and see that the API answers on this host."""
        secret = self.desired.join
        if not secret.get("token") or not secret.get("certificate_key"):
            raise BedplateError(
                "control plane: found no join credentials (token, certificate key); wanted those that join_credentials makes. "
                "Next: run the whole playbook while a control-plane host answers"
            )
        configuration = self.desired.configuration
        join = kubeadm.join_configuration(
            node_name=self.desired.node_name,
            endpoint=str(configuration.get("controlPlaneEndpoint")),
            token=secret["token"],
            ca_cert_hashes=secret.get("ca_cert_hashes") or [],
            node_registration=self.desired.init.get("nodeRegistration") or {},
            ignore=self.ignore,
            control_plane={
                "localAPIEndpoint": dict(self.desired.init.get("localAPIEndpoint") or {}),
                "certificateKey": secret["certificate_key"],
            },
            skip_phases=self.skip_phases,
            timeouts=self.desired.init.get("timeouts"),
        )
        Remember({"phase": kubeadm.JOINING, "configuration": configuration}).perform(host)
        kubeadm.run_kubeadm(
            host,
            ["join"],
            kubeadm.documents([join]),
            purpose="join the control plane",
            timeout_seconds=self.desired.timeout_seconds,
            next_step="correct what it names and repeat the run: it goes on where this one stopped",
        )
        wait_for_api(host)
        Remember({"phase": kubeadm.JOINED}).perform(host)


@dataclass(frozen=True)
class Reconfigure:
    """Write the static pods' manifests anew and upload the configuration; the versions stay as they are."""

    desired: ControlPlaneDesired = field(repr=False)
    configuration: Mapping[str, Any] = field(repr=False)

    def perform(self, host: Host) -> None:
        """Do both; kubelet replaces the pods whose manifests differ."""
        init = kubeadm.init_configuration(self.desired.node_name, self.desired.init, kubeadm.new_token())
        text = self.desired.documents(self.configuration, init)
        for phase in (["control-plane", "all"], ["upload-config", "kubeadm"]):
            kubeadm.run_kubeadm(
                host,
                ["init", "phase", *phase],
                text,
                purpose="reconfigure the control plane",
                timeout_seconds=120,
                next_step="correct the cluster's settings in the inventory and repeat",
            )
        Remember({"configuration": self.configuration}).perform(host)


class Upgrade:
    """A new version of the control plane: the upgrade's own work, never done by the way."""

    def perform(self, host: Host) -> None:
        """Refuse."""
        raise BedplateError("control plane: a new version is rolled out by the upgrade playbook, not by this run")


def wait_for_api(host: Host, timeout_seconds: float = ANSWER_TIMEOUT_SECONDS) -> None:
    """Wait until this host's API server says it is ready; raise :class:`BedplateError` naming what it waited for."""
    deadline = time.monotonic() + timeout_seconds
    argv = ["kubectl", "--kubeconfig", kubeadm.ADMIN_CONF, "--request-timeout=10s", "get", "--raw", "/readyz"]
    while True:
        result = host.run(argv)
        if result.ok:
            return
        if time.monotonic() > deadline:
            found = kubeadm.scrub(result.err).strip().splitlines()[-1:] or ["no answer"]
            raise BedplateError(
                f"API server: found {found[0]!r} after {timeout_seconds:g} s; wanted ok from /readyz. "
                "Next: crictl ps -a and crictl logs of kube-apiserver and etcd on this host"
            )
        time.sleep(1)


def restart_api_server(host: Host) -> None:
    """Stop the API server's container (kubelet starts it again with the files as they are now) and wait until it answers."""
    listed = host.run(["crictl", "ps", "--name", f"^{API_SERVER}$", "--state", "running", "--quiet"])
    for container in listed.out.split():
        host.run(["crictl", "stop", "--timeout", "30", container], timeout_seconds=60)
    wait_for_api(host)
