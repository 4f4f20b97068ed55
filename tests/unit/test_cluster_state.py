# SPDX-License-Identifier: Apache-2.0
"""Finding the cluster: kubeconfigs of control-plane hosts, one after another, over real TLS."""

from __future__ import annotations

import base64
import hashlib
import os
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.plugin_utils import cluster_state, join_credentials, runtime_directory
from ansible_collections.bedplate.metal.plugins.plugin_utils.cluster_state import Search, facts, fingerprint
from ansible_collections.bedplate.metal.plugins.plugin_utils.kube import Api, KubeError, set_server
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from fake_api import FakeApi, Served, kubeconfig_text, node

CONTROL_PLANE = ["cp1", "cp2"]


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def certificate(name: str) -> tuple[bytes, bytes]:
    """A self-signed certificate for a name, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made.public_bytes(serialization.Encoding.PEM), private


def admin_conf() -> tuple[str, bytes]:
    authority, _key = certificate("kubernetes")
    return kubeconfig_text("https://api.lab.test:6443", base64.b64encode(authority).decode()), authority


def search_with(monkeypatch: pytest.MonkeyPatch, reachable: set[str]) -> Search:
    """A search whose API answers only at some addresses."""

    class FakeKube:
        def __init__(self, path: Path) -> None:
            self.server = yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"]

        def nodes(self) -> list[dict[str, Any]]:
            if self.server not in reachable:
                raise KubeError("no answer")
            return [node("w1"), node("cp1", ready=False)]

    monkeypatch.setattr(cluster_state, "Api", FakeKube)
    return Search()


def test_a_new_cluster_is_initialised_by_the_first_host_and_the_others_join(monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_with(monkeypatch, set())
    for host in CONTROL_PLANE:
        search.take(host, None, "", "lab")
    found = facts(search, ["cp1", "cp2", "w1"], {}, CONTROL_PLANE, classes=True)
    assert found["bedplate_kubeconfig"] is None
    assert found["bedplate_cluster"]["init_host"] == "cp1" and not found["bedplate_cluster"]["exists"]
    assert found["bedplate_joining"] == {"control_plane": ["cp2"], "worker": ["w1"]}


def test_the_first_kubeconfig_whose_api_answers_is_taken(monkeypatch: pytest.MonkeyPatch, runtime: Path) -> None:
    search = search_with(monkeypatch, {"https://192.0.2.12:6443"})
    text, authority = admin_conf()
    search.take("cp1", text, "192.0.2.11", "lab")
    assert not search.answered and search.error
    search.take("cp2", text, "192.0.2.12", "lab")
    observed = {"w1": {"state": "complete", "ca_sha256": fingerprint(authority), "ours": True}}
    found = facts(search, ["w1"], observed, CONTROL_PLANE, classes=True)
    assert found["bedplate_cluster"]["source"] == "cp2" and found["bedplate_cluster"]["reachable"]
    assert found["bedplate_classes"]["w1"]["class"] == "member"
    assert found["bedplate_joining"] == {"control_plane": [], "worker": []}
    path = Path(found["bedplate_kubeconfig"])
    assert path.is_relative_to(runtime)
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)


def test_two_clusters_of_one_name_do_not_take_each_others_kubeconfig(monkeypatch: pytest.MonkeyPatch, runtime: Path) -> None:
    paths = []
    for address in ("192.0.2.11", "192.0.2.12"):
        search = search_with(monkeypatch, {f"https://{address}:6443"})
        search.take("cp1", admin_conf()[0], address, "lab")
        paths.append(search.path)
    first, second = paths
    assert first and second and first != second
    assert "192.0.2.11" in first.read_text() and "192.0.2.12" in second.read_text()


def test_ipv6_addresses_are_bracketed_in_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    search = search_with(monkeypatch, {"https://[fd00::11]:6443"})
    search.take("cp1", admin_conf()[0], "fd00::11", "lab")
    assert search.answered


def test_a_refresh_returns_no_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = facts(search_with(monkeypatch, set()), ["w1"], {}, CONTROL_PLANE, classes=False)
    assert "bedplate_classes" not in found and "bedplate_joining" not in found


def test_an_open_runtime_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bedplate").mkdir(mode=0o700)
    os.chmod(tmp_path / "bedplate", 0o755)
    with pytest.raises(BedplateError, match="wanted owner"):
        runtime_directory.runtime_directory("lab")


def ended_process() -> int:
    with subprocess.Popen(["true"]) as process:
        return process.pid


def test_a_run_removes_its_kubeconfigs_and_those_of_killed_runs_only(runtime: Path) -> None:
    running = runtime_directory.kubeconfig_path("lab", "ab" * 32, os.getppid())
    killed = runtime_directory.kubeconfig_path("other", "cd" * 32, ended_process())
    half_written = killed.with_name(f".{killed.name}.new-x1")
    for path in (running, killed, half_written):
        runtime_directory.write_private(path, "secret")
    own = runtime_directory.kubeconfig_path("lab", "ab" * 32, os.getpid())
    runtime_directory.write_private(own, "secret")
    assert running.exists() and not killed.exists() and not half_written.exists()
    runtime_directory.forget(os.getpid())
    assert list(runtime.glob("bedplate/*/*")) == [running]


KEEP = """
from ansible.plugins.action import ActionBase
from ansible_collections.bedplate.metal.plugins.plugin_utils.cluster_state import Search
from ansible_collections.bedplate.metal.plugins.plugin_utils.runtime_directory import kubeconfig_path, write_private

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        path = kubeconfig_path("lab", "ab" * 32, Search().run)
        write_private(path, "secret")
        return {"failed": True, "msg": f"kept {path}"}
"""


def test_a_real_run_leaves_no_kubeconfig_although_it_fails(root: Path, runtime: Path) -> None:
    (runtime / "action_plugins").mkdir()
    (runtime / "action_plugins" / "keep.py").write_text(KEEP)
    (runtime / "play.yml").write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [{"keep": {}}]}]))
    env = {**os.environ, "ANSIBLE_CONFIG": str(root / "ansible.cfg"), "ANSIBLE_LOCALHOST_WARNING": "false"}
    program = Path(sys.executable).with_name("ansible-playbook")
    result = subprocess.run([program, runtime / "play.yml"], capture_output=True, text=True, env=env, timeout=60, check=False)
    assert f"kept {runtime}/bedplate/lab/kubeconfig-" in result.stdout, result.stdout + result.stderr
    assert list((runtime / "bedplate" / "lab").iterdir()) == []


def test_the_server_is_checked_for_the_name_kubernetes_at_any_address(tmp_path: Path) -> None:
    authority, key = certificate("kubernetes")
    pem = tmp_path / "server.pem"
    pem.write_bytes(authority + key)
    fake = FakeApi()
    fake.add("/api/v1/nodes/w1", node("w1"))
    served = Served(fake, tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    served.server.socket = context.wrap_socket(served.server.socket, server_side=True)
    text = kubeconfig_text("https://api.lab.test:6443", base64.b64encode(authority).decode())
    path = tmp_path / "admin"
    path.write_text(set_server(text, f"https://127.0.0.1:{served.server.server_port}"))
    stranger = tmp_path / "stranger"
    other = kubeconfig_text("https://x", base64.b64encode(certificate("kubernetes")[0]).decode())
    stranger.write_text(set_server(other, f"https://127.0.0.1:{served.server.server_port}"))
    with served:
        assert [n["metadata"]["name"] for n in Api(path).nodes()] == ["w1"]
        with pytest.raises(BedplateError, match="no answer"):
            Api(stranger).nodes()


def test_join_credentials_are_a_token_that_dies_and_the_hash_kubeadm_pins(tmp_path: Path) -> None:
    fake = FakeApi()
    authority, _key = certificate("kubernetes")
    with Served(fake, tmp_path) as kubeconfig:
        text = kubeconfig_text(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
        data = yaml.safe_load(text)
        data["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(authority).decode()
        kubeconfig.write_text(yaml.safe_dump(data))
        made = join_credentials.make(str(kubeconfig), 1800, datetime(2026, 1, 1, tzinfo=UTC))
        identity, secret = made["token"].split(".")
        path = f"{join_credentials.SECRETS}/bootstrap-token-{identity}"
        stored = fake.objects[path]["stringData"]
        assert stored["token-secret"] == secret and stored["expiration"] == "2026-01-01T00:30:00Z"
        assert made["ca_cert_hashes"][0].startswith("sha256:") and len(made["ca_cert_hashes"][0]) == 71
        owner = {"kind": "Secret", "name": "bootstrap-token-owner1"}
        fake.add(f"{join_credentials.SECRETS}/bootstrap-token-owner1", {})
        fake.add(f"{join_credentials.SECRETS}/kubeadm-certs", {"metadata": {"ownerReferences": [owner]}})
        fake.add(f"{join_credentials.SECRETS}/bootstrap-token-others", {})
        join_credentials.withdraw(str(kubeconfig), made["token"])
    assert list(fake.objects) == [f"{join_credentials.SECRETS}/bootstrap-token-others"]


def test_the_pinned_hash_is_what_openssl_computes() -> None:
    authority, _key = certificate("kubernetes")
    public = subprocess.run(["openssl", "x509", "-pubkey", "-noout"], input=authority, capture_output=True, check=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=public, capture_output=True, check=True).stdout
    assert join_credentials.public_key_hash(authority) == f"sha256:{hashlib.sha256(der).hexdigest()}"
