# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shlex
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from bedplate_lab import traces


@pytest.fixture
def sysctl(tmp_path: Path) -> Path:
    """A /proc/sys of its own."""
    values = {
        "fs/inotify/max_user_instances": "128",
        "fs/inotify/max_user_watches": "999999",
        "kernel/panic": "0",
        "kernel/ns_last_pid": "100",
        "kernel/random/boot_id": "x",
        "kernel/osrelease": "6.18",
        "vm/overcommit_memory": "0",
        "net/ipv4/ip_forward": "0",
        "net/ipv4/tcp_syncookies": "1",
    }
    for name, value in values.items():
        path = tmp_path / "sys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    (tmp_path / "sys/kernel/osrelease").chmod(0o444)
    return tmp_path / "sys"


def record(sysctl: Path) -> dict[str, Any]:
    return {"boot": traces.boot_id(), "sysctl": traces.sysctls(sysctl)}


def test_only_what_can_be_put_back_is_remembered(sysctl: Path) -> None:
    assert sorted(traces.sysctls(sysctl)) == [
        "fs/inotify/max_user_instances",
        "fs/inotify/max_user_watches",
        "kernel/panic",
        "net/ipv4/ip_forward",
        "vm/overcommit_memory",
    ]


def test_limits_are_raised_and_never_lowered(sysctl: Path) -> None:
    assert traces.raise_limits(sysctl) == ["fs.inotify.max_user_instances: 128 → 8192"]
    assert (sysctl / "fs/inotify/max_user_watches").read_text() == "999999\n"
    assert traces.raise_limits(sysctl) == []


def test_what_hosts_changed_is_put_back(sysctl: Path) -> None:
    before = record(sysctl)
    (sysctl / "kernel/panic").write_text("10\n")
    (sysctl / "vm/overcommit_memory").write_text("1\n")
    (sysctl / "kernel/ns_last_pid").write_text("200\n")
    lines = traces.restore(before, others=True, root=sysctl)
    assert lines == ["kernel.panic: 10 → 0", "vm.overcommit_memory: 1 → 0"]
    assert (sysctl / "kernel/panic").read_text() == "0\n"
    assert (sysctl / "kernel/ns_last_pid").read_text() == "200\n"


def test_forwarding_stays_on_for_containers_that_are_not_the_labs(sysctl: Path) -> None:
    before = record(sysctl)
    (sysctl / "net/ipv4/ip_forward").write_text("1\n")
    assert traces.restore(before, others=True, root=sysctl) == []
    assert (sysctl / "net/ipv4/ip_forward").read_text() == "1\n"


def test_after_a_boot_of_the_machine_there_is_nothing_to_put_back(sysctl: Path) -> None:
    before = {**record(sysctl), "boot": "an earlier one"}
    (sysctl / "kernel/panic").write_text("10\n")
    assert traces.restore(before, others=False, root=sysctl) == []
    assert traces.restore({}, others=False, root=sysctl) == []


def test_a_value_that_cannot_be_put_back_is_said_and_the_rest_goes_on(sysctl: Path) -> None:
    before = record(sysctl)
    before["sysctl"]["kernel/gone"] = "1"
    (sysctl / "vm/overcommit_memory").write_text("1\n")
    lines = traces.restore(before, others=True, root=sysctl)
    assert lines == [
        "kernel.gone: could not be put back to 1: No such file or directory",
        "vm.overcommit_memory: 1 → 0",
    ]


EMPTY_CHAINS = {
    "nat": """*nat
:OUTPUT ACCEPT [0:0]
:NETAVARK-HOSTPORT-DNAT - [0:0]
-A OUTPUT -m addrtype --dst-type LOCAL -j NETAVARK-HOSTPORT-DNAT
-A OUTPUT -m comment --comment "kept, not NETAVAR" -j ACCEPT
COMMIT
""",
    "filter": """*filter
:FORWARD ACCEPT [0:0]
:NETAVARK_FORWARD - [0:0]
-A FORWARD -m comment --comment "netavark firewall plugin rules" -j NETAVARK_FORWARD
COMMIT
""",
}


def removed(monkeypatch: pytest.MonkeyPatch, chains: dict[str, str]) -> list[list[str]]:
    calls: list[list[str]] = []
    monkeypatch.setattr(traces, "_iptables_save", lambda table: chains[table])
    monkeypatch.setattr(traces, "run", lambda argv, check: calls.append(list(argv)))
    traces.remove_chains()
    return calls


def test_empty_chains_go_with_the_jumps_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [shlex.join(call).removeprefix("iptables --wait --table ") for call in removed(monkeypatch, EMPTY_CHAINS)]
    assert calls == [
        "nat --delete OUTPUT -m addrtype --dst-type LOCAL -j NETAVARK-HOSTPORT-DNAT",
        "nat --delete-chain NETAVARK-HOSTPORT-DNAT",
        "filter --delete FORWARD -m comment --comment 'netavark firewall plugin rules' -j NETAVARK_FORWARD",
        "filter --delete-chain NETAVARK_FORWARD",
    ]


def test_chains_that_serve_another_network_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    chains = {
        **EMPTY_CHAINS,
        "filter": EMPTY_CHAINS["filter"].replace("COMMIT", "-A NETAVARK_FORWARD -s 10.88.0.0/16 -j ACCEPT\nCOMMIT"),
    }
    assert removed(monkeypatch, chains) == []


def test_cgroups_of_killed_hosts_are_found_deepest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "CGROUPS", tmp_path)
    (tmp_path / "pids/libpod_parent/libpod-1/system.slice").mkdir(parents=True)
    (tmp_path / "pids/other").mkdir()
    (tmp_path / "libpod_parent").mkdir()
    found = [str(path.relative_to(tmp_path)) for path in traces._podman_cgroups()]
    assert found == [
        "libpod_parent",
        "pids/libpod_parent/libpod-1/system.slice",
        "pids/libpod_parent/libpod-1",
        "pids/libpod_parent",
    ]


def test_modules_that_were_absent_are_loaded_and_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: set[str] = set()
    calls: list[str] = []

    def run(argv: list[str], **_: object) -> CompletedProcess[str]:
        calls.append(shlex.join(argv))
        if argv[0] == "modprobe":
            (loaded.discard if "--remove" in argv else loaded.add)(argv[-1])
        return CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(traces, "run", run)
    monkeypatch.setattr(traces, "_loaded", lambda module: module in loaded)
    monkeypatch.setattr(traces, "_has_loadable_modules", lambda: True)
    monkeypatch.setattr(traces, "_podman_cgroups", list)
    monkeypatch.setattr(traces, "_is_mounted", lambda target: False)
    before = {"boot": traces.boot_id(), "modules_absent": ["br_netfilter"], "chains": True}
    assert traces.load_modules(before) == ["module br_netfilter: loaded"]
    assert traces.load_modules(before) == []
    assert traces.restore(before, others=True) == []
    assert traces.restore(before, others=False) == ["module br_netfilter: unloaded"]
    assert calls == ["modprobe br_netfilter", "modprobe --remove br_netfilter"]
