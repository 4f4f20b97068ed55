# SPDX-License-Identifier: Apache-2.0
"""A local server with the layout of upstream's: release artifacts with their checksums, and a registry."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from bedplate_lab import oci, upstream, versions
from bedplate_lab.versions import Component

TOKEN = "let-me-in"


@dataclass
class Upstream:
    """What the server answers: path to content type and content. `asked` lists the paths of all requests."""

    url: str = ""
    answers: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    wants_token: bool = False

    def artifact(self, url: str, content: bytes, checksum: str | None = None) -> None:
        """Offer a release artifact, its URL being upstream's own."""
        self.answers[upstream.located(url, "")] = ("application/octet-stream", content)
        if checksum:
            line = f"{hashlib.sha256(content).hexdigest()}  {url.rpartition('/')[2]}\n"
            self.answers[upstream.located(checksum, "")] = ("text/plain", line.encode())

    def release(self, component: Component, programs: tuple[str, ...]) -> None:
        """Offer what the component's row names: one file per program, or an archive of all."""
        if component.upstream and "{binary}" in component.upstream:
            for name in programs:
                url, checksum = component.artifact(name), component.artifact_checksum(name)
                assert url
                self.artifact(url, program(name), checksum)
        elif component.upstream:
            self.artifact(component.upstream, archive(*programs), component.checksum)

    def everything(self) -> None:
        """Offer all that `--source upstream` takes."""
        for name, programs in upstream.needed().items():
            self.release(versions.load()[name], programs or ("bridge", "loopback"))
        for row in versions.load().values():
            for reference in row.images:
                self.image(reference, reference.encode())

    def image(self, reference: str, content: bytes) -> str:
        """Offer an image for two platforms under its upstream name; the digest of the manifest for amd64."""
        name, _, tag = reference.rpartition(":")
        descriptors = []
        for architecture in ("arm64", "amd64"):
            blobs = [self.blob(name, json.dumps({"architecture": architecture}).encode()), self.blob(name, content)]
            manifest = {
                "schemaVersion": 2,
                "mediaType": oci.MANIFEST,
                "config": {"mediaType": oci.CONFIG, **blobs[0]},
                "layers": [{"mediaType": oci.LAYER, **blobs[1]}],
            }
            entry = self.manifest(name, manifest, oci.MANIFEST)
            descriptors.append({**entry, "platform": {"os": "linux", "architecture": architecture}})
        index = {"schemaVersion": 2, "mediaType": oci.INDEX, "manifests": descriptors}
        self.answers[f"/v2/{name}/manifests/{tag}"] = (oci.INDEX, json.dumps(index).encode())
        return str(descriptors[1]["digest"])

    def blob(self, name: str, content: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.answers[f"/v2/{name}/blobs/{digest}"] = ("application/octet-stream", content)
        return {"digest": digest, "size": len(content)}

    def manifest(self, name: str, value: dict[str, Any], media_type: str) -> dict[str, Any]:
        content = json.dumps(value).encode()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.answers[f"/v2/{name}/manifests/{digest}"] = (media_type, content)
        return {"mediaType": media_type, "digest": digest, "size": len(content)}


def program(name: str) -> bytes:
    """The content of a released program: it says its name."""
    return f"#!/bin/sh\necho {name}\n".encode()


def archive(*names: str) -> bytes:
    """A release archive with the programs in a directory, and a file that is no program."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, mode in [*((f"bin/{name}", 0o755) for name in names), ("README.md", 0o644)]:
            content = program(name.rpartition("/")[2])
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@contextmanager
def serving() -> Iterator[Upstream]:
    """The server on a free port of 127.0.0.1 while the block runs."""
    upstream_server = Upstream()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            upstream_server.asked.append(self.path)
            if self.path.startswith("/token"):
                self.answer(200, "application/json", json.dumps({"token": TOKEN}).encode())
            elif (
                upstream_server.wants_token
                and self.path.startswith("/v2/")
                and self.headers["Authorization"] != f"Bearer {TOKEN}"
            ):
                realm = f'Bearer realm="{upstream_server.url}/token",service="registry",scope="repository:any:pull"'
                self.answer(401, "application/json", b"{}", {"WWW-Authenticate": realm})
            elif self.path in upstream_server.answers:
                self.answer(200, *upstream_server.answers[self.path])
            else:
                self.answer(404, "text/plain", b"not here")

        def answer(self, status: int, media_type: str, content: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for key, value in {"Content-Type": media_type, "Content-Length": str(len(content)), **(headers or {})}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the tests' output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    upstream_server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield upstream_server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
