# SPDX-License-Identifier: Apache-2.0
"""One driver version everywhere on a GPU host: packages, library, loaded module, fabric manager; hosts without GPUs untouched."""

from __future__ import annotations

import re

from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]
NAMES = (
    "nvidia-kernel-open-dkms",
    "nvidia-driver-cuda",
    "libnvidia-ml1",
    "libcuda1",
    "nvidia-persistenced",
    "nvidia-fabricmanager",
)


def loaded(host: Host) -> str:
    match = re.search(r"Open Kernel Module for x86_64\s+(\S+)", host.file("/proc/driver/nvidia/version").content_string)
    assert match
    return match.group(1)


def test_all_eight_gpus_answer(host: Host) -> None:
    listed = host.check_output("nvidia-smi -L").splitlines()
    assert len(listed) == 8 and all("H100" in line for line in listed), listed


def test_packages_are_of_the_loaded_version_and_held(host: Host) -> None:
    version = loaded(host)
    held = set(host.check_output("apt-mark showhold").split())
    for name in NAMES:
        assert host.package(name).version.startswith(f"{version}-"), name
        assert name in held


def test_services_run_and_start_at_boot(host: Host) -> None:
    for name in ("nvidia-persistenced", "nvidia-fabricmanager"):
        service = host.service(name)
        assert service.is_running, host.run(f"journalctl -u {name} -n 30 --no-pager").stdout
        assert service.is_enabled


def test_the_module_on_disk_is_for_the_running_kernel(host: Host) -> None:
    release = host.check_output("uname -r")
    assert host.check_output(f"modinfo -k {release} -F version nvidia") == loaded(host)
    assert host.check_output(f"modinfo -k {release} -F vermagic nvidia").split()[0] == release


def test_nouveau_is_kept_away(host: Host) -> None:
    assert host.file("/etc/modprobe.d/90-bedplate-nouveau.conf").contains("^blacklist nouveau")
