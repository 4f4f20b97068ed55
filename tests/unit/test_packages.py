# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.apt import explain_common, parse_locks
from ansible_collections.bedplate.metal.plugins.module_utils.core import Change
from ansible_collections.bedplate.metal.plugins.module_utils.debian_version import compare_versions
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.packages import (
    UNFINISHED,
    observe_packages,
    package_problems,
    plan_packages,
)

from recorded_host import Package, RecordedHost

LOCKED = "1: POSIX  ADVISORY  WRITE 812 08:01:100 0 EOF\n2: FLOCK  ADVISORY  WRITE 9 08:01:777 0 EOF\n"


def host() -> RecordedHost:
    return RecordedHost(
        packages={
            "kubelet": Package("1.35.4-1.1", held=True),
            "bash": Package("5.2"),
            "gone": Package("1", "deinstall ok config-files"),
        },
        repository={"kubelet": ["1.35.4-1.1", "1.36.3-1.1"], "kubeadm": ["1.36.3-1.1"], "gone": ["2"]},
    )


def perform(changes: list[Change], on: RecordedHost) -> None:
    for change in changes:
        change.operation.perform(on)


def test_one_query_and_absent_packages_are_states() -> None:
    machine = host()
    found = observe_packages(machine, ["kubelet", "bash", "nothing", "gone"])
    assert len(machine.commands) == 1
    assert (found["kubelet"].version, found["kubelet"].held) == ("1.35.4-1.1", True)
    assert found["nothing"].version is None and found["gone"].version is None
    assert observe_packages(machine, []) == {}


def test_exact_versions_in_one_transaction_then_held() -> None:
    machine = host()
    wanted: dict[str, str | None] = {"kubeadm": "1.36.3-1.1", "gone": None}
    changes = plan_packages(observe_packages(machine, wanted), wanted, hold=True)
    assert [(c.what, c.before, c.after) for c in changes] == [
        ("package gone", None, "installed"),
        ("package kubeadm", None, "1.36.3-1.1"),
    ]
    perform(changes, machine)
    installs = machine.ran("apt-get")
    assert len(installs) == 1
    assert installs[0][-2:] == ["gone", "kubeadm=1.36.3-1.1"]
    assert "--no-install-recommends" in installs[0] and "Dpkg::Options::=--force-confold" in installs[0]
    assert machine.environments[machine.commands.index(installs[0])]["DEBIAN_FRONTEND"] == "noninteractive"
    assert machine.packages["kubeadm"].held
    assert UNFINISHED not in machine.files
    assert plan_packages(observe_packages(machine, wanted), wanted, hold=True) == []


def test_an_upgrade_carries_its_effects_and_a_new_package_none() -> None:
    wanted: dict[str, str | None] = {"kubelet": "1.36.3-1.1", "kubeadm": "1.36.3-1.1"}
    changes = plan_packages(observe_packages(host(), wanted), wanted, effects=frozenset({"drain"}))
    assert {c.what: sorted(c.effects) for c in changes} == {"package kubelet": ["drain"], "package kubeadm": []}


def test_a_lost_hold_is_one_change_without_a_transaction() -> None:
    machine = host()
    machine.packages["kubelet"].held = False
    changes = plan_packages(observe_packages(machine, ["kubelet"]), {"kubelet": "1.35.4-1.1"}, hold=True)
    assert [c.what for c in changes] == ["package kubelet held"]
    perform(changes, machine)
    assert machine.packages["kubelet"].held and not machine.ran("apt-get")


def test_a_downgrade_is_a_problem_unless_allowed() -> None:
    found = observe_packages(host(), ["kubelet"])
    problems = package_problems(found, {"kubelet": "1.34.0-1.1"})
    assert [(p.what, p.found, p.wanted) for p in problems] == [("package kubelet", "1.35.4-1.1", "1.34.0-1.1")]
    assert package_problems(found, {"kubelet": "1.34.0-1.1"}, allow_downgrades=True) == []
    assert package_problems(found, {"kubelet": "1.36.3-1.1", "kubeadm": "1"}) == []


def test_a_missing_version_names_what_the_repository_has() -> None:
    machine = host()
    with pytest.raises(BedplateError) as error:
        perform(plan_packages({}, {"kubeadm": "1.99.0-1.1"}), machine)
    assert "found versions 1.36.3-1.1" in str(error.value) and "wanted 1.99.0-1.1" in str(error.value)
    assert "kubeadm" not in machine.packages and UNFINISHED not in machine.files


def test_a_missing_package_says_so_after_one_refresh() -> None:
    machine = host()
    with pytest.raises(BedplateError, match="no such package in any configured repository"):
        perform(plan_packages({}, {"crictl": "1"}), machine)
    assert len([c for c in machine.ran("apt-get") if "update" in c]) == 1


def test_a_package_newer_than_the_index_is_found_by_a_refresh() -> None:
    machine = host()
    original = machine.handlers["apt-get"]

    def refreshing(on: RecordedHost, argv: object, stdin: str | None) -> object:
        if "update" in argv:  # type: ignore[operator]
            on.repository["kubeadm"].append("1.37.2-1.1")
        return original(on, argv, stdin)  # type: ignore[arg-type]

    machine.handlers["apt-get"] = refreshing  # type: ignore[assignment]
    perform(plan_packages({}, {"kubeadm": "1.37.2-1.1"}), machine)
    assert machine.packages["kubeadm"].version == "1.37.2-1.1"


def test_what_a_killed_transaction_left_is_unpacked_again_and_configured_first() -> None:
    machine = host()
    machine.files[UNFINISHED] = "{}"
    machine.packages["bash"].status = "install reinstreq half-installed"
    configured = machine.handlers["dpkg"]
    machine.on("dpkg", lambda h, argv, stdin: type(configured(RecordedHost(), argv, stdin))(1))
    perform(plan_packages(observe_packages(machine, ["kubeadm"]), {"kubeadm": "1.36.3-1.1"}), machine)
    transactions = [c for c in machine.commands if c[0] == "apt-get"]
    assert "--reinstall" in transactions[0] and "bash=5.2" in transactions[0]
    assert machine.packages["kubeadm"].version == "1.36.3-1.1"


def test_full_disk() -> None:
    machine = host()
    machine.apt_error = "E: You don't have enough free space in /var/cache/apt/archives/.\n"
    with pytest.raises(BedplateError, match=r"disk: found no space left \(You don't have enough free space"):
        perform(plan_packages({}, {"kubeadm": None}), machine)
    assert "kubeadm" not in machine.packages


def test_a_held_lock_names_its_holder_and_is_never_removed() -> None:
    machine = host()
    machine.files["/proc/locks"] = LOCKED
    machine.files["/proc/812/cmdline"] = "/usr/bin/python3\0/usr/bin/unattended-upgrade\0"
    machine.files["/var/lib/dpkg/lock-frontend"] = ""
    with pytest.raises(BedplateError) as error:
        perform(plan_packages({}, {"kubeadm": None}, lock_timeout_seconds=0), machine)
    assert "process 812 (/usr/bin/python3 /usr/bin/unattended-upgrade)" in str(error.value)
    assert "/var/lib/dpkg/lock-frontend" in machine.files and not machine.ran("apt-get")


def test_waiters_are_not_holders() -> None:
    table = LOCKED + "2: -> POSIX  ADVISORY  WRITE 900 08:01:100 0 EOF\n"
    assert parse_locks(table, {"100": "/var/lib/dpkg/lock-frontend"}) == {"/var/lib/dpkg/lock-frontend": "812"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 5 (apt)", "process 5"),
        ("E: Failed to fetch http://d/x.deb  Hash Sum mismatch", "checksum"),
        ("W: GPG error: http://d stable InRelease: NO_PUBKEY 1234", "signing_key"),
        ("E: Failed to fetch http://d/x  Could not connect to d:80 (10.0.0.1), connection timed out", "wanted it reachable"),
        ("dpkg: error: failed to write: No space left on device", "no space left"),
    ],
)
def test_apt_failures_are_explained(text: str, words: str) -> None:
    explained = explain_common(RecordedHost(), text) or ""
    assert words in explained and "Next:" in explained


VERSIONS = [
    "1.0~rc1",
    "1.0",
    "1.0-1",
    "1.0-1.1",
    "1.0+b1",
    "1.2",
    "1.10",
    "1.36.3-1.1",
    "1.36.10-1.1",
    "1:0.9",
    "2:0.1a",
    "2:0.1b",
]


def test_versions_are_ordered_as_dpkg_orders_them() -> None:
    for index, left in enumerate(VERSIONS):
        for right in VERSIONS[index + 1 :]:
            assert compare_versions(left, right) < 0 < compare_versions(right, left), (left, right)
        assert compare_versions(left, left) == 0
    dpkg = subprocess.run(["dpkg", "--compare-versions", "1.0-1.1", "lt", "1.0+b1"])
    assert dpkg.returncode == 0
