# SPDX-License-Identifier: Apache-2.0
"""A small Kubernetes API over real HTTP for the controller's own requests: objects in memory, merge patches, conflicts."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

COLLECTIONS = re.compile(r"/(nodes|pods|secrets|leases|configmaps)$")


@dataclass
class FakeApi:
    """objects: by path. requests: method and path of each request. on_create: called with a created object."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    on_create: Callable[[FakeApi, str, dict[str, Any]], None] = lambda api, path, body: None
    before: Callable[[FakeApi, str, str], None] = lambda api, method, path: None
    version: int = 100

    def add(self, path: str, body: dict[str, Any]) -> None:
        self.version += 1
        body.setdefault("metadata", {}).update(name=path.rpartition("/")[2], resourceVersion=str(self.version))
        self.objects[path] = body

    def node(self, name: str) -> dict[str, Any]:
        return self.objects[f"/api/v1/nodes/{name}"]

    def count(self, method: str, path: str) -> int:
        return self.requests.count((method, path))

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        self.requests.append((method, path))
        self.before(self, method, path)
        if method == "GET" and COLLECTIONS.search(path):
            return 200, {"items": [o for p, o in self.objects.items() if p.rpartition("/")[0] == path and selected(o, query)]}
        if method == "POST":
            target = f"{path}/{body['metadata']['name']}"
            if target in self.objects:
                return 409, {"message": "already exists"}
            self.add(target, body)
            self.on_create(self, target, body)
            return 201, body
        found = self.objects.get(path)
        if found is None:
            return 404, {"message": f"{path} not found"}
        if method == "DELETE":
            del self.objects[path]
            return 200, {}
        if method in ("PUT", "PATCH"):
            version = (body.get("metadata") or {}).get("resourceVersion")
            if version is not None and version != found["metadata"]["resourceVersion"]:
                return 409, {"message": "the object has been modified"}
            self.add(path, body if method == "PUT" else merge_patch(found, body))
        return 200, self.objects[path]

    def touch(self, path: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change an object as somebody else would."""
        body = json.loads(json.dumps(self.objects[path]))
        change(body)
        self.add(path, body)


def selected(item: dict[str, Any], query: dict[str, list[str]]) -> bool:
    labels = item["metadata"].get("labels") or {}
    wanted = [part.split("=") for text in query.get("labelSelector", []) for part in text.split(",")]
    return all(labels.get(key) == value for key, value in wanted)


def merge_patch(found: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(found) if isinstance(found, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


class Served:
    """The fake API on a port of the loopback interface, with a kubeconfig that points at it."""

    def __init__(self, api: FakeApi, directory: Path) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                url = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                status, answer = api.answer(self.command, url.path, parse_qs(url.query), body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(kubeconfig_text(f"http://127.0.0.1:{self.server.server_port}"), encoding="utf-8")

    def __enter__(self) -> Path:
        self.thread.start()
        return self.kubeconfig

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def kubeconfig_text(server: str, authority: str = "") -> str:
    cluster = {"server": server, **({"certificate-authority-data": authority} if authority else {})}
    return str(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "admin",
                "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )


def node(name: str, *, ready: bool = True, **changes: Any) -> dict[str, Any]:
    """A Node object; changes: labels, annotations, taints, unschedulable."""
    metadata = {"name": name, "labels": changes.get("labels", {}), "annotations": changes.get("annotations", {})}
    spec: dict[str, Any] = {"taints": changes.get("taints", [])}
    if changes.get("unschedulable"):
        spec["unschedulable"] = True
    condition = {
        "type": "Ready",
        "status": str(ready),
        "reason": "KubeletReady" if ready else "KubeletNotReady",
        "message": "cni",
    }
    return {"metadata": metadata, "spec": spec, "status": {"conditions": [condition]}}
