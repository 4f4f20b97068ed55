# SPDX-License-Identifier: Apache-2.0
"""Shares served over NFS: who is let in, what is in force, what is open, and that nothing restarts a server."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.mounts import MOUNTINFO
from ansible_collections.bedplate.metal.plugins.module_utils.nfs_exports import (
    FILE,
    TABLE,
    among,
    mounters,
    parse_table,
    paths_of,
)
from ansible_collections.bedplate.metal.plugins.module_utils.nfs_server import SERVICE, SETTINGS, THREADS
from fixtures_nfs import EXPORT, OTHER, ServerMachine, server_desired, serving_host

SRV = "41 22 0:41 / /srv rw - xfs /dev/md127 rw\n"
# As nfs-utils 2.6 writes it.
ETAB = (
    "/srv/data\t10.0.0.21(rw,sync,wdelay,hide,nocrossmnt,secure,root_squash,no_all_squash,no_subtree_check,secure_locks,acl,no_pnfs,"
    "anonuid=65534,anongid=65534,sec=sys,rw,secure,root_squash,no_all_squash)\n"
)


def whats(outcome: Outcome) -> list[str]:
    return [change.what for change in outcome.changes]


def said(outcome: Outcome) -> str:
    return "\n".join(f"{problem.severity}: {problem}" for problem in outcome.problems)


class TestServing:
    def test_a_fresh_host(self) -> None:
        machine = ServerMachine()
        outcome = machine.run(EXPORT, OTHER)
        assert whats(outcome) == [
            "directory /srv/data",
            "directory /srv/code",
            f"file {FILE}",
            f"file {SETTINGS}",
            "package nfs-kernel-server",
            f"service {SERVICE}",
            "exports in force",
        ]
        lines = machine.host.files[FILE].splitlines()
        assert lines[1:] == [
            "# share code",
            "/srv/code -ro,no_root_squash,sync,no_subtree_check 10.0.0.0/24",
            "# share data",
            "/srv/data -rw,root_squash,sync,no_subtree_check 10.0.0.21 10.0.0.22",
        ]
        assert machine.host.files[SETTINGS].endswith("[nfsd]\nthreads=64\n") and machine.host.files[THREADS] == "64\n"
        assert machine.host.ran("install")[0] == ["install", "-d", "-m", "1777", "/srv/data"]

    def test_a_second_run_changes_nothing(self) -> None:
        machine = serving_host()
        outcome = machine.run(EXPORT, OTHER)
        assert not outcome.changed and not outcome.problems
        assert [argv[0] for argv in machine.host.commands] == ["systemctl"]

    def test_nobody_else_is_ever_let_in(self) -> None:
        assert "*" not in serving_host().host.files[FILE]

    def test_a_client_more_is_put_in_force_and_nothing_is_restarted(self) -> None:
        machine = serving_host()
        outcome = machine.run({**EXPORT, "clients": ["10.0.0.21", "fd00::22"]}, OTHER, in_service=True)
        assert whats(outcome) == [f"file {FILE}", "exports in force"] and not outcome.deferred
        assert ("/srv/data", "fd00::22") in parse_table(machine.host.files[TABLE])
        assert not [argv for argv in machine.host.ran("systemctl") if argv[1] != "show"]

    def test_threads_change_while_it_runs(self) -> None:
        machine = serving_host()
        assert whats(machine.run(EXPORT, OTHER, threads=8)) == [f"file {SETTINGS}", "threads of the NFS server"]
        assert machine.host.ran("rpc.nfsd") == [["rpc.nfsd", "8"]] and machine.host.files[THREADS] == "8\n"

    def test_a_server_that_stopped_is_started(self) -> None:
        machine = serving_host()
        machine.host.services[SERVICE] = "inactive"
        machine.host.files[TABLE] = ""
        assert whats(machine.run(EXPORT, OTHER)) == [f"service {SERVICE}", "exports in force"]

    def test_exports_that_somebody_took_out_of_force_are_put_back(self) -> None:
        machine = serving_host()
        machine.host.files[TABLE] = machine.host.files[TABLE].replace("/srv/data\t10.0.0.22", "/other\t10.0.0.22")
        assert whats(machine.run(EXPORT, OTHER)) == ["exports in force"]

    def test_an_existing_directory_keeps_its_permissions(self) -> None:
        machine = ServerMachine(**{"/srv/data/.": ""})
        machine.run(EXPORT)
        assert not machine.host.ran("install")

    def test_no_share_brings_nothing(self) -> None:
        assert not ServerMachine().run().changed


class TestDisk:
    def test_the_directory_is_made_on_its_disk_alone(self) -> None:
        machine = ServerMachine()
        with pytest.raises(BedplateError, match="share data: found nothing mounted at /srv; wanted the disk of /srv/data there"):
            machine.run({**EXPORT, "disk_mount": "/srv"})
        assert not machine.host.ran("install")
        machine.host.files[MOUNTINFO] += SRV
        machine.run({**EXPORT, "disk_mount": "/srv"})
        assert ",mp=/srv 10.0.0.21" in machine.host.files[FILE]

    def test_a_directory_below_the_mount_point_is_no_share(self) -> None:
        machine = ServerMachine(**{"/srv/data/.": ""})
        outcome = machine.run({**EXPORT, "disk_mount": "/srv"})
        assert "error: share data: found nothing mounted at /srv" in said(outcome) and not outcome.changed


class TestTakenOut:
    def test_it_is_exported_no_more_and_its_directory_stays(self) -> None:
        machine = serving_host()
        assert whats(machine.run(OTHER)) == ["export /srv/data", f"file {FILE}"]
        assert [argv[1:] for argv in machine.host.ran("exportfs")] == [["-u", f"10.0.0.{n}:/srv/data"] for n in (21, 22)]
        assert "/srv/data" not in machine.host.files[FILE] + machine.host.files[TABLE] and "/srv/data/." in machine.host.files

    def test_the_last_one_takes_the_file_along(self) -> None:
        machine = serving_host()
        machine.run()
        assert FILE not in machine.host.files and machine.host.files[TABLE] == "" and not machine.run().changed

    def test_while_a_client_has_a_file_open_it_stays_and_the_run_says_who(self) -> None:
        machine = serving_host()
        machine.host.files[MOUNTINFO] += SRV
        machine.opened("0:41")
        outcome = machine.run(OTHER)
        assert not outcome.changed and "warning: export /srv/data of share data: found in use by client 10.0.0.21;" in said(
            outcome
        )

    def test_open_files_of_another_disk_are_no_matter(self) -> None:
        machine = serving_host()
        machine.host.files[MOUNTINFO] += SRV
        machine.opened("254:1")
        assert machine.run(OTHER).changed

    def test_a_client_of_nfs_3_that_has_it_mounted_counts(self) -> None:
        machine = serving_host()
        machine.host.files["/var/lib/nfs/rmtab"] = "10.0.0.22:/srv/data:0x00000001\n10.0.0.9:/srv/code:0x00000001\n"
        assert "in use by client 10.0.0.22 (NFS 3)" in said(machine.run(OTHER))

    def test_a_client_less_with_files_open_keeps_them_and_a_client_more_is_let_in(self) -> None:
        machine = serving_host()
        machine.host.files[MOUNTINFO] += SRV
        machine.opened("0:41", "[fd00::9]:812")
        machine.opened("0:41")
        outcome = machine.run({**EXPORT, "clients": ["10.0.0.22", "10.0.0.23"]}, OTHER)
        assert "warning: export /srv/data of share data: found in use by client 10.0.0.21;" in said(outcome)
        clients = {client for path, client in parse_table(machine.host.files[TABLE]) if path == "/srv/data"}
        assert clients == {"10.0.0.21", "10.0.0.22", "10.0.0.23"}
        del machine.host.files["/proc/fs/nfsd/clients/4/states"]
        machine.run({**EXPORT, "clients": ["10.0.0.22", "10.0.0.23"]}, OTHER)
        clients = {client for path, client in parse_table(machine.host.files[TABLE]) if path == "/srv/data"}
        assert clients == {"10.0.0.22", "10.0.0.23"}

    def test_a_client_less_is_out_although_another_has_files_open(self) -> None:
        machine = serving_host()
        machine.host.files[MOUNTINFO] += SRV
        machine.opened("0:41", "10.0.0.22:700")
        outcome = machine.run({**EXPORT, "clients": ["10.0.0.22"]}, OTHER)
        assert not outcome.problems and ("/srv/data", "10.0.0.21") not in parse_table(machine.host.files[TABLE])

    def test_writers_stay_writers_until_they_have_closed_their_files(self) -> None:
        machine = serving_host()
        machine.host.files[MOUNTINFO] += SRV
        machine.opened("0:41")
        outcome = machine.run({**EXPORT, "read_only": True}, OTHER)
        assert not outcome.changed and "in use by client 10.0.0.21" in said(outcome)
        del machine.host.files["/proc/fs/nfsd/clients/4/states"]
        machine.run({**EXPORT, "read_only": True}, OTHER)
        assert "ro" in parse_table(machine.host.files[TABLE])["/srv/data", "10.0.0.22"]

    def test_another_name_for_the_same_path(self) -> None:
        machine = serving_host()
        machine.opened("254:1")
        assert whats(machine.run({**EXPORT, "name": "datasets"}, OTHER)) == [f"file {FILE}"]


class TestRefused:
    def test_a_path_that_another_file_exports_too(self) -> None:
        machine = ServerMachine(**{"/etc/exports": "# old\n/srv/data \\\n  *(rw)\n"})
        outcome = machine.run(EXPORT)
        assert "found /srv/data in /etc/exports too" in said(outcome) and not outcome.changed

    def test_other_files_and_what_they_export_stay(self) -> None:
        machine = ServerMachine(**{"/etc/exports.d/own.exports": "/home 10.0.0.9(rw)\n"})
        machine.run(EXPORT)
        assert machine.host.files["/etc/exports.d/own.exports"] == "/home 10.0.0.9(rw)\n"

    @pytest.mark.parametrize(
        ("share", "message"),
        [
            ({"clients": ["*"]}, "wanted an address or a range"),
            ({"clients": ["10.0.0.1/24"]}, "wanted an address or a range"),
            ({"clients": []}, "found no clients"),
            ({"path": "/srv/../etc"}, "wanted an absolute path"),
            ({"path": "/srv/a b"}, "wanted an absolute path"),
            ({"name": "a b"}, "wanted a name"),
        ],
    )
    def test_shares_that_cannot_be(self, share: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            server_desired({**EXPORT, **share})

    def test_one_path_twice(self) -> None:
        with pytest.raises(ValueError, match="twice"):
            server_desired(EXPORT, {**EXPORT, "name": "again"})


class TestTables:
    def test_the_table_in_force(self) -> None:
        options = parse_table(ETAB)["/srv/data", "10.0.0.21"]
        assert {"rw", "root_squash"} <= options and "ro" not in options

    def test_files_of_exports(self) -> None:
        assert paths_of('# no\n"/a" 10.0.0.1(rw)\n\n/b \\\n 10.0.0.2\n') == ["/a", "/b"]

    def test_clients_of_nfs_3_by_ipv6(self) -> None:
        assert mounters("fd00::1:/srv/data:0x00000001\n", "/srv/data") == {"fd00::1": "client fd00::1 (NFS 3)"}

    def test_who_is_meant_by_a_range_and_by_a_name(self) -> None:
        who = {"10.0.0.21": "a", "fd00::1": "b"}
        assert among(who, ["10.0.0.0/28"]) == () and among(who, ["10.0.0.0/24"]) == ("a",) and among(who, ["fd00::/64"]) == ("b",)
        assert among(who, ["w1.example.com"]) == ("a", "b") and among({"w1.example.com": "c"}, ["10.0.0.1"]) == ("c",)
