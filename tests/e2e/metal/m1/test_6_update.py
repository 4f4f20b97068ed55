# SPDX-License-Identifier: Apache-2.0
"""A newer kernel from Debian's archive: its headers and the module DKMS compiles for it are there before it boots (B16)."""

from __future__ import annotations

from typing import Any

import pytest

from ...archive import archive_of
from ...site import Run
from ..machines import Metal, boot_id, machine, sh
from ..whole import PLAIN, desired

pytestmark = pytest.mark.full

META = "linux-image-amd64"
SOURCE = "/usr/src/demo-1.0"
MODULE = """\
#include <linux/module.h>
#include <linux/version.h>
static int __init demo_init(void) { pr_info("demo of " UTS_RELEASE_TEXT "\\n"); return 0; }
static void __exit demo_exit(void) { }
module_init(demo_init);
module_exit(demo_exit);
MODULE_LICENSE("GPL");
"""
BROKEN = '#error "this source is older than the kernel"\n'
MAKEFILE = "obj-m := demo.o\nccflags-y := '-DUTS_RELEASE_TEXT=\"$(KERNELRELEASE)\"'\n"
DKMS = """\
PACKAGE_NAME=demo
PACKAGE_VERSION=1.0
BUILT_MODULE_NAME[0]=demo
DEST_MODULE_LOCATION[0]=/updates/dkms
AUTOINSTALL=yes
"""
"""A driver as packages bring it: sources below /usr/src, compiled for every kernel."""


def write(path: str, text: str) -> None:
    sh(PLAIN, f"mkdir -p {SOURCE} && cat >{SOURCE}/{path} <<'E'\n{text}E")


@pytest.fixture(scope="module")
def newer(final: Metal) -> dict[str, Any]:
    """The role variables that want the newest kernel of the archive, on a machine with DKMS and one module's sources."""
    suite = machine(PLAIN).suite
    archive = [archive_of(suite), {**archive_of(f"{suite}-backports"), "name": "backports"}]
    wanted = {**desired(final, PLAIN), "repositories_apt": archive}
    final.together({PLAIN: {**wanted, "metal_roles": ["repositories"]}}).ok()
    sh(PLAIN, "DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends dkms >/dev/null", seconds=900)
    write("Makefile", MAKEFILE)
    write("dkms.conf", DKMS)
    write("demo.c", BROKEN)
    sh(PLAIN, "dkms add demo/1.0")
    version = sh(PLAIN, f"apt-cache madison {META} | head -n 1 | cut -d '|' -f 2").strip()
    assert sh(PLAIN, f"dpkg-query -W -f '${{Version}}' {META}") != version
    return {**wanted, "metal_roles": ["kernel"], "kernel_package": META, "kernel_version": version}


def kernel(metal: Metal, wanted: dict[str, Any]) -> Run:
    return metal.together({PLAIN: wanted}, seconds=1800)


def test_no_reboot_into_a_kernel_for_which_a_module_does_not_compile(final: Metal, newer: dict[str, Any]) -> None:
    before, running = boot_id(PLAIN), sh(PLAIN, "uname -r").strip()
    run = kernel(final, newer)
    assert run.code != 0
    said = run.message()
    assert "demo/1.0" in said and "make.log" in said and "this source is older than the kernel" in said, said[-3000:]
    assert "not rebooted" in said
    assert boot_id(PLAIN) == before and sh(PLAIN, "uname -r").strip() == running


def test_the_same_run_goes_on_once_it_compiles_and_the_module_loads_in_the_new_kernel(
    final: Metal, newer: dict[str, Any]
) -> None:
    before, running = boot_id(PLAIN), sh(PLAIN, "uname -r").strip()
    write("demo.c", MODULE)
    run = kernel(final, newer).ok()
    assert boot_id(PLAIN) != before
    release = sh(PLAIN, "uname -r").strip()
    assert release != running and "running kernel" in str(run.changes())
    assert sh(PLAIN, "test -d /lib/modules/$(uname -r)/build/include && modinfo -F vermagic demo").split()[0] == release
    assert f"demo of {release}" in sh(PLAIN, "modprobe demo && dmesg | tail -n 20")
    assert sh(PLAIN, "apt-mark showhold").split() == ["linux-headers-amd64", META]


def test_a_second_run_changes_nothing_and_reboots_nothing(final: Metal, newer: dict[str, Any]) -> None:
    before = boot_id(PLAIN)
    run = kernel(final, newer).ok()
    assert run.changes() == {} and not run.of(PLAIN)["deferred"] and boot_id(PLAIN) == before
