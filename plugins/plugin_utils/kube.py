# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes API from the controller: a kubeconfig and JSON over HTTPS.

A few requests per run do not pay for importing a whole client library; what needs more (server-side apply, drain) uses
kubernetes.core.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import yaml
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError

MERGE_PATCH = "application/merge-patch+json"
TIMEOUT_SECONDS = 15


class KubeError(BedplateError):
    """The API refused or did not answer. status: HTTP status, 0 when there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """The API of one cluster, as the client certificate of a kubeconfig allows."""

    def __init__(self, kubeconfig: str | Path, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Read a kubeconfig with embedded certificates; raise :class:`KubeError` when it is not one."""
        cluster, user = _current(Path(kubeconfig))
        self.server = str(cluster["server"])
        self._timeout_seconds = timeout_seconds
        self._server_name = cluster.get("tls-server-name")
        self._context = _tls_context(cluster, user, Path(kubeconfig).parent)
        self._connection: http.client.HTTPConnection | None = None

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Any:
        """Make one request and return the decoded answer (None when empty); raise :class:`KubeError` for a refusal or silence."""
        target = path + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body)
        headers = {"Accept": "application/json", "Content-Type": content_type}
        for attempt in (1, 2):  # a kept connection may have been closed by the server meanwhile: once more on a new one
            fresh = self._connection is None
            connection = self._connection or self._connect()
            try:
                connection.request(method, target, body=data, headers=headers)
                response = connection.getresponse()
                text = response.read().decode()
                break
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._connection = None
                if attempt == 2 or fresh:
                    raise KubeError(f"API {self.server}: {method} {path}: no answer ({error or type(error).__name__})") from error
        self._connection = connection
        answer = _decoded(text)
        if response.status >= 400:
            reason = answer.get("message") if isinstance(answer, dict) else text[:200]
            raise KubeError(f"API {self.server}: {method} {path}: {response.status} {reason}", response.status)
        return answer

    def get(self, path: str, **query: str) -> Any:
        """Return an object or list; query keys are the API's own (``labelSelector``)."""
        return self.request("GET", path, query=query or None)

    def find(self, path: str) -> Any:
        """Return an object, or None when there is none."""
        try:
            return self.get(path)
        except KubeError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: Any) -> Any:
        """Create an object in a collection's path."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: Any) -> Any:
        """Replace an object; with a resourceVersion a conflict (409) is refused."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH) -> Any:
        """Patch an object."""
        return self.request("PATCH", path, body, content_type=content_type)

    def delete(self, path: str, **query: str) -> None:
        """Delete an object; one that is gone already is fine."""
        try:
            self.request("DELETE", path, query=query or None)
        except KubeError as error:
            if error.status != 404:
                raise

    def nodes(self) -> list[dict[str, Any]]:
        """Return all Node objects, from one list call."""
        return list(self.get("/api/v1/nodes")["items"])

    def _connect(self) -> http.client.HTTPConnection:
        url = urlsplit(self.server)
        if url.scheme == "http":
            return http.client.HTTPConnection(str(url.hostname), url.port or 80, timeout=self._timeout_seconds)
        return _NamedConnection(
            str(url.hostname), url.port or 443, self._server_name, timeout=self._timeout_seconds, context=self._context
        )


class _NamedConnection(http.client.HTTPSConnection):
    """HTTPS whose certificate is checked against another name than the address dialled (kubeconfig's ``tls-server-name``)."""

    def __init__(self, host: str, port: int, name: str | None, *, timeout: float, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._name, self._tls = name or host, context

    def connect(self) -> None:
        """Connect and wrap; see :class:`http.client.HTTPSConnection`."""
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def node_path(name: str) -> str:
    """Return the API path of a Node."""
    return f"/api/v1/nodes/{quote(name)}"


def set_server(kubeconfig: str, server: str) -> str:
    """Return kubeconfig text that dials another address; the certificate is checked for ``kubernetes``, which it always has."""
    data = yaml.safe_load(kubeconfig)
    for entry in data["clusters"]:
        entry["cluster"].update({"server": server, "tls-server-name": "kubernetes"})
    return str(yaml.safe_dump(data, sort_keys=True))


def certificate_authority(kubeconfig: str) -> bytes:
    """Return the PEM of the CA that a kubeconfig text trusts."""
    data = yaml.safe_load(kubeconfig)
    return base64.b64decode(data["clusters"][0]["cluster"]["certificate-authority-data"])


def _current(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the cluster and user entries of a kubeconfig's current context."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        contexts = {entry["name"]: entry["context"] for entry in data["contexts"]}
        context = contexts[data["current-context"]]
        clusters = {entry["name"]: entry["cluster"] for entry in data["clusters"]}
        users = {entry["name"]: entry["user"] for entry in data["users"]}
        return clusters[context["cluster"]], users[context["user"]]
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        raise KubeError(
            f"kubeconfig {path}: not readable ({type(error).__name__}); wanted one with a current context. "
            "Next: run the cluster_state step, which fetches it from a control-plane host"
        ) from error


def _tls_context(cluster: Mapping[str, Any], user: Mapping[str, Any], directory: Path) -> ssl.SSLContext:
    """Return a TLS context that trusts the cluster's CA and presents the user's certificate."""
    context = ssl.create_default_context()
    if "certificate-authority-data" in cluster:
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "client-certificate-data" in user:
        pair = base64.b64decode(user["client-certificate-data"]) + b"\n" + base64.b64decode(user["client-key-data"])
        with _private_file(pair, directory) as name:
            context.load_cert_chain(name)
    return context


@contextmanager
def _private_file(data: bytes, directory: Path) -> Iterator[str]:
    """Hold secret data in a 0600 file beside the kubeconfig for as long as needed."""
    handle, name = tempfile.mkstemp(dir=directory, prefix=".pair-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        yield name
    finally:
        os.unlink(name)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text
