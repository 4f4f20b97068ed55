# SPDX-License-Identifier: Apache-2.0
"""The endpoint in /etc/hosts, and the name servers pods are given."""

from __future__ import annotations

from ansible_collections.bedplate.metal.plugins.module_utils.hosts_file import choose_resolv_conf, contradictions, with_entry

NAME = "api.example.test"
MINE = "127.0.0.1\tlocalhost\n::1 localhost\n# kept\n"


def test_the_entry_is_added_changed_and_taken_out_without_touching_the_rest() -> None:
    added = with_entry(MINE, NAME, "10.0.0.10")
    assert added.startswith(MINE) and f"\n10.0.0.10 {NAME}\n" in added
    assert with_entry(added, NAME, "10.0.0.10") == added
    changed = with_entry(added + "10.9.9.9 other\n", NAME, "10.0.0.11")
    assert f"10.0.0.11 {NAME}" in changed and "10.0.0.10" not in changed and changed.endswith("10.9.9.9 other\n")
    assert with_entry(added, NAME, None) == MINE
    assert with_entry(MINE, NAME, None) == MINE
    assert with_entry("127.0.0.1 localhost", NAME, "10.0.0.1").startswith("127.0.0.1 localhost\n#")


def test_ipv6_is_bare_in_the_file() -> None:
    assert f"\nfd00::10 {NAME}\n" in with_entry(MINE, NAME, "fd00::10")


def test_a_line_that_gives_the_name_another_address_is_a_problem() -> None:
    text = with_entry(f"10.0.0.9 old {NAME} # by hand\n", NAME, "10.0.0.10")
    problems = contradictions(text, NAME, "10.0.0.10")
    assert len(problems) == 1 and "10.0.0.9" in problems[0].found
    assert contradictions(with_entry(f"fd00:0::1 {NAME}\n", NAME, "fd00::1"), NAME, "fd00::1") == []
    assert contradictions(f"# 10.0.0.9 {NAME}\n", NAME, "10.0.0.10") == []
    assert contradictions(f"fd00::9 {NAME}\n", NAME, "10.0.0.10") == []
    assert contradictions(f"10.0.0.9 {NAME}\n", NAME, None) == []


def test_a_stub_resolver_is_replaced_by_the_upstream_file() -> None:
    stub = "# managed\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.test\n"
    upstream = "nameserver 10.0.0.2\nsearch example.test\n"
    assert choose_resolv_conf(stub, upstream) == ("/run/systemd/resolve/resolv.conf", [])


def test_hosts_without_a_stub_stay_as_they_are() -> None:
    assert choose_resolv_conf("nameserver 10.0.0.2\n", None) == (None, [])
    assert choose_resolv_conf("nameserver 127.0.0.1\nnameserver 10.0.0.2\n", "nameserver 10.0.0.2\n") == (None, [])
    assert choose_resolv_conf(None, None) == (None, [])


def test_a_local_server_without_upstream_servers_is_said() -> None:
    chosen, problems = choose_resolv_conf("nameserver ::1\n", "nameserver 127.0.0.53\n")
    assert chosen is None
    assert [(p.severity, "::1" in p.found) for p in problems] == [("warning", True)]
