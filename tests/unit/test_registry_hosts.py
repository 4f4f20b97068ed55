# SPDX-License-Identifier: Apache-2.0
"""Mirrors as hosts.toml: authorities, credentials, and older shapes refused by name."""

from __future__ import annotations

import base64
import tomllib
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.registry_hosts import hosts_files, parse_registries

CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
URL = "https://depot.example.com:5000/v2/docker.io"
MIRROR = {"url": f"{URL}/", "override_path": True, "ca": CA}


def render(*registries: dict[str, Any]) -> dict[str, Any]:
    return dict(hosts_files(parse_registries(list(registries))))


def test_a_mirror_with_its_own_authority() -> None:
    files = render({"host": "docker.io", "mirrors": [MIRROR]})
    hosts = tomllib.loads(files["/etc/containerd/certs.d/docker.io/hosts.toml"].text)
    assert hosts["server"] == "https://registry-1.docker.io"
    mirror = hosts["host"]["https://depot.example.com:5000/v2/docker.io"]
    assert mirror["override_path"] is True and mirror["capabilities"] == ["pull", "resolve"]
    assert files[mirror["ca"]].text == CA + "\n"
    assert files["/etc/containerd/certs.d/docker.io/hosts.toml"].mode == 0o644


def test_credentials_are_a_header_in_a_file_only_root_reads() -> None:
    files = render({"host": "nvcr.io", "mirrors": [{**MIRROR, "username": "bed", "password": "pla:te"}]})
    file = files["/etc/containerd/certs.d/nvcr.io/hosts.toml"]
    mirror = tomllib.loads(file.text)["host"][URL]
    scheme, _space, pair = mirror["header"]["Authorization"].partition(" ")
    assert (scheme, base64.b64decode(pair)) == ("Basic", b"bed:pla:te")
    assert (file.mode, file.secret) == (0o600, True)


def test_without_fallback_the_registry_itself_is_never_asked() -> None:
    first, last = {"url": "https://a.example.com"}, {**MIRROR, "username": "u", "password": "p"}
    files = render({"host": "quay.io", "fallback": False, "mirrors": [first, last]})
    text = files["/etc/containerd/certs.d/quay.io/hosts.toml"].text
    hosts = tomllib.loads(text)
    assert "quay.io/v2" not in text and "https://quay.io" not in text
    assert hosts["server"] == URL and hosts["override_path"] is True
    assert hosts["header"]["Authorization"].startswith("Basic ")
    assert list(hosts["host"]) == ["https://a.example.com"]


def test_ports_and_the_default_have_containerds_directory_names() -> None:
    files = render(
        {"host": "registry.example.com:5000", "mirrors": [{"url": "http://m"}]},
        {"host": "_default", "mirrors": [{"url": "http://m"}]},
    )
    assert "/etc/containerd/certs.d/registry.example.com_5000_/hosts.toml" in files
    assert "server" not in tomllib.loads(files["/etc/containerd/certs.d/_default/hosts.toml"].text)


def test_an_ipv6_mirror_is_bracketed_as_it_was_given() -> None:
    files = render({"host": "registry.k8s.io", "mirrors": [{"url": "https://[fd00::5]:5000"}]})
    assert "https://[fd00::5]:5000" in tomllib.loads(files["/etc/containerd/certs.d/registry.k8s.io/hosts.toml"].text)["host"]


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ({"docker.io": ["https://m"]}, ["docker.io", "registry.mirrors"]),
        (
            [{"prefix": "docker.io", "mirrors": [{"host": "https://m", "capabilities": ["pull"]}]}],
            [".prefix", ".host", ".capabilities"],
        ),
        ([{"host": "docker.io", "endpoint": ["https://m"], "tls": {}}], [".endpoint", "mirrors", ".tls"]),
        ([{"host": "docker.io", "mirrors": ["https://m"]}], ["https://m", "older shape"]),
        ([{"host": "https://docker.io", "mirrors": []}], ["https://docker.io", "without scheme"]),
        ([{"host": "a", "mirrors": [{"url": "m:5000"}]}], ["m:5000", "http(s)"]),
        ([{"host": "a", "mirrors": [{"url": "https://u:p@m"}]}], ["username and password"]),
        ([{"host": "a", "mirrors": [{"url": "https://m", "ca": "/etc/ssl/m.pem"}]}], [".ca", "PEM"]),
        ([{"host": "a", "mirrors": [{"url": "https://m", "username": "u"}]}], ["both"]),
        ([{"host": "a"}, {"host": "a"}], ["a twice"]),
        ([{"host": "a", "fallback": False}], ["fallback"]),
        ([{"mirrors": []}], ["no host"]),
        (["docker.io"], ["'docker.io'"]),
        ([{"host": "a", "bogus": 1}], [".bogus", "unknown"]),
    ],
)
def test_mistakes_and_older_shapes_are_refused_by_name(raw: Any, names: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        parse_registries(raw)
    for name in names:
        assert name in str(caught.value)


@pytest.mark.parametrize(
    "raw",
    [
        [{"host": "a", "mirrors": [{"url": "https://user:hunter2@m", "username": "u", "password": "hunter2"}]}],
        [{"host": "a", "mirrors": [{"url": "user:hunter2@m"}]}],
        [{"host": "a", "mirrors": {"url": "https://m", "username": "u", "password": "hunter2"}}],
        [{"host": "a", "mirrors": ["https://user:hunter2@m"]}],
        ["https://user:hunter2@m"],
    ],
)
def test_a_password_is_never_in_the_message(raw: Any) -> None:
    with pytest.raises(ValueError) as caught:
        parse_registries(raw)
    assert "hunter2" not in str(caught.value)


def test_nulls_that_ansible_fills_in_are_not_keys() -> None:
    filled = {"host": "a", "prefix": None, "fallback": True, "mirrors": [{"url": "https://m", "ca": None, "host": None}]}
    assert parse_registries([filled])[0].mirrors[0].url == "https://m"
