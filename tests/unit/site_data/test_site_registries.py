# SPDX-License-Identifier: Apache-2.0
"""Registries, their older shapes (case D34), proxy and no_proxy (case D36), secrets."""

from __future__ import annotations

import json

import pytest
from ansible_collections.bedplate.metal.plugins.filter.registry_credentials import registry_credentials

from site_directory import SiteDirectory

SITE = "group_vars/all/site.yml"
SHAPE = "{{url: {url}, ca: PEM, username: USER, password: PASSWORD}}"


def new_shape(host: str, url: str = "https://mirror.example.com") -> str:
    return f"registries: [{{host: {host}, mirrors: [{SHAPE.format(url=url)}]}}]"


PRIVATE = """\
registries:
  - host: registry.k8s.io
    fallback: false
    mirrors:
      - url: https://mirror.example.com/v2/k8s
        override_path: true
        ca: |
          -----BEGIN CERTIFICATE-----
          abc
          -----END CERTIFICATE-----
        username: puller
        password: very-secret
"""


def test_private_mirror_with_credentials(site: SiteDirectory) -> None:
    site.append(SITE, PRIVATE)
    bedplate = site.bedplate()
    assert "very-secret" not in json.dumps(bedplate)
    (registry,) = bedplate["hosts"]["w1"]["roles"]["container_runtime"]["registries"]
    assert registry == {
        "host": "registry.k8s.io",
        "fallback": False,
        "mirrors": [
            {
                "url": "https://mirror.example.com/v2/k8s",
                "ca": "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n",
                "override_path": True,
                "skip_verify": False,
            }
        ],
    }
    written = [{"host": "registry.k8s.io", "mirrors": [{"url": "u", "username": "puller", "password": "very-secret"}]}]
    (joined,) = registry_credentials([registry], written)
    assert joined["mirrors"][0] == {**registry["mirrors"][0], "username": "puller", "password": "very-secret"}


def test_a_secret_is_never_in_a_message(site: SiteDirectory) -> None:
    site.append(SITE, PRIVATE.replace("password: very-secret", "password: [very-secret]"))
    site.append(SITE, "packages: {repositories: [{name: x, uris: ['https://u:very-secret@h/'], suites: [s], signing_key: k}]}\n")
    errors = site.errors()
    assert f"{SITE}:21: registries[0].mirrors[0].password = (hidden): must be text" in errors
    assert not [error for error in errors if "very-secret" in error]
    assert (
        f"{SITE}:22: packages.repositories[0].uris[0] = https://(hidden)@h/: must not carry a user or password: it is "
        "written to "
        "files that every user of a host can read"
    ) in errors


def test_password_without_user(site: SiteDirectory) -> None:
    site.append(SITE, PRIVATE.replace("        username: puller\n", ""))
    (error,) = site.errors()
    assert error.startswith(f"{SITE}:14: registries[0].mirrors[0] = ")
    assert error.endswith("needs username and password together, or neither")
    assert "very-secret" not in error


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (
            "containerd_registries_mirrors: []\n",
            f"10: containerd_registries_mirrors = []: older variable; write {new_shape('docker.io')}",
        ),
        (
            "containerd_registry_auth: [{password: hush}]\n",
            f"10: containerd_registry_auth = (hidden): older variable; write {new_shape('docker.io')}",
        ),
        (
            "registries:\n  quay.io: https://m.example.com\n",
            "10: registries = a mapping of quay.io: older shape (a mapping of registries); write "
            + new_shape("quay.io", "https://m.example.com"),
        ),
        (
            "registries:\n  - https://m.example.com\n",
            "11: registries[0] = https://m.example.com: older shape (a list of addresses); write "
            + new_shape("docker.io", "https://m.example.com"),
        ),
        (
            "registries:\n  - prefix: quay.io\n    mirrors: [{host: 'https://m.example.com', capabilities: [pull]}]\n",
            f"11: registries[0].prefix = quay.io: older key; write {new_shape('quay.io', 'https://m.example.com')}",
        ),
        (
            "registries:\n  - host: quay.io\n    mirrors: ['https://m.example.com']\n",
            "12: registries[0].mirrors[0] = https://m.example.com: older shape (a mirror that is only an address); write "
            + new_shape("quay.io", "https://m.example.com"),
        ),
        (
            "registries:\n  - host: quay.io\n    mirrors:\n      - host: https://m.example.com\n",
            f"13: registries[0].mirrors[0].host = https://m.example.com: older key; write "
            f"{new_shape('quay.io', 'https://m.example.com')}",
        ),
    ],
)
def test_older_shapes_are_refused_by_name(site: SiteDirectory, text: str, finding: str) -> None:
    site.append(SITE, text)
    assert site.errors() == [f"{SITE}:{finding}"]


def test_new_shape_is_accepted(site: SiteDirectory) -> None:
    site.append(SITE, "registries: [{host: docker.io, mirrors: [{url: https://m.example.com}]}]\n")
    assert site.errors() == []


def test_registry_twice(site: SiteDirectory) -> None:
    entry = "  - {host: docker.io, mirrors: [{url: 'https://m.example.com'}]}\n"
    site.append(SITE, f"registries:\n{entry}{entry}")
    assert site.errors() == [f"{SITE}:12: registries[1].host = docker.io: stands twice (first as entry 0)"]


def test_no_proxy_covers_the_cluster_and_keeps_the_users_entries(site: SiteDirectory) -> None:
    site.append(SITE, "  proxy:\n    http: http://proxy:3128\n    no_proxy: [.corp.example.com, 10.244.0.0/16, 192.0.2.7]\n")
    site.site("    name: api.test.example.com\n", "    name: api.test.example.com\n    address: 10.0.0.10\n")
    roles = site.bedplate()["hosts"]["w1"]["roles"]
    proxy = roles["repositories"]["proxy"]
    assert proxy == {
        "http": "http://proxy:3128",
        "https": None,
        "no_proxy": [
            "localhost",
            "127.0.0.1",
            "::1",
            "10.244.0.0/16",
            "10.96.0.0/16",
            "10.0.0.0/24",
            "api.test.example.com",
            "10.0.0.10",
            "cluster.local",
            ".cluster.local",
            ".svc",
            ".corp.example.com",
            "192.0.2.7",
        ],
    }
    assert roles["container_runtime"]["proxy"] == roles["kubelet"]["proxy"] == proxy


def test_without_a_proxy_nothing_is_set(site: SiteDirectory) -> None:
    assert site.bedplate()["hosts"]["w1"]["roles"]["repositories"]["proxy"] == {}


def test_proxy_without_an_address(site: SiteDirectory) -> None:
    site.append(SITE, "  proxy: {no_proxy: [a]}\n")
    assert site.errors() == [
        f"{SITE}:10: network.proxy = {{'no_proxy': ['a']}}: names no proxy: give http, https or both, or leave the section out"
    ]
