# SPDX-License-Identifier: Apache-2.0
"""Kubelet's packages, its drop-in directory and the way to the API are in place before a host joins."""

from __future__ import annotations

import json

import yaml
from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane", "ansible://gpu_nodes"]
VERSION = "1.36.3-1.1"


def test_packages_have_exactly_the_wanted_version_and_are_held(host: Host) -> None:
    held = set(host.check_output("apt-mark showhold").split())
    for package in ("kubelet", "kubeadm", "kubectl"):
        assert host.package(package).version == VERSION
        assert package in held


def test_kubelet_is_told_its_address_and_its_dropins(host: Host) -> None:
    arguments = host.file("/etc/default/kubelet").content_string
    address = host.check_output("hostname -I").split()[0]
    assert "--config-dir=/etc/kubernetes/kubelet.conf.d" in arguments
    assert f"--node-ip={address}" in arguments


def test_every_dropin_is_a_kubelet_configuration(host: Host) -> None:
    paths = host.check_output("ls /etc/kubernetes/kubelet.conf.d/*.conf").splitlines()
    assert paths
    for path in paths:
        assert yaml.safe_load(host.file(path).content_string)["kind"] == "KubeletConfiguration"


def test_no_dropin_points_at_the_stub_resolver(host: Host) -> None:
    text = host.check_output("cat /etc/kubernetes/kubelet.conf.d/*.conf")
    stub = "nameserver 127.0.0.53" in host.file("/etc/resolv.conf").content_string
    assert ("/run/systemd/resolve/resolv.conf" in text) == stub


def test_the_endpoint_has_an_address(host: Host) -> None:
    names = [line.split() for line in host.file("/etc/hosts").content_string.splitlines() if not line.startswith("#")]
    assert any("api.lab.bedplate.test" in line[1:] for line in names if line)


def test_crictl_finds_the_runtime(host: Host) -> None:
    status = json.loads(host.check_output("crictl info"))
    assert {"type": "RuntimeReady", "status": True} in [
        {"type": condition["type"], "status": condition["status"]} for condition in status["status"]["conditions"]
    ]
