# SPDX-License-Identifier: Apache-2.0
"""kubeadm's configuration (v1beta4), its preflight errors and its output, as pure functions."""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from .core import Change
from .errors import BedplateError
from .host import Host
from .operations import RemoveFile
from .record import Record

API_VERSION = "kubeadm.k8s.io/v1beta4"
KUBERNETES_DIRECTORY = "/etc/kubernetes"
MANIFESTS = f"{KUBERNETES_DIRECTORY}/manifests"
PKI = f"{KUBERNETES_DIRECTORY}/pki"
KUBELET_CONF = f"{KUBERNETES_DIRECTORY}/kubelet.conf"
BOOTSTRAP_KUBELET_CONF = f"{KUBERNETES_DIRECTORY}/bootstrap-kubelet.conf"
ADMIN_CONF = f"{KUBERNETES_DIRECTORY}/admin.conf"
CA_CERTIFICATE = f"{PKI}/ca.crt"
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
API_PORT = 6443
"""Port of the API server on its host; the endpoint's port may differ behind a load balancer."""
CRI_SOCKET = "unix:///run/containerd/containerd.sock"
RUN_DIRECTORY = "/run/bedplate"
CONFIGURATION = f"{RUN_DIRECTORY}/kubeadm.yaml"
"""kubeadm's input, with tokens: on a tmpfs, mode 0600, only while kubeadm runs."""
LOCK_SECONDS, LOCK_HELD = 300, 75
LOCK = ("flock", "--wait", str(LOCK_SECONDS), "--conflict-exit-code", str(LOCK_HELD), f"{RUN_DIRECTORY}/kubeadm.lock")
"""Runs a command once no other kubeadm of ours runs; answers LOCK_HELD when one still does after LOCK_SECONDS."""

INITIALISING, INITIALISED, JOINING, JOINED = "initialising", "initialised", "joining", "joined"
"""Phases in the records of control_plane and worker."""
UNFINISHED = (INITIALISING, JOINING)
STILL_RUNNING = f"found another kubeadm running for {LOCK_SECONDS} s; wanted none. Next: let it end, then repeat"

STATIC_POD_PORTS = {
    "kube-apiserver": (API_PORT,),
    "etcd": (2379, 2380),
    "kube-controller-manager": (10257,),
    "kube-scheduler": (10259,),
}
"""Ports that kubeadm's preflight wants free, by the static pod that takes them (kubernetes, cmd/kubeadm/app/constants)."""
KUBELET_PORT = 10250

_SECRETS = (
    re.compile(r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)", re.DOTALL),
    re.compile(r"(?<![A-Za-z0-9])[a-z0-9]{6}\.[a-z0-9]{16}(?![A-Za-z0-9])"),
    re.compile(r"(?<![0-9A-Fa-f])[0-9a-f]{64}(?![0-9A-Fa-f])"),
    re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{80,}={0,2}"),
)


def scrub(text: str) -> str:
    """Return text without PEM blocks, bootstrap tokens, certificate keys, hashes and long base64 runs."""
    for pattern in _SECRETS:
        text = pattern.sub("(secret)", text)
    return text


def new_token() -> str:
    """Return a bootstrap token of the form kubeadm accepts: ``[a-z0-9]{6}.[a-z0-9]{16}``."""
    alphabet = string.ascii_lowercase + string.digits

    def characters(count: int) -> str:
        return "".join(secrets.choice(alphabet) for _ in range(count))

    return f"{characters(6)}.{characters(16)}"


def documents(items: Iterable[Mapping[str, Any]]) -> str:
    """Return several objects as one text that kubeadm reads (JSON documents are YAML documents)."""
    return "---\n".join(json.dumps(item, indent=2, sort_keys=True) + "\n" for item in items)


def merged(base: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return base with extra laid over it; mappings are merged, everything else is replaced."""
    result = dict(base)
    for key, value in extra.items():
        found = result.get(key)
        result[key] = merged(found, value) if isinstance(found, Mapping) and isinstance(value, Mapping) else value
    return result


def with_arguments(component: Mapping[str, Any], arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return a control-plane component with arguments added where it does not set them itself."""
    present = {a.get("name") for a in component.get("extraArgs") or []}
    added = [{"name": name, "value": value} for name, value in arguments.items() if name not in present]
    return {**component, "extraArgs": [*(component.get("extraArgs") or []), *added]}


def with_volumes(component: Mapping[str, Any], volumes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a control-plane component with host volumes added where its own do not mount that path already."""
    present = {v.get("mountPath") for v in component.get("extraVolumes") or []}
    return {
        **component,
        "extraVolumes": [*(component.get("extraVolumes") or []), *(dict(v) for v in volumes if v["mountPath"] not in present)],
    }


def unique_names(names: Iterable[Any]) -> list[str]:
    """Return certificate names in order, each once, IPv6 addresses without brackets, empty ones left out (case A6, E39)."""
    cleaned = (str(name).strip().strip("[]") for name in names if name is not None)
    return list(dict.fromkeys(name for name in cleaned if name))


def cluster_configuration(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return a complete ClusterConfiguration: version prefixed, certificate names unique and clean."""
    result = {**cluster, "apiVersion": API_VERSION, "kind": "ClusterConfiguration"}
    version = str(result.get("kubernetesVersion") or "")
    if version and not version.startswith("v"):
        result["kubernetesVersion"] = f"v{version}"
    server = dict(result.get("apiServer") or {})
    if server.get("certSANs"):
        server["certSANs"] = unique_names(server["certSANs"])
        result["apiServer"] = server
    return result


def registration(node_name: str, given: Mapping[str, Any], ignore: Sequence[str]) -> dict[str, Any]:
    """Return NodeRegistrationOptions: the node's name, the runtime's socket and what was given (taints, kubeletExtraArgs)."""
    result: dict[str, Any] = {"criSocket": CRI_SOCKET, "imagePullSerial": False, **given, "name": node_name}
    errors = unique_names([*(given.get("ignorePreflightErrors") or []), *ignore])
    if errors:
        result["ignorePreflightErrors"] = errors
    return result


def init_configuration(node_name: str, init: Mapping[str, Any], token: str, ignore: Sequence[str] = ()) -> dict[str, Any]:
    """Return an InitConfiguration whose only bootstrap token dies within two minutes: joins make their own."""
    return merged(
        {
            "apiVersion": API_VERSION,
            "kind": "InitConfiguration",
            "bootstrapTokens": [{"token": token, "ttl": "2m0s", "usages": ["authentication", "signing"]}],
        },
        {**init, "nodeRegistration": registration(node_name, init.get("nodeRegistration") or {}, ignore)},
    )


def join_configuration(
    *,
    node_name: str,
    endpoint: str,
    token: str,
    ca_cert_hashes: Sequence[str],
    node_registration: Mapping[str, Any],
    ignore: Sequence[str] = (),
    control_plane: Optional[Mapping[str, Any]] = None,
    skip_phases: Sequence[str] = (),
    timeouts: Optional[Mapping[str, str]] = None,
) -> dict[str, Any]:
    """Return a JoinConfiguration.

    endpoint: ``name:port``, IPv6 in brackets. ca_cert_hashes: ``sha256:<hex>`` of the CA's public key. control_plane:
    localAPIEndpoint and certificateKey of a further control-plane host.
    """
    result: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {"apiServerEndpoint": endpoint, "token": token, "caCertHashes": list(ca_cert_hashes)},
        },
        "nodeRegistration": registration(node_name, node_registration, ignore),
    }
    if control_plane is not None:
        result["controlPlane"] = dict(control_plane)
    if skip_phases:
        result["skipPhases"] = list(skip_phases)
    if timeouts:
        result["timeouts"] = dict(timeouts)
    return result


def preflight_name(kind: str, path: str) -> str:
    """Return kubeadm's name of a preflight error about a path, e.g. ``FileAvailable--etc-kubernetes-kubelet.conf``."""
    return f"{kind}-{path.replace('/', '-')}"


def explained_errors(
    manifests: Iterable[str], *, api_port: int, etcd_data: Optional[str], kubelet_configured: bool, files: Iterable[str] = ()
) -> list[str]:
    """Return exactly the preflight errors that an own, unfinished init or join explains.

    manifests: names of static pods whose manifest exists. etcd_data: etcd's directory when it holds data. files: paths that exist
    among those a join wants absent.
    """
    errors = []
    for name in sorted(manifests):
        errors.append(preflight_name("FileAvailable", f"{MANIFESTS}/{name}.yaml"))
        ports = (api_port,) if name == "kube-apiserver" else STATIC_POD_PORTS.get(name, ())
        errors += [f"Port-{port}" for port in ports]
    if etcd_data:
        errors.append(preflight_name("DirAvailable", etcd_data))
    if kubelet_configured:
        errors.append(f"Port-{KUBELET_PORT}")
    return errors + [preflight_name("FileAvailable", path) for path in files]


def leftover_changes(present: bool) -> list[Change]:
    """Plan the removal of a configuration that an interrupted run left."""
    if not present:
        return []
    what, before = f"file {CONFIGURATION}", "left by an interrupted run"
    return [Change(what, before, None, operation=RemoveFile(CONFIGURATION), secret=True)]


def recorded(host: Host, component: str) -> dict[str, Any]:
    """Return the data of a component's record, after waiting for a kubeadm that outlived the run which began it.

    Only then does the host hold what that run left. Raises :class:`BedplateError` when it does not end.
    """
    data = Record.load(host, component).data
    if data.get("phase") not in UNFINISHED:
        return data
    if host.run([*LOCK, "true"], timeout_seconds=LOCK_SECONDS + 10).rc == LOCK_HELD:
        raise BedplateError(f"cannot go on with what a run began: {STILL_RUNNING}")
    return Record.load(host, component).data


def run_kubeadm(
    host: Host, arguments: Sequence[str], configuration: str, *, purpose: str, timeout_seconds: float, next_step: str
) -> None:
    """Run kubeadm with a configuration that exists only while it runs.

    An earlier kubeadm that outlived its run is waited for (a lock file held by the process itself). Raises
    :class:`BedplateError` with the last lines of its output, scrubbed.
    """
    try:
        host.write(CONFIGURATION, configuration, 0o600)
        result = host.run([*LOCK, "kubeadm", *arguments, "--config", CONFIGURATION], timeout_seconds=timeout_seconds)
    finally:
        host.remove(CONFIGURATION)
    if result.rc == LOCK_HELD:
        raise BedplateError(f"cannot {purpose}: {STILL_RUNNING}")
    if not result.ok:
        lines = scrub(f"{result.out}\n{result.err}").strip().splitlines()
        tail = "\n".join(f"  {line}" for line in _telling(lines)[-14:])
        raise BedplateError(f"cannot {purpose}: kubeadm {' '.join(arguments)} answered {result.rc}:\n{tail}\nNext: {next_step}")


def _telling(lines: Sequence[str]) -> list[str]:
    """Return the lines an operator can use, without kubeadm's general advice and blank lines."""
    noise = ("To see the stack trace", "[certs]", "[kubeconfig] Writing", "[preflight] Pulling", "[preflight] This might")
    return [line.rstrip() for line in lines if line.strip() and not line.startswith(noise)]
