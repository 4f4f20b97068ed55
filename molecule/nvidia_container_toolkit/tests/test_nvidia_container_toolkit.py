# SPDX-License-Identifier: Apache-2.0
"""The device specification names what is there, and containerd has the handler and CDI on from its one owner."""

from __future__ import annotations

import re

from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]
SPECIFICATION = "/var/run/cdi/nvidia.yaml"


def test_the_specification_names_every_gpu_and_the_installed_library(host: Host) -> None:
    text = host.file(SPECIFICATION).content_string
    uuids = set(re.findall(r"GPU-[0-9a-f-]+", host.check_output("nvidia-smi -L")))
    assert len(uuids) == 8 and all(f"name: {uuid}" in text for uuid in uuids)
    version = host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader").splitlines()[0]
    assert f"libcuda.so.{version}" in text


def test_it_is_made_again_at_boot_before_containerd(host: Host) -> None:
    for unit in ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path"):
        assert host.check_output(f"systemctl is-enabled {unit}") == "enabled"
    before = host.check_output("systemctl show nvidia-cdi-refresh.service -p Before -p TimeoutStartUSec")
    assert "containerd.service" in before and "TimeoutStartUSec=30s" in before


def test_containerd_has_the_handler_and_cdi(host: Host) -> None:
    dump = host.check_output("containerd config dump")
    assert "/var/run/cdi" in dump and "enable_cdi = false" not in dump
    assert re.search(r"runtimes\.nvidia\.options\]\s+BinaryName = ['\"]/usr/bin/nvidia-container-runtime['\"]", dump)


def test_the_toolkit_is_held(host: Host) -> None:
    assert "nvidia-container-toolkit-base" in host.check_output("apt-mark showhold").split()
