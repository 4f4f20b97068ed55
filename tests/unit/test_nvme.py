# SPDX-License-Identifier: Apache-2.0
"""Volumes over NVMe disks: which disks are used, which never (F43, F44), and what a second run, a boot or a new disk changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.errors import BedplateError
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from fixtures_nvme import RAID0, RULE, SINGLE, made, refused, run, volume, warnings, with_data, writes
from simulated_nvme import EXT4, FSTAB, GB, GPT, Array, Drive, Machine, drives

from recorded_host import RecordedHost

RECORD = "/var/lib/bedplate/nvme.json"
FLAG = ("wipe",)


class TestBlankDisksOnly:
    """F43."""

    CONTENTS: ClassVar = {
        "ext4": Drive(serial="S2", signatures=[dict(EXT4)]),
        "gpt, partitions nvme1n1p1": Drive(serial="S2", signatures=[dict(GPT)], partitions=1),
        "LVM member": Drive(serial="S2", signatures=[{"type": "LVM2_member", "uuid": "x", "label": None}]),
        "RAID member 'old:md0'": Drive(serial="S2", signatures=[{"type": "linux_raid_member", "uuid": "x", "label": "old:md0"}]),
        "data without a known signature": Drive(serial="S2", zeros=False),
    }

    @pytest.mark.parametrize("what", CONTENTS)
    def test_what_is_on_a_declared_disk_is_named_and_nothing_is_touched(self, what: str) -> None:
        drive = Drive(**{**vars(self.CONTENTS[what])})
        message = refused(Machine(Drive(serial="S1"), drive), RAID0)
        assert f"disk S2 of volume scratch: found {what}" in message
        assert "nvme_wipe: [S2], and add -e bedplate_allow=wipe" in message and "no disk was touched" in message

    def test_a_rule_takes_the_blank_ones_and_names_the_others(self) -> None:
        machine = Machine(*drives(2), *(Drive(**{**vars(d), "serial": f"D{i}"}) for i, d in enumerate(self.CONTENTS.values())))
        host = machine.host()
        outcome = run(host, RULE)
        assert machine.arrays[0].drives == ["S1", "S2"] and machine.mounts["/scratch"] == "md127"
        assert writes(machine)[2:] == [0] * 5
        assert all(f"disk D{i}: found" in warnings(outcome) for i in range(5))

    def test_a_disk_in_use_is_not_even_a_warning_of_a_rule(self) -> None:
        machine = Machine(*drives(2), Drive(serial="OS", signatures=[dict(GPT)], partitions=2))
        machine.mounts["/boot"] = "nvme2n1p1"
        assert "OS" not in warnings(run(machine.host(), RULE))

    def test_fewer_than_the_rules_count_is_refused(self) -> None:
        message = refused(with_data(), {**RULE, "count": 3})
        assert "found 2 blank disks that match [S1, S3]" in message and "disk S2: ext4 'DATA'" in message

    def test_single_by_rule_wants_exactly_one_disk(self) -> None:
        assert "wanted 1 for single" in refused(Machine(*drives(2)), volume(model="QEMU"))

    def test_size_and_model_are_the_rule(self) -> None:
        machine = Machine(Drive(serial="S1", size=GB), *drives(3)[1:], Drive(serial="X", model="Other"))
        run(machine.host(), volume(layout="raid0", min_size_bytes=2 * GB, model="QEMU"))
        assert machine.arrays[0].drives == ["S2", "S3"]


class TestWiping:
    def test_a_named_disk_without_the_flag_is_refused(self) -> None:
        assert "it is named in nvme_wipe; to destroy its content repeat with" in refused(with_data(), RAID0, wipe=("S2",))

    def test_the_flag_without_a_name_is_refused(self) -> None:
        assert "disk S2 of volume scratch: found ext4 'DATA'" in refused(with_data(), RAID0, allow=FLAG)

    def test_name_and_flag_wipe_that_disk_only_and_only_once(self) -> None:
        machine = Machine(*drives(2), Drive(serial="S9", signatures=[dict(EXT4)]))
        machine.drives[1].signatures, machine.drives[1].partitions = [dict(GPT)], 2
        host = machine.host()
        run(host, RAID0, wipe=("S2",), allow=FLAG)
        assert host.ran("wipefs", "--all") == [["wipefs", "--all", "/dev/nvme1n1p1", "/dev/nvme1n1p2", "/dev/nvme1n1"]]
        assert machine.mounts["/scratch"] == "md127" and machine.drives[2].writes == 0
        assert not run(host, RAID0, wipe=("S2",), allow=FLAG).changed

    def test_a_mounted_disk_is_refused_even_then(self) -> None:
        machine = with_data()
        machine.mounts["/srv"] = "nvme1n1"
        assert "found in use (/srv)" in refused(machine, RAID0, wipe=("S2",), allow=FLAG)

    def test_an_old_array_is_stopped_only_when_all_its_disks_are_named(self) -> None:
        machine = Machine(*drives(3))
        for drive in machine.drives[1:]:
            drive.signatures = [{"type": "linux_raid_member", "uuid": "old", "label": "old:0"}]
        machine.arrays = [Array(name="md127", title="raid1", uuid="old", drives=["S2", "S3"], slots=2)]
        assert "other disks belong to that are not named in nvme_wipe (S3)" in refused(machine, RAID0, wipe=("S2",), allow=FLAG)
        host = machine.host()
        run(host, RAID0, wipe=("S2", "S3"), allow=FLAG)
        assert host.ran("mdadm", "--stop") and machine.arrays[0].drives == ["S1", "S2"] and machine.drives[2].writes == 0

    def test_right_before_it_writes_it_looks_again(self) -> None:
        machine = Machine(*drives(2))
        host = machine.host()

        def installed(host: RecordedHost) -> None:
            host.files["/usr/sbin/mdadm"] = ""
            machine.drives[1].signatures.append(dict(EXT4))

        host.installs["mdadm"] = installed
        with pytest.raises(BedplateError, match="disk S2: found ext4 'DATA' right before it was to be written"):
            run(host, RAID0)
        assert writes(machine) == [0, 0]


class TestSerialsAndBoots:
    """F44."""

    def test_an_absent_disk_fails_without_touching_another(self) -> None:
        message = refused(Machine(*drives(1)), RAID0, SINGLE)
        assert "disk S2 of volume scratch: found no NVMe disk of this serial; there are S1 (QEMU NVMe Ctrl, 4.0 GB)" in message
        assert "disk S3 of volume data" in message and "no other disk was touched" in message

    def test_disks_that_swap_names_change_nothing(self) -> None:
        machine = Machine(*drives(3))
        host = made(machine, RAID0, SINGLE)
        before = host.files["/etc/fstab"], host.files[RECORD]
        machine.boot(host, [2, 1, 0])
        assert (machine.mounts["/scratch"], machine.mounts["/data"]) == ("md127", "nvme0n1")
        outcome = run(host, RAID0, SINGLE)
        assert not outcome.changed and not outcome.problems
        assert (host.files["/etc/fstab"], host.files[RECORD]) == before
        assert "/dev/" not in host.files[RECORD] + host.files["/etc/fstab"]

    def test_a_second_run_is_one_process(self) -> None:
        host = made(Machine(*drives(3)), RAID0, SINGLE)
        assert not run(host, RAID0, SINGLE).changed
        assert [command[0] for command in host.commands] == ["wipefs"]

    def test_one_serial_with_two_namespaces_is_refused(self) -> None:
        assert "found 2 disks of one serial" in refused(Machine(*drives(2), Drive(serial="S2")), RAID0)

    def test_a_system_installed_anew_finds_its_volumes(self) -> None:
        machine = Machine(*drives(3))
        host = made(machine, RAID0, SINGLE)
        del host.files[RECORD]
        host.files["/etc/fstab"] = FSTAB
        machine.mounts.clear()
        before = writes(machine)
        machine.show(host)
        run(host, RAID0, SINGLE)
        assert writes(machine) == before and set(machine.mounts) == {"/scratch", "/data"}
        assert not run(host, RAID0, SINGLE).changed

    def test_so_does_one_whose_rule_chose_them(self) -> None:
        machine = Machine(*drives(3))
        host = made(machine, RULE)
        del host.files[RECORD]
        assert [change.what for change in run(host, RULE).changes] == ["volume scratch in the record"]

    def test_an_array_that_does_not_run_is_started_not_made(self) -> None:
        machine = Machine(*drives(2))
        host = made(machine, RAID0)
        array = machine.arrays.pop()
        machine.mounts.clear()
        machine.show(host)

        def mdadm(host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
            machine.arrays.append(array)
            machine.show(host)
            return Result(0)

        host.on("mdadm", mdadm)
        run(host, RAID0)
        assert host.ran("mdadm")[0][1] == "--assemble" and machine.mounts["/scratch"] == "md127"
