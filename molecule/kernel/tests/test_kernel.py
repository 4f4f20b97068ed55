# SPDX-License-Identifier: Apache-2.0
"""What pods need of the kernel holds now and after a reboot."""

from __future__ import annotations

import pytest
from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane", "ansible://gpu_nodes"]

FORWARDING = ("net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables")


@pytest.mark.parametrize("name", FORWARDING)
def test_sysctl_is_set_and_kept(host: Host, name: str) -> None:
    assert host.sysctl(name) == 1
    kept = host.check_output("cat /etc/sysctl.d/*bedplate*.conf")
    assert any(line.replace(" ", "") == f"{name}=1" for line in kept.splitlines())


def test_modules_are_loaded_at_boot(host: Host) -> None:
    kept = host.check_output("cat /etc/modules-load.d/*bedplate*.conf").splitlines()
    assert {"br_netfilter", "overlay"} <= {line.strip() for line in kept}


def test_no_swap_now_and_none_in_fstab(host: Host) -> None:
    assert len(host.file("/proc/swaps").content_string.splitlines()) <= 1
    fstab = host.file("/etc/fstab")
    lines = fstab.content_string.splitlines() if fstab.exists else []
    assert not [line for line in lines if not line.lstrip().startswith("#") and " swap " in f" {' '.join(line.split())} "]


def test_unattended_upgrades_leave_the_cluster_alone(host: Host) -> None:
    configuration = host.check_output("apt-config dump Unattended-Upgrade::Package-Blacklist")
    assert "kube" in configuration and "containerd" in configuration


def test_a_module_is_kept_away(host: Host) -> None:
    assert "blacklist pcspkr" in host.file("/etc/modprobe.d/90-bedplate.conf").content_string.splitlines()


def test_the_journal_is_bounded_and_still_written(host: Host) -> None:
    assert "SystemMaxUse=512M" in host.check_output("systemd-analyze cat-config systemd/journald.conf").splitlines()
    assert host.service("systemd-journald").is_running


def test_a_host_in_a_container_has_neither_grub_nor_a_time_service_of_its_own(host: Host) -> None:
    assert not host.file("/etc/default/grub.d/90-bedplate.cfg").exists
    assert not host.package("chrony").is_installed
