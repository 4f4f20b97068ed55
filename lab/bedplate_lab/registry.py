# SPDX-License-Identifier: Apache-2.0
"""A client of OCI registries: push an image that is kept as a layout, or pull one into a layout."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

import urllib3

from bedplate_lab import http, oci
from bedplate_lab.errors import LabError

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
ACCEPT = ", ".join((oci.INDEX, oci.MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST))


def split(reference: str) -> tuple[str, str, str]:
    """Registry host, repository and tag of a full image name, `registry.k8s.io/pause:3.10.2`."""
    host, _, rest = reference.partition("/")
    repository, _, tag = rest.rpartition(":")
    return host, repository, tag


@dataclass
class Registry:
    """A registry at a base URL (`https://registry.k8s.io`); `ca` is a PEM file to trust instead of the machine's own.

    Every method raises LabError that names the URL when the registry is unreachable or refuses.
    """

    url: str
    ca: Path | None = None
    _tokens: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pool = http.pool(self.url, self.ca)

    def digest(self, repository: str, tag: str) -> str | None:
        """The digest of the manifest under a tag, None when the registry has none."""
        response = self._request("HEAD", f"{repository}/manifests/{tag}", repository, {"Accept": ACCEPT}, allowed=(200, 404))
        return response.headers.get("Docker-Content-Digest") if response.status == 200 else None

    def push(self, layout: Path, repository: str, tag: str) -> bool:
        """Push the layout's image unless the tag is that image already; whether anything was sent."""
        descriptor = oci.manifest_of(layout)
        if self.digest(repository, tag) == descriptor["digest"]:
            return False
        manifest = oci.blob_path(layout, descriptor["digest"]).read_bytes()
        content = json.loads(manifest)
        for blob in (content["config"], *content["layers"]):
            self._push_blob(layout, repository, blob["digest"])
        headers = {"Content-Type": descriptor["mediaType"]}
        self._request("PUT", f"{repository}/manifests/{tag}", repository, headers, body=manifest, allowed=(201,))
        return True

    def pull(self, repository: str, tag: str, reference: str, target: Path) -> None:
        """Fill the empty directory `target` with a layout of the linux/amd64 image under a tag, every digest checked."""
        blobs = target / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        media_type, content = self._manifest(repository, tag)
        if media_type in (oci.INDEX, DOCKER_INDEX):
            media_type, content = self._manifest(repository, self._select(json.loads(content), repository, tag))
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        oci.blob_path(target, digest).write_bytes(content)
        manifest = json.loads(content)
        for blob in (manifest["config"], *manifest["layers"]):
            self._pull_blob(repository, blob["digest"], oci.blob_path(target, blob["digest"]))
        oci.finish(target, reference, {"mediaType": media_type, "digest": digest, "size": len(content)})

    def _manifest(self, repository: str, reference: str) -> tuple[str, bytes]:
        response = self._request("GET", f"{repository}/manifests/{reference}", repository, {"Accept": ACCEPT})
        content = response.data
        if reference.startswith("sha256:"):
            self._check(content_digest=hashlib.sha256(content).hexdigest(), wanted=reference, what=repository)
        return response.headers.get("Content-Type", "").partition(";")[0], content

    def _select(self, index: Mapping[str, Any], repository: str, tag: str) -> str:
        for entry in index["manifests"]:
            platform = entry.get("platform", {})
            if platform.get("os") == "linux" and platform.get("architecture") == "amd64":
                return str(entry["digest"])
        raise LabError(f"{self.url}: {repository}:{tag} has no image for linux/amd64")

    def _pull_blob(self, repository: str, digest: str, target: Path) -> None:
        if target.exists():
            return
        url = f"{self.url}/v2/{repository}/blobs/{digest}"
        with http.named(url):
            found = http.save(self._request("GET", url, repository, {}, stream=True), target)
        self._check(content_digest=found, wanted=digest, what=repository)

    def _push_blob(self, layout: Path, repository: str, digest: str) -> None:
        head = self._request("HEAD", f"{repository}/blobs/{digest}", repository, {}, allowed=(200, 404))
        if head.status == 200:
            return
        begun = self._request("POST", f"{repository}/blobs/uploads/", repository, {}, allowed=(202,))
        location = urljoin(self.url, begun.headers["Location"])
        location += ("&" if "?" in location else "?") + urlencode({"digest": digest})
        path = oci.blob_path(layout, digest)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(path.stat().st_size)}
        with path.open("rb") as handle:
            self._request("PUT", location, repository, headers, body=handle, allowed=(201,))

    def _check(self, *, content_digest: str, wanted: str, what: str) -> None:
        if f"sha256:{content_digest}" != wanted:
            raise LabError(f"{self.url}: {what}: the content has the digest sha256:{content_digest}, {wanted} was wanted")

    def _request(
        self,
        method: str,
        path: str,
        repository: str,
        headers: Mapping[str, str],
        *,
        body: Any = None,
        stream: bool = False,
        allowed: tuple[int, ...] = (200,),
    ) -> urllib3.BaseHTTPResponse:
        url = path if path.startswith("http") else f"{self.url}/v2/{path}"
        with http.named(url):
            response = self._send(method, url, headers, body, stream, repository)
            if response.status == 401 and repository not in self._tokens:
                self._tokens[repository] = self._token(response.headers.get("WWW-Authenticate", ""), url)
                response = self._send(method, url, headers, body, stream, repository)
        if response.status not in allowed:
            detail = "" if stream or method == "HEAD" else f": {response.data[:300].decode(errors='replace').strip()}"
            raise LabError(f"{method} {url}: the registry answered {response.status}{detail}")
        return response

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: Any, stream: bool, repository: str
    ) -> urllib3.BaseHTTPResponse:
        token = self._tokens.get(repository)
        sent = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        return self._pool.request(method, url, headers=sent, body=body, preload_content=not stream, decode_content=False)

    def _token(self, challenge: str, url: str) -> str:
        """An anonymous pull token from the server the challenge names."""
        fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        if not challenge.startswith("Bearer") or "realm" not in fields:
            raise LabError(f"{url}: the registry wants a login ({challenge or 'no challenge'}); only public images are taken")
        realm = fields.pop("realm")
        with http.named(realm):
            response = self._pool.request("GET", f"{realm}?{urlencode(fields)}")
        if response.status != 200:
            raise LabError(f"{realm}: no pull token, the server answered {response.status}")
        answer = response.json()
        return str(answer.get("token") or answer["access_token"])
