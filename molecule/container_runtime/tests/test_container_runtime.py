# SPDX-License-Identifier: Apache-2.0
"""containerd runs with systemd cgroups, pulls through the site's mirror and stays at its version."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane", "ansible://gpu_nodes"]
PAUSE = "registry.k8s.io/pause:3.10.2"


def test_service_runs_and_starts_at_boot(host: Host) -> None:
    service = host.service("containerd")
    assert service.is_running, host.run("journalctl -u containerd -n 30 --no-pager").stdout
    assert service.is_enabled


def test_the_running_configuration_has_systemd_cgroups_and_the_pinned_sandbox(host: Host) -> None:
    dump = host.check_output("containerd config dump")
    assert "SystemdCgroup = true" in dump
    assert PAUSE in dump
    disabled = [line for line in dump.splitlines() if line.startswith("disabled_plugins")]
    assert not any("cri" in line for line in disabled)


def test_cri_answers(host: Host) -> None:
    plugins = host.check_output("ctr plugins ls").splitlines()
    cri = [line.split() for line in plugins if "io.containerd.grpc.v1" in line and " cri " in line]
    assert cri and all(line[-1] == "ok" for line in cri), plugins


def test_images_come_through_the_mirror(host: Host) -> None:
    pulled = host.run(f"ctr --namespace bedplate-test images pull --hosts-dir /etc/containerd/certs.d {PAUSE}")
    assert pulled.rc == 0, pulled.stderr
    assert host.run(f"ctr --namespace bedplate-test images rm {PAUSE}").rc == 0


def test_packages_are_held(host: Host) -> None:
    assert {"containerd", "runc"} <= set(host.check_output("apt-mark showhold").split())
