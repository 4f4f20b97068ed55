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
