# SPDX-License-Identifier: Apache-2.0
"""A kernel that does not come back is told with what its console says, and brought back by the reset button."""

from __future__ import annotations

from ...hosts import lab
from ...wait import wait_until
from ..machines import Metal, boot_id, machine, sh
from ..whole import PLAIN

BOUND_SECONDS = 30
NO_ROOT = """\
menuentry 'no root' --id broken {
    search --no-floppy --label --set=root bedplate-root
    linux /vmlinuz root=LABEL=nowhere ro console=ttyS0,115200
}
"""
"""Without an initramfs no kernel finds a file system by its label."""
PANIC = "Kernel panic - not syncing: VFS: Unable to mount root fs"


def test_a_host_that_does_not_come_back_is_named_with_its_bound_and_its_consoles_end(final: Metal) -> None:
    before = boot_id(PLAIN)
    sh(PLAIN, "echo kept >/scratch/kept && sync /scratch/kept")
    sh(PLAIN, f"printf '%s' \"{NO_ROOT}\" >/boot/grub/custom.cfg && grub-reboot broken && sync")
    run = final.together(
        {PLAIN: {}}, "--extra-vars", f"bedplate_reboot_timeout_seconds={BOUND_SECONDS}", playbook="tests/e2e/metal/reboot.yml"
    )
    assert run.code != 0
    assert f"{PLAIN} did not come back from its reboot within {BOUND_SECONDS} s" in run.message()
    assert "Next: look at its console" in run.message()

    console = machine(PLAIN).path("console")
    wait_until(lambda: PANIC in console.read_text(errors="replace"), "the kernel's panic on the console", 120)
    told = lab("metal", "reboot", PLAIN, "--seconds", "3", check=False)
    assert told.returncode != 0
    assert f"machine {PLAIN} ({machine(PLAIN).address})" in told.stderr and PANIC in told.stderr
    assert f"scripts/lab metal reset {PLAIN}" in told.stderr

    lab("metal", "reset", PLAIN)
    assert boot_id(PLAIN) != before and sh(PLAIN, "systemctl is-system-running --wait", check=False).strip() == "running"
    assert "iommu=pt" in sh(PLAIN, "cat /proc/cmdline") and sh(PLAIN, "cat /scratch/kept").strip() == "kept"
    sh(PLAIN, "rm /boot/grub/custom.cfg")
