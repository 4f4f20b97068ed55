# SPDX-License-Identifier: Apache-2.0
"""Packages, the signed apt repository, images and certificates, from stand-in programs."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from cryptography import x509

from bedplate_lab import aptrepo, ca, debs, oci, paths, versions
from bedplate_lab.debs import Package
from bedplate_lab.errors import LabError
from bedplate_lab.report import silent


@pytest.fixture
def programs() -> Path:
    """A directory of programs as a build leaves it."""
    directory = paths.cache("build", "any", "1.0-abc", "bin")
    directory.mkdir(parents=True)
    names = {name for package in debs.packages().values() for _, name in package.programs} | {"loopback"}
    for name in names:
        (directory / name).write_text(f"#!/bin/sh\necho {name}\n")
    return directory


def deb_fields(deb: Path) -> dict[str, str]:
    text = subprocess.run(["dpkg-deb", "--field", str(deb)], check=True, capture_output=True, text=True).stdout
    return dict(line.split(": ", 1) for line in text.splitlines() if not line.startswith(" "))


def deb_files(deb: Path) -> dict[str, str]:
    """Path to mode and owner of every file and directory in a package."""
    text = subprocess.run(["dpkg-deb", "--contents", str(deb)], check=True, capture_output=True, text=True).stdout
    return {line.split()[5].removeprefix("."): " ".join(line.split()[:2]) for line in text.splitlines()}


def deb_text(deb: Path, path: str) -> str:
    content = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(deb)], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        member = tar.extractfile(f".{path}")
        assert member is not None
        return member.read().decode()


def deb_script(deb: Path, name: str) -> str:
    return subprocess.run(["dpkg-deb", "--info", str(deb), name], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("name", "component", "revision", "program"),
    [
        ("kubeadm", "kubernetes", "1.1", "/usr/bin/kubeadm"),
        ("kubelet", "kubernetes", "1.1", "/usr/bin/kubelet"),
        ("kubectl", "kubernetes", "1.1", "/usr/bin/kubectl"),
        ("cri-tools", "cri-tools", "1.1", "/usr/bin/crictl"),
        ("kubernetes-cni", "cni-plugins", "1.1", "/opt/cni/bin/loopback"),
        ("containerd", "containerd", "1", "/usr/bin/containerd-shim-runc-v2"),
    ],
)
def test_packages_bear_upstreams_names_versions_and_paths(
    programs: Path, name: str, component: str, revision: str, program: str
) -> None:
    deb = debs.pack(debs.packages()[name], programs, silent)
    fields = deb_fields(deb)
    version = f"{versions.load()[component].version}-{revision}"
    assert (fields["Package"], fields["Version"], fields["Architecture"]) == (name, version, "amd64")
    assert deb_files(deb)[program] == "-rwxr-xr-x root/root"
    assert all(owner.endswith("root/root") for owner in deb_files(deb).values())


def test_kubelet_runs_as_kubeadm_wants(programs: Path) -> None:
    kubeadm = debs.pack(debs.packages()["kubeadm"], programs, silent)
    dropin = "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf"
    assert dropin in deb_files(kubeadm)
    text = deb_text(kubeadm, dropin)
    assert "EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env" in text
    assert "EnvironmentFile=-/etc/default/kubelet" in text
    assert "--config=/var/lib/kubelet/config.yaml" in text
    starts = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    assert starts[0] == "ExecStart="
    assert starts[1].split()[1:] == [
        "$KUBELET_KUBECONFIG_ARGS",
        "$KUBELET_CONFIG_ARGS",
        "$KUBELET_KUBEADM_ARGS",
        "$KUBELET_EXTRA_ARGS",
    ]


def test_services_are_neither_enabled_nor_started_and_end_with_the_package(programs: Path) -> None:
    deb = debs.pack(debs.packages()["containerd"], programs, silent)
    assert "/usr/lib/systemd/system/containerd.service" in deb_files(deb)
    commands = re.findall(r"systemctl ([^\n]+)", deb_script(deb, "postinst"))
    assert commands == ["daemon-reload"]
    assert "systemctl disable --now containerd.service" in deb_script(deb, "prerm")


def test_a_package_is_packed_once_and_the_same_again(programs: Path) -> None:
    package = debs.packages()["kubelet"]
    said: list[str] = []
    first = debs.pack(package, programs, said.append)
    digest = hashlib.sha256(first.read_bytes()).hexdigest()
    assert debs.pack(package, programs, said.append) == first
    assert said == [f"pack kubelet {package.version}"]
    first.unlink()
    assert hashlib.sha256(debs.pack(package, programs, silent).read_bytes()).hexdigest() == digest


def test_a_missing_program_is_named_and_nothing_is_left(programs: Path) -> None:
    (programs / "crictl").unlink()
    with pytest.raises(LabError, match="cri-tools: crictl is not among the programs of cri-tools"):
        debs.pack(debs.packages()["cri-tools"], programs, silent)
    assert list(paths.cache("debs").iterdir()) == []


@pytest.fixture
def repository(programs: Path) -> Path:
    target = paths.cache("depot", "apt")
    packed = [debs.pack(debs.packages()[name], programs, silent) for name in ("kubelet", "containerd")]
    assert aptrepo.publish(packed, target)
    assert not aptrepo.publish(packed, target), "the same packages are not published twice"
    return target


def paragraphs(text: str) -> list[dict[str, str]]:
    return [dict(line.split(": ", 1) for line in part.splitlines() if ": " in line) for part in text.strip().split("\n\n")]


def test_the_index_names_every_package_with_its_hash(repository: Path) -> None:
    binary = repository / "dists/bookworm/main/binary-amd64"
    rows = paragraphs((binary / "Packages").read_text())
    assert sorted(row["Package"] for row in rows) == ["containerd", "kubelet"]
    for row in rows:
        assert re.fullmatch(rf"pool/{row['Package']}_{re.escape(row['Version'])}_amd64\.deb", row["Filename"])
        assert hashlib.sha256((repository / row["Filename"]).read_bytes()).hexdigest() == row["SHA256"]
    assert gzip.decompress((binary / "Packages.gz").read_bytes()) == (binary / "Packages").read_bytes()


def test_the_release_is_signed_by_the_depots_key(repository: Path, tmp_path: Path) -> None:
    release = (repository / "dists/bookworm/Release").read_text()
    assert "Suite: bookworm" in release and "Components: main" in release
    packages = repository / "dists/bookworm/main/binary-amd64/Packages"
    assert hashlib.sha256(packages.read_bytes()).hexdigest() in release
    assert verify(repository / "dists/bookworm/InRelease", repository / "depot.asc", tmp_path) == 0
    forged = tmp_path / "InRelease"
    forged.write_text((repository / "dists/bookworm/InRelease").read_text().replace("Suite: bookworm", "Suite: trixie"))
    assert verify(forged, repository / "depot.asc", tmp_path) != 0


def verify(signed: Path, key: Path, work: Path) -> int:
    keyring = work / "keyring.gpg"
    subprocess.run(["gpg", "--yes", "--dearmor", "--output", str(keyring), str(key)], check=True, capture_output=True)
    return subprocess.run(["gpgv", "--keyring", str(keyring), str(signed)], check=False, capture_output=True).returncode


def test_the_key_stays_the_same_and_private(repository: Path, programs: Path) -> None:
    before = aptrepo.public_key(repository)
    assert "BEGIN PGP PUBLIC KEY BLOCK" in before and "PRIVATE" not in before
    packed = debs.pack(debs.packages()["kubectl"], programs, silent)
    assert aptrepo.publish([packed], repository)
    assert aptrepo.public_key(repository) == before
    assert paths.cache("keys", "depot.gpg").stat().st_mode & 0o077 == 0
    assert [path.name.partition("_")[0] for path in (repository / "pool").iterdir()] == ["kubectl"]


def test_epochs_and_cache_keys_stay_out_of_the_pools_names(programs: Path) -> None:
    package = Package("demo", "etcd", "1:2.0-1", "A demonstration", directories=("etc/demo",))
    packed = debs.pack(package, programs, silent)
    named = packed.with_name("demo_1%3a2.0-1_amd64.deb")
    packed.rename(named)
    aptrepo.publish([named], paths.cache("depot", "apt"))
    assert [path.name for path in paths.cache("depot", "apt", "pool").iterdir()] == ["demo_2.0-1_amd64.deb"]


def test_the_same_files_give_the_same_image(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_text("program")
    digests = []
    for name in ("one", "two"):
        layer = tmp_path / f"{name}.tar"
        with oci.Layer(layer) as writer:
            writer.file("usr/bin/pause", program)
            writer.link("pause", "usr/bin/pause")
        digests.append(oci.write(tmp_path / name, "registry.k8s.io/pause:1", [layer], oci.Settings(("/pause",))))
    assert digests[0] == digests[1]
    with tarfile.open(tmp_path / "one.tar") as tar:
        assert [(member.name, oct(member.mode)) for member in tar] == [
            ("usr", "0o755"),
            ("usr/bin", "0o755"),
            ("usr/bin/pause", "0o755"),
            ("pause", "0o777"),
        ]
    manifest = json.loads(oci.blob_path(tmp_path / "one", digests[0]).read_text())
    config = json.loads(oci.blob_path(tmp_path / "one", manifest["config"]["digest"]).read_text())
    assert config["config"]["Entrypoint"] == ["/pause"]
    assert config["rootfs"]["diff_ids"] == [oci.sha256(tmp_path / "one.tar")]


def test_the_leaf_is_renewed_when_names_or_ca_change(tmp_path: Path) -> None:
    authority = ca.ensure()
    names = ("depot.lab.bedplate.test", "10.87.0.2")
    certificate, key = ca.leaf(authority, tmp_path / "tls", names)
    first = certificate.read_bytes()
    assert ca.leaf(ca.ensure(), tmp_path / "tls", names)[0].read_bytes() == first
    loaded = x509.load_pem_x509_certificate(first)
    loaded.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate.read_bytes()))
    assert {path.stat().st_mode & 0o777 for path in (key, authority.key)} == {0o600}

    ca.leaf(authority, tmp_path / "tls", (*names, "api.lab.bedplate.test"))
    second = certificate.read_bytes()
    assert second != first
    authority.key.unlink()
    ca.leaf(ca.ensure(), tmp_path / "tls", (*names, "api.lab.bedplate.test"))
    assert certificate.read_bytes() != second
