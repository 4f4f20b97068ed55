# SPDX-License-Identifier: Apache-2.0
"""A worker's membership: kubeadm join, resumable, and never a reset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from . import kubeadm
from .core import Change, Component, Plan, Problem, restart_service
from .errors import BedplateError
from .host import Host
from .kubeadm import JOINED, JOINING
from .record import Record

CLIENT_CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"


@dataclass(frozen=True)
class WorkerDesired:
    """What the worker shall be a member of.

    endpoint: ``name:port``. token, ca_cert_hashes: secret, empty where no join is due. labels, taints: of the registration (only
    labels a kubelet may set itself). kubelet_extra_args: list of name and value.
    """

    node_name: str
    endpoint: str
    token: str = field(default="", repr=False)
    ca_cert_hashes: Sequence[str] = field(default=(), repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    kubelet_extra_args: Sequence[Mapping[str, str]] = ()
    ignore_preflight_errors: Sequence[str] = ()
    timeout_seconds: float = 600

    @property
    def registration(self) -> dict[str, Any]:
        """NodeRegistrationOptions of kubeadm."""
        arguments = [dict(a) for a in self.kubelet_extra_args]
        labels = ",".join(f"{key}={value}" for key, value in sorted(self.labels.items()))
        if labels:
            arguments.append({"name": "node-labels", "value": labels})
        result: dict[str, Any] = {"taints": [dict(t) for t in self.taints]}
        if arguments:
            result["kubeletExtraArgs"] = arguments
        if self.ignore_preflight_errors:
            result["ignorePreflightErrors"] = list(self.ignore_preflight_errors)
        return result


@dataclass(frozen=True)
class WorkerObserved:
    """What is on the host. present: the paths a join wants absent that exist."""

    phase: Optional[str]
    present: tuple[str, ...]
    client_certificate: bool
    kubelet_configured: bool
    manifests: bool
    leftover: bool

    @property
    def bootstrapped(self) -> bool:
        """True when kubelet has its own certificate and configuration: kubeadm has nothing left to do."""
        return kubeadm.KUBELET_CONF in self.present and self.client_certificate and self.kubelet_configured


class Worker(Component[WorkerDesired, WorkerObserved]):
    """Joins the host to the cluster, or goes on with an unfinished join."""

    name = "worker"

    def observe(self, host: Host, desired: WorkerDesired) -> WorkerObserved:
        """See :class:`Component`."""
        wanted_absent = (kubeadm.KUBELET_CONF, kubeadm.BOOTSTRAP_KUBELET_CONF, kubeadm.CA_CERTIFICATE)
        return WorkerObserved(
            phase=kubeadm.recorded(host, self.name).get("phase"),
            present=tuple(path for path in wanted_absent if host.exists(path)),
            client_certificate=host.exists(CLIENT_CERTIFICATE),
            kubelet_configured=host.exists(kubeadm.KUBELET_CONFIG),
            manifests=bool(host.glob(f"{kubeadm.MANIFESTS}/*.yaml")),
            leftover=host.exists(kubeadm.CONFIGURATION),
        )

    def plan(self, observed: WorkerObserved, desired: WorkerDesired) -> Plan:
        """See :class:`Component`."""
        changes = kubeadm.leftover_changes(observed.leftover)
        if observed.bootstrapped:
            if observed.phase != JOINED:
                before = "bootstrapped by an interrupted run" if observed.phase == JOINING else "joined without a record"
                changes.append(Change("membership", before, JOINED, frozenset(), Finish(start=observed.phase == JOINING)))
            return Plan(changes)
        if observed.manifests:
            return Plan(problems=[_foreign(f"static pods in {kubeadm.MANIFESTS}")])
        if observed.phase != JOINING and kubeadm.KUBELET_CONF in observed.present:
            return Plan(problems=[_foreign(f"{kubeadm.KUBELET_CONF} without a usable kubelet certificate")])
        if observed.phase is None and observed.present:
            return Plan(problems=[_foreign(", ".join(observed.present))])
        ignore: list[str] = []
        if observed.phase is not None:
            ignore = kubeadm.explained_errors(
                (), api_port=0, etcd_data=None, kubelet_configured=observed.kubelet_configured, files=observed.present
            )
        found = "joining since an interrupted run" if observed.phase == JOINING else None
        return Plan([*changes, Change("membership", found, JOINED, frozenset(), Join(desired, ignore))])


def _foreign(found: str) -> Problem:
    return Problem(
        "membership",
        f"{found}, which no record of Bedplate explains",
        "a host without Kubernetes state, or a member",
        "look at the host and run 'kubeadm reset' by hand if nothing on it is needed, then repeat",
    )


@dataclass(frozen=True)
class Join:
    """Run ``kubeadm join``."""

    desired: WorkerDesired = field(repr=False)
    ignore: Sequence[str] = ()

    def perform(self, host: Host) -> None:
        """Run it to its end between two entries in the record."""
        if not self.desired.token or not self.desired.ca_cert_hashes:
            raise BedplateError(
                "membership: found no join credentials (token, CA hashes); wanted those that join_credentials makes. "
                "Next: run the whole playbook while a control-plane host answers"
            )
        _remember(host, JOINING)
        configuration = kubeadm.join_configuration(
            node_name=self.desired.node_name,
            endpoint=self.desired.endpoint,
            token=self.desired.token,
            ca_cert_hashes=self.desired.ca_cert_hashes,
            node_registration=self.desired.registration,
            ignore=self.ignore,
        )
        kubeadm.run_kubeadm(
            host,
            ["join"],
            kubeadm.documents([configuration]),
            purpose="join the cluster",
            timeout_seconds=self.desired.timeout_seconds,
            next_step="correct what it names and repeat the run: it goes on where this one stopped",
        )
        _remember(host, JOINED)


@dataclass(frozen=True)
class Finish:
    """Close a join whose kubelet has its certificate: the bootstrap credential goes, kubelet runs, the record says joined."""

    start: bool

    def perform(self, host: Host) -> None:
        """Do it."""
        host.remove(kubeadm.BOOTSTRAP_KUBELET_CONF)
        if self.start and not host.run(["systemctl", "is-active", "--quiet", "kubelet"]).ok:
            restart_service(host, "kubelet")
        _remember(host, JOINED)


def _remember(host: Host, phase: str) -> None:
    Record.load(host, Worker.name).remembering(phase=phase).save(host)
