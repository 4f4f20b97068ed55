# SPDX-License-Identifier: Apache-2.0
"""What becomes of volumes over NVMe disks once they are made, where they are mounted, and the commands that make them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.bedplate.metal.plugins.module_utils.core import Policy
from ansible_collections.bedplate.metal.plugins.module_utils.mounts import parse_mounts
from ansible_collections.bedplate.metal.plugins.module_utils.nvme_disks import parse_signatures
from ansible_collections.bedplate.metal.plugins.module_utils.nvme_fstab import IMAGE_STORE
from ansible_collections.bedplate.metal.plugins.module_utils.nvme_volumes import Entry, identity
from fixtures_nvme import LVM, RAID0, RAID1, RULE, SINGLE, desired, errors, lost_a_disk, made, refused, run, warnings, writes
from simulated_nvme import FSTAB, Drive, Machine, drives

from recorded_host import RecordedHost

FLAG = ("wipe",)


class TestChanges:
    def test_a_rule_never_grows_a_volume(self) -> None:
        machine = Machine(*drives(2))
        host = made(machine, RULE)
        machine.drives.append(Drive(serial="S3"))
        machine.show(host)
        outcome = run(host, RULE)
        assert not outcome.changed and "made of [S1, S2], and [S3] blank" in warnings(outcome)

    def test_a_lost_disk_of_a_rule_is_a_problem_never_a_new_volume(self) -> None:
        machine = Machine(*drives(3))
        host = made(machine, RULE)
        machine.boot(host, [0, 2])
        outcome = run(host, RULE)
        assert "disk S2 of volume scratch: found no NVMe disk" in errors(outcome) and not outcome.changed
        assert "nvme_serials: {scratch: [SERIAL, …]}" in errors(outcome)

    def test_another_layout_is_refused_then_made_by_name_and_flag(self) -> None:
        machine = Machine(*drives(2))
        host = made(machine, RAID0)
        assert "found layout raid0 of [S1, S2]; wanted raid1 of [S1, S2]" in errors(run(host, RAID1, allow=FLAG))
        assert not run(host, RAID1, wipe=("S1",), allow=FLAG).changed
        run(host, RAID1, wipe=("S1", "S2"), allow=FLAG)
        assert machine.arrays[0].title == "raid1" and machine.mounts["/scratch"] == "md127"

    def test_a_volume_somebody_erased_is_made_anew_only_by_name_and_flag(self) -> None:
        machine = Machine(*drives(3))
        host = made(machine, SINGLE)
        machine.boot(host, [2, 0, 1])
        machine.drives[0].signatures, machine.drives[0].zeros = [], True
        machine.mounts.clear()
        machine.show(host)
        assert "found no file system on what was made as its own" in errors(run(host, SINGLE, allow=FLAG))
        run(host, SINGLE, wipe=("S3",), allow=FLAG)
        assert machine.mounts["/data"] == "nvme0n1" and not run(host, SINGLE).changed

    def test_another_file_system_is_refused(self) -> None:
        host = made(Machine(*drives(2)), RAID0)
        assert "found xfs on what was made" in errors(run(host, {**RAID0, "filesystem": "ext4"}))

    def test_a_replaced_disk_is_added_when_it_is_named(self) -> None:
        host = lost_a_disk()
        refused = run(host, RAID1)
        assert "disk S2 of volume scratch: found no NVMe disk" in errors(refused)
        assert "volume scratch: found 1 of 2 members missing ([S2])" in warnings(refused)
        run(host, {**RAID1, "serials": ["S1", "S9"]})
        assert host.ran("mdadm") == [["mdadm", "/dev/md127", "--add", "/dev/nvme1n1"]]
        assert not run(host, {**RAID1, "serials": ["S1", "S9"]}).changed

    def test_a_working_member_is_not_replaced(self) -> None:
        host = made(Machine(*drives(3)), RAID1)
        outcome = run(host, {**RAID1, "serials": ["S1", "S3"]})
        assert "disk S2 still a working member" in errors(outcome) and "--fail /dev/nvme1n1" in errors(outcome)

    def test_raid0_with_another_disk_must_be_made_anew(self) -> None:
        host = made(Machine(*drives(3)), RAID0)
        assert "found raid0 of [S1, S2]; wanted raid0 of [S1, S3]" in errors(run(host, {**RAID0, "serials": ["S1", "S3"]}))

    def test_a_degraded_array_is_told_with_the_next_step(self) -> None:
        machine = Machine(*drives(2))
        host = made(machine, RAID1)
        machine.arrays[0].faulty, machine.drives[1].broken = ["S2"], True
        machine.show(host)
        outcome = run(host, RAID1)
        assert not errors(outcome) and "1 of 2 members missing ([S2])" in warnings(outcome)
        assert "name the new one: nvme_serials" in warnings(outcome)

    def test_a_volume_no_longer_declared_stays(self) -> None:
        machine = Machine(*drives(3))
        host = made(machine, RAID0, SINGLE)
        outcome = run(host, RAID0)
        assert not outcome.changed and "volume data: found made before and no longer declared" in warnings(outcome)


class TestMounts:
    def test_fstab_is_merged_by_uuid(self) -> None:
        host = made(Machine(*drives(3)), RAID0, SINGLE)
        text = host.files["/etc/fstab"]
        assert text.startswith(FSTAB + "\n")
        scratch, data = text.splitlines()[3:]
        assert scratch.split()[:3] == [f"UUID={identity('filesystem', 'scratch', ['S1', 'S2'])}", "/scratch", "xfs"]
        assert "nofail,x-systemd.device-timeout=30s,x-systemd.before=kubelet.service" in scratch and data.endswith(" 0 2")

    def test_containerd_does_not_start_without_its_store(self) -> None:
        host = made(Machine(*drives(2)), {**RAID0, "mount": IMAGE_STORE})
        assert "x-systemd.before=containerd.service,x-systemd.required-by=containerd.service" in host.files["/etc/fstab"]

    def test_in_service_nothing_is_made_and_the_rolling_playbook_is_named(self) -> None:
        machine = Machine(*drives(2))
        outcome = run(machine.host(), RAID0, policy=Policy(in_service=True))
        assert {"volume scratch", "file system of volume scratch", "file /etc/fstab", "mount /scratch"} == {
            change.what for change in outcome.deferred
        }
        assert writes(machine) == [0, 0]

    def test_a_store_with_images_in_it_is_changed_by_a_reboot(self) -> None:
        machine = Machine(*drives(2))
        host = machine.host()
        host.files[f"{IMAGE_STORE}/io.containerd.metadata.v1.bolt/meta.db"] = "x"
        store = {**RAID0, "mount": IMAGE_STORE}
        assert [c.what for c in run(host, store).deferred] == [f"mount {IMAGE_STORE}"]
        outcome = run(host, store, policy=Policy(allow=frozenset({"drain", "reboot"})))
        assert outcome.reboot and IMAGE_STORE not in machine.mounts
        machine.boot(host, [1, 0])
        assert machine.mounts[IMAGE_STORE] == "md127" and not run(host, store).changed

    def test_files_are_never_hidden(self) -> None:
        machine = Machine(*drives(2))
        host = machine.host()
        host.files["/scratch/.keep"] = ""
        assert "mount /scratch: found 1 files in it (.keep); wanted an empty directory" in errors(run(host, RAID0))
        assert writes(machine) == [0, 0]

    def test_another_line_or_mount_there_is_refused(self) -> None:
        machine = Machine(*drives(2))
        host = machine.host()
        host.files["/etc/fstab"] += "\nLABEL=old /scratch ext4 defaults 0 0\n"
        assert "found in /etc/fstab: LABEL=old /scratch" in errors(run(host, RAID0))
        machine = Machine(*drives(3))
        machine.mounts["/scratch"] = "nvme2n1"
        assert "found /dev/nvme2n1 mounted there" in refused(machine, RAID0)

    def test_check_mode_predicts_the_run(self) -> None:
        for declared in (RAID0, RAID1, LVM, SINGLE):
            host = Machine(*drives(3)).host()
            before = host.snapshot()
            predicted = run(host, declared, policy=Policy(check=True))
            assert host.snapshot() == before
            assert [c.public() for c in run(host, declared).changes] == [c.public() for c in predicted.changes]


class TestCommands:
    def test_an_array_has_the_same_name_on_every_host(self) -> None:
        host = made_commands(RAID1)
        create = host.ran("mdadm", "--create")[0]
        assert create[2] == "/dev/md/scratch" and {"--homehost=any", "--level=raid1", "--bitmap=internal"} <= set(create)
        assert create[-2:] == ["/dev/nvme0n1", "/dev/nvme1n1"]

    def test_lvm_stripes_over_all_disks(self) -> None:
        create = made_commands(LVM).ran("lvcreate")[0]
        assert create[create.index("--stripes") + 1] == "2" and create[-1] == "bedplate_scratch"

    def test_lvm_uuids_have_lvms_form(self) -> None:
        entry = Entry.of(desired(LVM).volumes[0], ("S1", "S2"))
        assert [len(part) for part in entry.member("S1").split("-")] == [6, 4, 4, 4, 4, 4, 6]
        assert entry.member("S1") != entry.member("S2")

    @pytest.mark.parametrize(
        "options",
        [
            {"name": "0"},
            {"mount": "relative"},
            {"mount": "/a b"},
            {"serials": ["S1"]},
            {"serials": ["S1", "S1"]},
            {"serials": []},
        ],
    )
    def test_volumes_that_cannot_be_are_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="volume "):
            desired({**RAID0, **options})


def made_commands(declared: dict[str, Any]) -> RecordedHost:
    host = Machine(*drives(2)).host()
    run(host, declared)
    return host


def test_output_of_the_real_wipefs() -> None:
    """util-linux 2.38 over a GPT disk; an empty list over blank ones."""
    found = (("0x200", "gpt"), ("0x3ffffe00", "gpt"), ("0x1fe", "PMBR"))
    rows = [{"device": "nvme0n1", "offset": offset, "type": kind, "uuid": None, "label": None} for offset, kind in found]
    text = json.dumps({"signatures": rows})
    assert [str(s) for s in parse_signatures(text)["nvme0n1"]] == ["gpt", "PMBR"]
    assert parse_signatures('{\n   "signatures": [\n\n   ]\n}\n') == {}


def test_mountinfo() -> None:
    line = "36 35 259:3 / /my\\040data rw,noatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=continue\n"
    (mount,) = parse_mounts(line)
    assert (mount.path, mount.device, mount.source) == ("/my data", "259:3", "/dev/nvme0n1p2")
