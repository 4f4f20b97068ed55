# SPDX-License-Identifier: Apache-2.0
"""Every role on machines with kernels of their own: from new to final in one run and one reboot (B7, B9, B14, F43, F44)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .machines import machine, sh
from .whole import IMAGES, PLAIN, SECURE, SWAP, VOLUMES, Whole, address, disks

NAMES = (PLAIN, SECURE)
VOLUME_NAMES = [volume["name"] for volume in VOLUMES[SECURE]]


def test_f43_f44_disks_that_are_not_blank_or_not_there_are_all_refused_at_once(whole: Whole) -> None:
    said = whole.refused.message()
    assert whole.refused.code != 0 and whole.refused.changes() == {}
    stale, data = disks(SECURE, "N3", "DATA")
    assert f"disk {stale} of volume images: found ext4 'old'" in said and "no disk was touched" in said
    assert f"disk {data} of volume old: found ext4 'old-data'" in said
    assert f"disk {disks(SECURE, 'N9')[0]} of volume more: found no NVMe disk of this serial" in said


@pytest.mark.parametrize("name", NAMES)
def test_one_run_brings_everything_with_one_reboot(whole: Whole, name: str) -> None:
    changed = {change["what"] for change in whole.first.ok().of(name)["changes"]}
    assert {"kernel command line", "volume scratch", "file /etc/chrony/sources.d/bedplate.sources"} <= changed
    assert any("rail0" in what for what in changed), sorted(changed)
    before, after, _last = whole.boots[name]
    assert before != after
    assert whole.starts[name][1] - whole.starts[name][0] == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_second_run_changes_nothing_and_reboots_nothing(whole: Whole, name: str) -> None:
    found = whole.second.ok().of(name)
    assert found["executed"] and found["changes"] == [] and found["deferred"] == []
    assert whole.boots[name][1] == whole.boots[name][2]


def test_b14_consoles_kept_and_one_iommu_value(whole: Whole) -> None:
    booted = sh(PLAIN, "cat /proc/cmdline").split()
    assert [word for word in booted if word.startswith("iommu")] == ["iommu=pt"]
    assert {"console=tty0", "console=ttyS0,115200"} <= set(booted)


def test_b7_swap_is_off_after_the_reboot_and_comments_are_kept(whole: Whole) -> None:
    assert len(sh(PLAIN, "cat /proc/swaps").splitlines()) <= 1
    fstab = sh(PLAIN, "cat /etc/fstab")
    assert SWAP.splitlines()[0] in fstab.splitlines()
    assert not [line for line in fstab.splitlines() if not line.startswith("#") and "swap" in line.split()]


def test_b9_modules_and_the_sysctls_that_need_them_hold_after_the_reboot(whole: Whole) -> None:
    assert sh(PLAIN, "lsmod | grep -c '^br_netfilter '").strip() == "1"
    values = "cat /proc/sys/net/bridge/bridge-nf-call-iptables /proc/sys/net/ipv4/ip_forward"
    assert sh(PLAIN, values).split() == ["1", "1"]


def test_the_initramfs_knows_the_blacklist(whole: Whole) -> None:
    listed = sh(PLAIN, "lsinitramfs /boot/initrd.img-$(uname -r) | grep -c 90-bedplate", check=False).strip()
    assert listed not in ("", "0")


def record() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(sh(SECURE, "cat /var/lib/bedplate/nvme.json"))["volumes"]
    return found


@pytest.mark.parametrize("name", VOLUME_NAMES)
def test_a_volume_of_each_layout_is_mounted_by_its_uuid_after_the_reboot(whole: Whole, name: str) -> None:
    declared, made = next(volume for volume in VOLUMES[SECURE] if volume["name"] == name), record()[name]
    there = json.loads(sh(SECURE, f"findmnt --json --output UUID,FSTYPE,SOURCE {declared['mount']}"))["filesystems"][0]
    assert there["uuid"] == made["filesystem"] and there["fstype"] == declared.get("filesystem", "xfs")
    assert f"UUID={made['filesystem']} {declared['mount']} " in " ".join(sh(SECURE, "cat /etc/fstab").split())
    if declared["layout"].startswith("raid"):
        array = sh(SECURE, f"basename $(readlink -e {there['source']})").strip()
        assert sh(SECURE, f"cat /sys/block/{array}/md/level").strip() == declared["layout"]
    if declared["layout"] == "lvm":
        assert sh(SECURE, f"lvs --noheadings --options stripes {there['source']}").strip() == str(len(declared["serials"]))


def test_a_rule_takes_the_blank_disks_alone(whole: Whole) -> None:
    assert set(record()["scratch"]["serials"]) == set(disks(SECURE, "N1", "N2"))


def test_images_are_on_their_volume_before_containerd_starts(whole: Whole) -> None:
    unit = f"{IMAGES[1:].replace('/', '-')}.mount"
    mounted = int(sh(SECURE, f"systemctl show --value --property ActiveEnterTimestampMonotonic {unit}"))
    running = int(sh(SECURE, "systemctl show --value --property ExecMainStartTimestampMonotonic containerd"))
    assert 0 < mounted < running
    assert unit in sh(SECURE, "systemctl show --value --property Requires containerd").split()
    there = sh(SECURE, f"findmnt --noheadings --output TARGET --target {IMAGES}/io.containerd.metadata.v1.bolt/meta.db")
    assert there.strip() == IMAGES
    assert "older-image" not in sh(SECURE, f"ls {IMAGES}").split()


@pytest.mark.parametrize("name", NAMES)
def test_the_fabrics_device_and_address_are_there_after_the_reboot(whole: Whole, name: str) -> None:
    assert sh(name, "systemctl is-active bedplate-fabric").strip() == "active"
    assert "PORT_ACTIVE" in sh(name, "ibv_devinfo -i 1")
    assert f"inet {address(name)} " in sh(name, "ip -4 address show")


def test_secure_boot_is_what_the_machine_was_made_with(whole: Whole) -> None:
    state = {name: sh(name, "mokutil --sb-state", check=False).strip() for name in NAMES}
    assert {name: "SecureBoot enabled" in said for name, said in state.items()} == {n: machine(n).secure_boot for n in NAMES}
