# SPDX-License-Identifier: Apache-2.0
"""The endpoint's probe against real TLS servers on this machine."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils import endpoint_probe
from ansible_collections.bedplate.metal.plugins.module_utils.host import LocalHost

from bedplate_lab import ca

NAME = "api.example.test"


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ca.Authority:
    """A cluster's CA, where the probe looks for it."""
    monkeypatch.setattr(ca, "state", lambda *parts: tmp_path.joinpath("cluster", *parts))
    made = ca.ensure()
    monkeypatch.setattr(endpoint_probe, "CA_CERTIFICATE", str(made.certificate))
    monkeypatch.setattr(endpoint_probe, "ANSWER_SECONDS", 2)
    return made


@contextlib.contextmanager
def listening(files: tuple[Path, Path] | None) -> Iterator[int]:
    """A port that speaks TLS with a certificate and its key, or accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                if files is not None:
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    context.load_cert_chain(*files)
                    connection = context.wrap_socket(connection, server_side=True)
                while connection.recv(4096):
                    pass

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def ask(port: int) -> str | None:
    return endpoint_probe.wrong_answer(LocalHost(), NAME, "127.0.0.1", port)


def test_the_clusters_own_api_is_known_by_ca_and_name(authority: ca.Authority, tmp_path: Path) -> None:
    with listening(ca.leaf(authority, tmp_path / "right", [NAME])) as port:
        assert ask(port) is None


def test_another_name_or_another_clusters_ca_is_refused(
    authority: ca.Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(ca.leaf(authority, tmp_path / "name", ["other.example.test"])) as port:
        assert "Hostname mismatch" in str(ask(port))
    monkeypatch.setattr(ca, "state", lambda *parts: tmp_path.joinpath("other", *parts))
    with listening(ca.leaf(ca.ensure(), tmp_path / "ca", [NAME])) as port:
        assert "certificate" in str(ask(port))


def test_nothing_there_and_silence_end_in_time(authority: ca.Authority) -> None:
    with listening(None) as port:
        assert "timed out" in str(ask(port))
    assert f"127.0.0.1:{port}, which does not answer as this cluster: Connection refused" == ask(port)
