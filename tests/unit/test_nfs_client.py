# SPDX-License-Identifier: Apache-2.0
"""Shares mounted over NFS: lines of fstab, servers that do not answer, what is in use, what waits for a drained node."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import DRAIN, Outcome
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.fstab import FSTAB
from ansible_collections.bedplate.metal.plugins.module_utils.mounts import (
    Mount,
    device_of,
    mount_at,
    parse_links,
    parse_mounts,
    users,
)
from fixtures_nfs import CODE, DATA, OTHERWISE, ClientMachine, client_desired, mounting_host

SYSTEM = "UUID=1234-abcd / ext4 errors=remount-ro 0 1\n"
DATA_LINE = "10.0.0.5:/srv/data /data nfs vers=4.2,rw,bg,nofail,x-bedplate.share=data 0 0\n"
CODE_LINE = "store.example:/code /mnt/code nfs vers=3,ro,bg,nofail,x-bedplate.share=code 0 0\n"
SILENT = {"nfs://10.0.0.5:2049": "10.0.0.5 port 2049: timed out"}
IN_USE = "/proc/1/ns/mnt\tmnt:[1]\n/proc/77/ns/mnt\tmnt:[1]\n/proc/77/cwd\t/data/run\n"


def whats(outcome: Outcome) -> list[str]:
    return [change.what for change in outcome.changes]


def warnings(outcome: Outcome) -> str:
    return "\n".join(str(problem) for problem in outcome.problems if problem.severity == "warning")


def errors(outcome: Outcome) -> str:
    return "\n".join(str(problem) for problem in outcome.problems if problem.severity == "error")


class TestMounting:
    def test_a_fresh_host_gets_programs_lines_and_mounts(self) -> None:
        machine = ClientMachine()
        outcome = machine.run(DATA, CODE)
        assert whats(outcome) == [
            "package nfs-common",
            "/etc/fstab: share data",
            "mount /data",
            "/etc/fstab: share code",
            "mount /mnt/code",
        ]
        assert machine.host.files[FSTAB] == SYSTEM + DATA_LINE + CODE_LINE
        assert machine.mounted() == {"/data": "10.0.0.5:/srv/data", "/mnt/code": "store.example:/code"}
        assert machine.host.ran("mount") == [["mount", "-o", "fg,retry=0", path] for path in ("/data", "/mnt/code")]

    def test_a_second_run_changes_nothing_and_runs_nothing(self) -> None:
        machine = mounting_host()
        outcome = machine.run(DATA, CODE)
        assert not outcome.changed and not outcome.problems and machine.host.commands == []

    def test_a_share_for_pods_alone_brings_the_programs(self) -> None:
        machine = ClientMachine()
        assert whats(machine.run({**DATA, "mount": ""})) == ["package nfs-common"]
        assert machine.host.files[FSTAB] == SYSTEM

    def test_no_share_at_all_brings_nothing(self) -> None:
        assert not ClientMachine().run().changed

    def test_check_mode_predicts_although_the_server_is_not_there_yet(self) -> None:
        machine = ClientMachine()
        machine.network.closed = dict(SILENT)
        assert whats(machine.run(DATA, check=True)) == ["package nfs-common", "/etc/fstab: share data", "mount /data"]

    def test_an_ipv6_server_stands_in_brackets(self) -> None:
        machine = ClientMachine()
        machine.run({**DATA, "server": "fd00::5"})
        assert machine.mounted() == {"/data": "[fd00::5]:/srv/data"}

    def test_a_mount_made_by_hand_is_kept_and_gets_its_line(self) -> None:
        machine = mounting_host()
        machine.host.files[FSTAB] = SYSTEM + CODE_LINE
        assert whats(machine.run(DATA, CODE)) == ["/etc/fstab: share data"]

    def test_new_shares_are_mounted_on_a_node_in_service_without_a_reload(self) -> None:
        machine = ClientMachine()
        outcome = machine.run(DATA, in_service=True)
        assert machine.mounted() and not outcome.deferred and not machine.host.ran("systemctl")


class TestSilentServers:
    def test_one_fails_by_name_and_the_others_are_mounted(self) -> None:
        machine = ClientMachine()
        machine.network.closed = dict(SILENT)
        with pytest.raises(BedplateError) as failed:
            machine.run(DATA, CODE)
        assert "mount /data: found 10.0.0.5 port 2049: timed out; wanted share data of 10.0.0.5:/srv/data" in str(failed.value)
        assert machine.mounted() == {"/mnt/code": "store.example:/code"}
        assert [argv[-1] for argv in machine.host.ran("mount")] == ["/mnt/code"], "no mount of it was tried"

    def test_when_it_answers_again_the_same_run_goes_on(self) -> None:
        machine = ClientMachine()
        machine.network.closed = dict(SILENT)
        with pytest.raises(BedplateError):
            machine.run(DATA)
        machine.network.closed = {}
        assert whats(machine.run(DATA)) == ["mount /data"]

    def test_of_a_mounted_share_it_is_a_warning_and_nothing_looks_into_it(self) -> None:
        machine = mounting_host()
        machine.network.closed = dict(SILENT)
        outcome = machine.run(DATA, CODE)
        assert not outcome.changed and "mounted, and 10.0.0.5 port 2049: timed out" in warnings(outcome)
        assert machine.host.commands == []

    def test_another_port_is_asked_where_the_options_say_so(self) -> None:
        machine = ClientMachine()
        machine.network.closed = {"nfs://10.0.0.5:20490": "10.0.0.5 port 20490: timed out"}
        with pytest.raises(BedplateError, match="port 20490"):
            machine.run({**DATA, "options": ["vers=4.2", "port=20490"]})

    def test_what_mount_says_is_passed_on(self) -> None:
        machine = ClientMachine()
        machine.refuses = "mount.nfs: access denied by server while mounting 10.0.0.5:/srv/data\n"
        with pytest.raises(BedplateError, match="access denied by server"):
            machine.run(DATA)


class TestOtherwise:
    def test_on_a_node_in_service_it_waits_for_the_roll(self) -> None:
        machine = mounting_host()
        before = machine.host.snapshot()
        outcome = machine.run(OTHERWISE, CODE, in_service=True)
        assert [c.what for c in outcome.deferred] == ["unmount /data", "/etc/fstab: share data", "mount /data"]
        assert all(c.effects == {DRAIN} for c in outcome.deferred) and machine.host.snapshot() == before

    def test_on_a_drained_node_it_is_mounted_anew_and_systemd_reads_the_line(self) -> None:
        machine = mounting_host()
        machine.run(OTHERWISE, CODE)
        commands = [argv[0] for argv in machine.host.commands]
        assert commands == ["find", "umount", "mkdir", "systemctl", "mount"] and "vers=4.1" in machine.host.files[FSTAB]
        assert machine.host.ran("umount") == [["umount", "-c", "/data"]]

    def test_one_in_use_is_never_unmounted(self) -> None:
        machine = mounting_host()
        machine.links = IN_USE
        machine.host.files["/proc/77/cmdline"] = "python\0train.py\0"
        with pytest.raises(BedplateError, match=r"in use by process 77 \(python train.py\)"):
            machine.run(OTHERWISE, CODE)
        assert "/data" in machine.mounted() and machine.host.files[FSTAB] == SYSTEM + DATA_LINE + CODE_LINE

    def test_a_word_for_systemd_alone_disturbs_nobody(self) -> None:
        machine = mounting_host()
        machine.host.files[FSTAB] = machine.host.files[FSTAB].replace(
            "bg,nofail,x-bedplate.share=data", "nofail,bg,x-a,x-bedplate.share=data"
        )
        outcome = machine.run(DATA, CODE, in_service=True)
        assert whats(outcome) == ["/etc/fstab: share data"] and not machine.host.ran("umount")

    def test_another_mount_point(self) -> None:
        machine = mounting_host()
        machine.run({**DATA, "mount": "/new"}, CODE)
        assert sorted(machine.mounted()) == ["/mnt/code", "/new"] and " /data " not in machine.host.files[FSTAB]


class TestTakenOut:
    def test_it_is_unmounted_where_nobody_uses_it(self) -> None:
        machine = mounting_host()
        outcome = machine.run(CODE, in_service=True)
        assert whats(outcome) == ["mount /data", "/etc/fstab: share data"]
        assert sorted(machine.mounted()) == ["/mnt/code"] and machine.host.files[FSTAB] == SYSTEM + CODE_LINE

    def test_in_use_it_stays_and_the_run_says_by_whom(self) -> None:
        machine = mounting_host()
        machine.links = IN_USE
        machine.host.files["/proc/77/cmdline"] = "python\0train.py\0"
        outcome = machine.run(CODE)
        assert not outcome.changed and "/data" in machine.mounted()
        assert "mount /data: found in use by process 77 (python train.py)" in warnings(outcome)

    def test_one_that_is_not_mounted_only_loses_its_line(self) -> None:
        machine = ClientMachine(SYSTEM + DATA_LINE)
        assert whats(machine.run()) == ["/etc/fstab: share data"] and machine.host.files[FSTAB] == SYSTEM

    def test_another_name_for_the_same_mount_is_no_reason_to_unmount(self) -> None:
        machine = mounting_host()
        machine.links = IN_USE
        outcome = machine.run({**DATA, "name": "datasets"}, CODE)
        assert not machine.host.ran("umount") and not outcome.problems
        assert machine.host.files[FSTAB].count("10.0.0.5:/srv/data") == 1 and "share=datasets" in machine.host.files[FSTAB]

    def test_another_share_takes_its_place(self) -> None:
        machine = mounting_host()
        machine.run({**CODE, "mount": "/data", "name": "other"})
        assert machine.mounted() == {"/data": "store.example:/code"}


class TestRefused:
    def test_somebody_elses_mount(self) -> None:
        machine = ClientMachine()
        machine.host.files["/proc/self/mountinfo"] += "50 22 0:50 / /data rw - nfs4 elsewhere:/x rw\n"
        outcome = machine.run(DATA)
        assert "elsewhere:/x mounted there" in errors(outcome) and not outcome.changed

    def test_somebody_elses_line(self) -> None:
        machine = ClientMachine(SYSTEM + "elsewhere:/x /data nfs defaults 0 0\n")
        assert "in /etc/fstab: elsewhere:/x /data nfs" in errors(machine.run(DATA))

    def test_files_that_would_be_hidden(self) -> None:
        machine = ClientMachine()
        machine.host.files["/data/.old"] = machine.host.files["/data/results"] = ""
        assert "2 files in it (.old, results)" in errors(machine.run(DATA))

    @pytest.mark.parametrize(
        ("share", "message"),
        [
            ({"mount": "data"}, "wanted an absolute path"),
            ({"mount": "/a/../etc"}, "wanted an absolute path"),
            ({"path": "/a b"}, "wanted one word"),
            ({"options": ["ro,soft"]}, "wanted one word without commas"),
        ],
    )
    def test_shares_that_cannot_be(self, share: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            client_desired({**DATA, **share})

    def test_two_at_one_mount_point(self) -> None:
        with pytest.raises(ValueError, match="twice"):
            client_desired(DATA, {**CODE, "mount": "/data"})


class TestTables:
    def test_mounts_and_devices(self) -> None:
        text = "22 1 254:1 / / rw shared:1 - ext4 /dev/vda1 rw\n41 22 0:41 / /a\\040b rw - nfs4 s:/x rw\n"
        mounts = parse_mounts(f"{text}42 22 0:42 / /srv rw - xfs d rw\n")
        assert mounts[1] == Mount("/a b", "0:41", "s:/x", "nfs4")
        assert device_of(mounts, "/srv/data") == "0:42" and device_of(mounts, "/srvx") == "254:1" and device_of((), "/x") == ""
        assert mount_at([*mounts, Mount("/srv", "0:50", "over")], "/srv") == Mount("/srv", "0:50", "over")

    def test_links_of_processes_that_went_meanwhile_are_no_matter(self) -> None:
        assert parse_links("/proc/7/fd/3\t/data/x y\nfind: gone\n/proc/7/cwd\t/\n") == {"7": {"fd/3": "/data/x y", "cwd": "/"}}

    def test_a_container_that_has_the_file_system_mounted_uses_it(self) -> None:
        machine = mounting_host()
        machine.links = "/proc/1/ns/mnt\tmnt:[1]\n/proc/8/ns/mnt\tmnt:[2]\n/proc/9/ns/mnt\tmnt:[2]\n/proc/10/ns/mnt\tmnt:[3]\n"
        machine.host.files["/proc/8/mountinfo"] = "7 6 0:41 / /inputs rw - nfs4 10.0.0.5:/srv/data rw\n"
        machine.host.files["/proc/10/mountinfo"] = "7 6 0:99 / /inputs rw - nfs4 10.0.0.5:/srv/data rw\n"
        machine.host.files["/proc/8/comm"] = "sleep\n"
        (mount,) = [m for m in parse_mounts(machine.host.files["/proc/self/mountinfo"]) if m.path == "/data"]
        assert users(machine.host, mount) == ["process 8 (sleep)"]

    def test_the_same_path_in_a_container_is_another_path(self) -> None:
        machine = mounting_host()
        machine.links = "/proc/1/ns/mnt\tmnt:[1]\n/proc/8/ns/mnt\tmnt:[2]\n/proc/8/cwd\t/data\n"
        (mount,) = [m for m in parse_mounts(machine.host.files["/proc/self/mountinfo"]) if m.path == "/data"]
        assert users(machine.host, mount) == []
