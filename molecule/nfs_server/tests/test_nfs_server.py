# SPDX-License-Identifier: Apache-2.0
"""What was only asked for, and what was refused, left nothing on the host."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://gpu_nodes"]


def test_nothing_was_written(host: Host) -> None:
    for path in ("/etc/exports.d/bedplate.exports", "/etc/nfs.conf.d/bedplate.conf", "/srv/data", "/srv/code"):
        assert not host.file(path).exists


def test_no_package_came(host: Host) -> None:
    assert not host.package("nfs-kernel-server").is_installed
