# SPDX-License-Identifier: Apache-2.0
"""`--source upstream` against a local server with upstream's layout, and against none."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from upstream_server import Upstream, archive, program, serving

from bedplate_lab import components, depot, oci, paths, upstream, versions
from bedplate_lab.errors import LabError
from bedplate_lab.registry import Registry
from bedplate_lab.report import silent


@pytest.fixture
def server() -> Iterator[Upstream]:
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def nothing_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built also with this source: programs for simulated GPUs."""

    def build_all(names: Collection[str], _: object) -> dict[str, Path]:
        assert set(names) == set(components.ALWAYS_BUILT)
        return {name: paths.cache("build", name, "stand-in", "bin") for name in names}

    monkeypatch.setattr(components, "build_all", build_all)


def left_behind() -> list[str]:
    """Names of what failed downloads left in the cache."""
    return [path.name for kind in ("build", "images") for path in paths.cache(kind).glob("**/*") if path.is_file()]


def test_all_programs_come_from_releases(server: Upstream) -> None:
    server.everything()
    programs = depot.collect("upstream", silent, server.url)
    for component, names in upstream.needed().items():
        for name in names or ("bridge", "loopback"):
            path = programs[component] / name
            assert path.read_bytes() == program(name)
            assert path.stat().st_mode & 0o111
    assert not (programs["cni-plugins"] / "README.md").exists()
    server.asked.clear()
    assert depot.collect("upstream", silent, server.url) == programs
    assert server.asked == [], "what the cache holds is not asked for again"


@pytest.mark.parametrize("token", [False, True])
def test_images_come_from_registries_by_digest(server: Upstream, token: bool) -> None:
    server.wants_token = token
    digest = server.image("registry.k8s.io/pause:3.10.2", b"layer")
    layout = upstream.image("registry.k8s.io/pause:3.10.2", silent, server.url)
    descriptor = oci.manifest_of(layout)
    assert descriptor["digest"] == digest
    assert descriptor["annotations"]["org.opencontainers.image.ref.name"] == "registry.k8s.io/pause:3.10.2"
    assert {path.name for path in (layout / "blobs" / "sha256").iterdir()} >= {digest.removeprefix("sha256:")}


def test_a_wrong_checksum_is_named_and_nothing_is_kept(server: Upstream) -> None:
    row = versions.load()["cri-tools"]
    server.release(row, ("crictl",))
    assert row.upstream
    server.artifact(row.upstream, archive("crictl", "more"))
    with pytest.raises(LabError, match=r"crictl-.*tar\.gz: its SHA-256 is [0-9a-f]{64}, the published one is [0-9a-f]{64}"):
        upstream.fetch(row, ("crictl",), silent, server.url)
    assert left_behind() == []
    server.release(row, ("crictl",))
    assert (upstream.fetch(row, ("crictl",), silent, server.url) / "crictl").read_bytes() == program("crictl")


def test_a_checksum_file_without_a_checksum_is_refused(server: Upstream) -> None:
    row = versions.load()["cri-tools"]
    assert row.upstream and row.checksum
    server.artifact(row.upstream, archive("crictl"))
    server.answers[upstream.located(row.checksum, "")] = ("text/html", b"<html>log in first</html>")
    with pytest.raises(LabError, match=r"sha256: no SHA-256 in it \(found '<html>log in first</html>'\)"):
        upstream.fetch(row, ("crictl",), silent, server.url)


def test_an_archive_without_the_program_is_refused(server: Upstream) -> None:
    row = versions.load()["cri-tools"]
    server.release(row, ("something-else",))
    with pytest.raises(LabError, match="the archive lacks crictl"):
        upstream.fetch(row, ("crictl",), silent, server.url)
    assert left_behind() == []


def test_a_version_that_was_not_released_is_said_so(server: Upstream) -> None:
    with pytest.raises(LabError, match=r"/dl\.k8s\.io/release/.*/kubeadm.sha256: the server answered 404.*released\?"):
        upstream.fetch(versions.load()["kubernetes"], ("kubeadm",), silent, server.url)


def test_an_image_that_is_not_there_is_named(server: Upstream) -> None:
    with pytest.raises(LabError, match=r"v2/registry\.k8s\.io/pause/manifests/9: the registry answered 404: not here"):
        upstream.image("registry.k8s.io/pause:9", silent, server.url)
    assert left_behind() == []


def test_a_blob_of_another_content_is_refused(server: Upstream) -> None:
    server.image("registry.k8s.io/pause:1", b"layer")
    for path in server.answers:
        if "/blobs/" in path:
            server.answers[path] = ("application/octet-stream", b"forged")
    with pytest.raises(LabError, match=r"the content has the digest sha256:[0-9a-f]{64}, sha256:[0-9a-f]{64} was wanted"):
        upstream.image("registry.k8s.io/pause:1", silent, server.url)
    assert left_behind() == []


def test_an_image_without_our_platform_is_refused(server: Upstream) -> None:
    server.image("registry.k8s.io/pause:1", b"layer")
    media_type, index = server.answers["/v2/registry.k8s.io/pause/manifests/1"]
    server.answers["/v2/registry.k8s.io/pause/manifests/1"] = (media_type, index.replace(b"amd64", b"riscv64"))
    with pytest.raises(LabError, match=r"registry\.k8s\.io/pause:1 has no image for linux/amd64"):
        upstream.image("registry.k8s.io/pause:1", silent, server.url)


def test_an_unreachable_server_is_named_with_the_way_out() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with pytest.raises(LabError, match=rf"(?s){url}/.*is unreachable: .*--upstream-url.*--source build needs neither"):
        depot.collect("upstream", silent, url)
    with pytest.raises(LabError, match=rf"{url}/v2/registry.k8s.io/pause/manifests/1 is unreachable"):
        Registry(url).pull("registry.k8s.io/pause", "1", "registry.k8s.io/pause:1", paths.cache("images", "x"))


def test_upstreams_own_urls_are_used_without_a_stand_in() -> None:
    row = versions.load()["kubernetes"]
    url = row.artifact("kubeadm")
    assert url == f"https://dl.k8s.io/release/v{row.version}/bin/linux/amd64/kubeadm"
    assert upstream.located(url, None) == url
    assert upstream.located(url, "http://mirror/") == f"http://mirror/dl.k8s.io/release/v{row.version}/bin/linux/amd64/kubeadm"
