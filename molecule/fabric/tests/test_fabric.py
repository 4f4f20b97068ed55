# SPDX-License-Identifier: Apache-2.0
"""What was only asked for, and what was refused, left nothing on the host."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]


def test_nothing_was_written(host: Host) -> None:
    assert not host.file("/usr/local/sbin/bedplate-fabric").exists
    assert not host.file("/etc/modules-load.d/91-bedplate-fabric.conf").exists
    assert host.run("ls /etc/systemd/network/05-bedplate-*").rc != 0


def test_the_host_has_its_address(host: Host) -> None:
    assert host.interface("eth0").addresses
