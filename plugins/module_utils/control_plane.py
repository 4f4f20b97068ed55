# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes control plane of a host: kubeadm init or join, resumable, and never a reset.

Our record (``/var/lib/bedplate/control_plane.json``) is written before kubeadm starts and after it ends, so an unfinished init of
ours is told apart from somebody else's state. kubeadm keeps keys and certificates that exist; repeating it goes on with them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from . import kubeadm
from .control_plane_files import (
    ADMISSION,
    AUDIT_POLICY,
    ENCRYPTION,
    EncryptionFile,
    Files,
    complete_cluster,
)
from .control_plane_operations import API_SERVER, Init, Join, Reconfigure, Remember, Upgrade, restart_api_server
from .core import DRAIN, UNKNOWN, Change, Component, Plan, Problem
from .host import Host
from .kubeadm import INITIALISED, INITIALISING, JOINED, JOINING
from .operations import WriteFile, file_change

RESTART_API_SERVER = f"restart:{API_SERVER}"
STATIC_PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
IMMUTABLE = ("controlPlaneEndpoint", "clusterName", "networking")
"""Fields of ClusterConfiguration that kubeadm cannot change after init."""

NONE, UNFINISHED, COMPLETE, UNKNOWN_STATE = "none", "unfinished", "complete", "unknown"


@dataclass(frozen=True)
class ControlPlaneDesired:
    """What the host's control plane shall be.

    mode: init or join. cluster: ClusterConfiguration v1beta4 (without the files Bedplate adds). init: nodeRegistration and
    localAPIEndpoint (also of a join). kubelet_config, kube_proxy_config: component configurations. join: token, ca_cert_hashes,
    certificate_key and encryption_config, all secret.
    """

    mode: str
    node_name: str
    cluster: Mapping[str, Any]
    init: Mapping[str, Any] = field(default_factory=dict)
    kubelet_config: Mapping[str, Any] = field(default_factory=dict)
    kube_proxy_config: Mapping[str, Any] = field(default_factory=dict)
    files: Files = field(default_factory=Files)
    join: Mapping[str, Any] = field(default_factory=dict, repr=False)
    timeout_seconds: float = 900

    @property
    def configuration(self) -> dict[str, Any]:
        """The ClusterConfiguration with the arguments and volumes of the files Bedplate adds."""
        return kubeadm.cluster_configuration(complete_cluster(self.cluster, self.files))

    @property
    def etcd_data(self) -> str:
        """Where etcd keeps its data."""
        local = (self.cluster.get("etcd") or {}).get("local") or {}
        return str(local.get("dataDir") or "/var/lib/etcd")

    @property
    def api_port(self) -> int:
        """Port of the API server on this host."""
        return int((self.init.get("localAPIEndpoint") or {}).get("bindPort") or kubeadm.API_PORT)

    def documents(self, configuration: Mapping[str, Any], first: Mapping[str, Any]) -> str:
        """Return kubeadm's input: the given first document, the ClusterConfiguration and the component configurations."""
        kubelet = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", **self.kubelet_config}
        proxy = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", **self.kube_proxy_config}
        return kubeadm.documents([first, configuration, kubelet, proxy])


@dataclass(frozen=True)
class ControlPlaneObserved:
    """What is on the host. texts: the files Bedplate adds (None: absent; the encryption file's text is never kept)."""

    phase: Optional[str]
    recorded: Optional[Mapping[str, Any]]
    manifests: tuple[str, ...]
    kubelet_conf: bool
    admin_conf: bool
    kubelet_configured: bool
    etcd_data: bool
    audit_policy: Optional[str]
    admission: Optional[str]
    encryption: bool
    join_files: tuple[str, ...] = ()
    leftover: bool = False
    answers: bool = False

    @property
    def state(self) -> str:
        """None, unfinished (ours), complete or unknown (case G49)."""
        built = {*STATIC_PODS[1:]} <= set(self.manifests) and self.kubelet_conf
        if self.phase in kubeadm.UNFINISHED:
            return UNFINISHED
        if built and self.phase in (INITIALISED, JOINED):
            return COMPLETE
        if built and self.admin_conf and self.answers:
            return COMPLETE
        if not self.manifests and not self.kubelet_conf and not self.admin_conf and not self.etcd_data:
            return NONE
        return UNKNOWN_STATE


class ControlPlane(Component[ControlPlaneDesired, ControlPlaneObserved]):
    """Brings up this host's control plane, or goes on with an unfinished one."""

    name = "control_plane"

    def observe(self, host: Host, desired: ControlPlaneDesired) -> ControlPlaneObserved:
        """See :class:`Component`. The API is asked only where our record does not tell already."""
        data = kubeadm.recorded(host, self.name)
        manifests = tuple(pod for pod in STATIC_PODS if host.exists(f"{kubeadm.MANIFESTS}/{pod}.yaml"))
        admin = host.exists(kubeadm.ADMIN_CONF)
        answers = False
        if admin and manifests and "phase" not in data:
            ready = ["kubectl", "--kubeconfig", kubeadm.ADMIN_CONF, "--request-timeout=10s", "get", "node", desired.node_name]
            answers = host.run(ready).ok
        wanted_absent = (kubeadm.KUBELET_CONF, kubeadm.BOOTSTRAP_KUBELET_CONF)
        return ControlPlaneObserved(
            phase=data.get("phase"),
            recorded=data.get("configuration"),
            manifests=manifests,
            kubelet_conf=host.exists(kubeadm.KUBELET_CONF),
            admin_conf=admin,
            kubelet_configured=host.exists(kubeadm.KUBELET_CONFIG),
            etcd_data=bool(host.glob(f"{desired.etcd_data}/*")),
            audit_policy=host.read(AUDIT_POLICY),
            admission=host.read(ADMISSION),
            encryption=host.exists(ENCRYPTION),
            join_files=tuple(path for path in wanted_absent if host.exists(path)),
            leftover=host.exists(kubeadm.CONFIGURATION),
            answers=answers,
        )

    def plan(self, observed: ControlPlaneObserved, desired: ControlPlaneDesired) -> Plan:
        """See :class:`Component`."""
        problems = refusals(observed, desired)
        if problems:
            return Plan(problems=problems)
        if observed.state == COMPLETE:
            return Plan([*plan_files(observed, desired, in_use=True), *plan_complete(observed, desired)])
        changes = plan_files(observed, desired, in_use=False)
        return Plan([*changes, plan_kubeadm(observed, desired)])

    def effect(self, host: Host, effect: str, desired: ControlPlaneDesired) -> None:
        """Restart the API server's static pod; everything else as :meth:`Component.effect`."""
        if effect == RESTART_API_SERVER:
            restart_api_server(host)
        else:
            super().effect(host, effect, desired)


def refusals(observed: ControlPlaneObserved, desired: ControlPlaneDesired) -> list[Problem]:
    """Return what makes going on wrong; nothing is reset, and no key that data may depend on is made anew."""
    if observed.state == UNKNOWN_STATE:
        return [
            Problem(
                "control plane",
                f"state that no record of Bedplate explains (static pods {', '.join(observed.manifests) or 'none'}, "
                f"kubelet.conf {_there(observed.kubelet_conf)}, etcd data {_there(observed.etcd_data)}) and no API",
                "a host without Kubernetes state, or a control plane that answers",
                "repair it, or look at the host and run 'kubeadm reset' by hand if nothing on it is needed",
            )
        ]
    unfinished = {INITIALISING: "init", JOINING: "join"}.get(observed.phase or "", desired.mode)
    if observed.state == UNFINISHED and unfinished != desired.mode:
        return [
            Problem(
                "control plane",
                f"an unfinished {unfinished} of an earlier run",
                f"to {desired.mode}",
                "finish it with the inventory of that run, or reset this host by hand ('kubeadm reset') and repeat",
            )
        ]
    if observed.state != COMPLETE:
        return []
    problems = []
    if observed.recorded is not None:
        for key in IMMUTABLE:
            found, wanted = observed.recorded.get(key), desired.configuration.get(key)
            if found != wanted:
                step = "restore the inventory's value; a running cluster cannot change it"
                problems.append(Problem(f"ClusterConfiguration {key}", json.dumps(found), json.dumps(wanted), step))
    if desired.files.encryption and not observed.encryption and ENCRYPTION in json.dumps(observed.recorded or {}):
        problems.append(
            Problem(
                f"file {ENCRYPTION}",
                "no such file on a running control plane",
                "the key that the cluster's secrets are encrypted with",
                "copy it from another control-plane host or a backup; a new key could not read the stored secrets",
            )
        )
    return problems


def plan_files(observed: ControlPlaneObserved, desired: ControlPlaneDesired, *, in_use: bool) -> list[Change]:
    """Plan the files the API server reads; once it runs, a difference costs it a restart."""
    effects = frozenset({RESTART_API_SERVER}) if in_use else frozenset()
    changes: list[Change] = []
    if desired.files.audit_policy is not None:
        changes += file_change(AUDIT_POLICY, observed.audit_policy, desired.files.audit_policy, mode=0o600, effects=effects)
    if desired.files.admission is not None:
        changes += file_change(ADMISSION, observed.admission, desired.files.admission, mode=0o600, effects=effects)
    if desired.files.encryption and not observed.encryption and not in_use:
        given = desired.join.get("encryption_config")
        operation = WriteFile(ENCRYPTION, given, 0o600) if desired.mode == "join" and given else EncryptionFile()
        if desired.mode == "init" or given:
            changes.append(Change(f"file {ENCRYPTION}", None, UNKNOWN, frozenset(), operation, secret=True))
    return changes


def plan_kubeadm(observed: ControlPlaneObserved, desired: ControlPlaneDesired) -> Change:
    """Plan the init or join itself; ignored preflight errors are exactly those that our own unfinished one explains."""
    ignore: list[str] = []
    if observed.state == UNFINISHED:
        ignore = kubeadm.explained_errors(
            observed.manifests,
            api_port=desired.api_port,
            etcd_data=desired.etcd_data if observed.etcd_data else None,
            kubelet_configured=observed.kubelet_configured,
            files=observed.join_files if desired.mode == "join" else (),
        )
    before = {NONE: "none", UNFINISHED: f"{observed.phase} since an interrupted run"}[observed.state]
    if desired.mode == "init":

        def text(token: str) -> str:
            first = kubeadm.init_configuration(desired.node_name, desired.init, token, ignore)
            return desired.documents(desired.configuration, first)

        operation = Init(text, desired.configuration, desired.timeout_seconds, resumed=observed.state == UNFINISHED)
        return Change("control plane", before, INITIALISED, frozenset(), operation)
    skip = ("kubelet-start",) if observed.kubelet_conf and observed.kubelet_configured else ()
    return Change("control plane", before, JOINED, frozenset(), Join(desired, ignore, skip))


def plan_complete(observed: ControlPlaneObserved, desired: ControlPlaneDesired) -> list[Change]:
    """Plan what a running control plane may lack: our record, a changed configuration, a new version."""
    changes = kubeadm.leftover_changes(observed.leftover)
    if observed.recorded is None:
        remember = Remember({"phase": INITIALISED, "configuration": desired.configuration})
        return [*changes, Change("record of control_plane", None, INITIALISED, frozenset(), remember)]
    found, wanted = observed.recorded, desired.configuration
    if _settings(found) != _settings(wanted):
        effects = frozenset({RESTART_API_SERVER})
        operation = Reconfigure(desired, _keep_versions(found, wanted))
        changes.append(Change("ClusterConfiguration", _settings(found), _settings(wanted), effects, operation))
    if _versions(found) != _versions(wanted):
        changes.append(Change("control plane version", _versions(found), _versions(wanted), frozenset({DRAIN}), Upgrade()))
    return changes


def _versions(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an upgrade changes: kubernetesVersion and the image tags of etcd and DNS."""
    return {
        "kubernetes": configuration.get("kubernetesVersion"),
        "etcd": ((configuration.get("etcd") or {}).get("local") or {}).get("imageTag"),
        "dns": (configuration.get("dns") or {}).get("imageTag"),
    }


def _settings(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without what an upgrade changes."""
    return _keep_versions({}, configuration)


def _keep_versions(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wanted configuration with the versions found."""
    result: dict[str, Any] = json.loads(json.dumps(wanted))
    versions = _versions(found)
    places = (
        (result, "kubernetesVersion", versions["kubernetes"]),
        ((result.get("etcd") or {}).get("local"), "imageTag", versions["etcd"]),
        (result.get("dns"), "imageTag", versions["dns"]),
    )
    for place, key, value in places:
        if place is not None:
            place.pop(key, None)
            if value is not None:
                place[key] = value
    return result


def _there(present: bool) -> str:
    return "present" if present else "absent"
