# SPDX-License-Identifier: Apache-2.0
"""The depot is the only place packages come from, and it is trusted by its own key."""

from __future__ import annotations

from testinfra.host import Host

testinfra_hosts = ["ansible://control_plane", "ansible://gpu_nodes"]


def test_sources_are_signed_by_a_key_of_their_own(host: Host) -> None:
    sources = host.check_output("cat /etc/apt/sources.list.d/bedplate-*.sources")
    assert "Signed-By: /etc/apt/keyrings/bedplate-" in sources
    assert "trusted=yes" not in sources and "Trusted: yes" not in sources


def test_kubernetes_packages_are_offered(host: Host) -> None:
    policy = host.check_output("apt-cache policy kubelet kubeadm containerd")
    assert "Candidate: 1.36.3-1.1" in policy
    assert "Candidate: (none)" not in policy


def test_the_index_can_be_refreshed_again(host: Host) -> None:
    refresh = host.run("apt-get update")
    assert refresh.rc == 0 and "W:" not in refresh.stderr, refresh.stderr


def test_the_authority_is_not_the_worlds_to_write(host: Host) -> None:
    for path in host.check_output("ls /usr/local/share/ca-certificates/bedplate-*.crt").splitlines():
        authority = host.file(path)
        assert (authority.user, authority.mode) == ("root", 0o644)
