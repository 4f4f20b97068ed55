# SPDX-License-Identifier: Apache-2.0
"""What was only asked for, and what was refused, left nothing on the host."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]


def test_fstab_has_no_line_of_a_share(host: Host) -> None:
    assert host.run("grep -q x-bedplate.share= /etc/fstab").rc != 0
    assert not host.file("/data").exists


def test_no_package_came(host: Host) -> None:
    assert not host.package("nfs-common").is_installed
