# SPDX-License-Identifier: Apache-2.0
"""Secure Boot: the kernel takes no unsigned module, so the driver's role refuses before it changes anything (C23)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bedplate_lab.gpusim import driver_versions

from ...site import Run
from ..machines import Metal, sh
from ..whole import SECURE, desired

KEY = "/var/lib/dkms/mok.pub"
STRANGER = (
    "openssl req -new -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=stranger -outform DER "
    f"-keyout /dev/null -out {KEY} 2>/dev/null"
)
ENROLLED = f"cd /tmp && mokutil --export >/dev/null && mv MOK-0001.der {KEY}"
"""A certificate the firmware's shim does know: Debian's own."""
UNSIGN = """\
import glob, lzma, os, sys
path = glob.glob(f"/lib/modules/{os.uname().release}/kernel/drivers/net/dummy.ko*")[0]
data = lzma.open(path).read() if path.endswith(".xz") else open(path, "rb").read()
marker = b"~Module signature appended~\\n"
assert data.endswith(marker)
size = int.from_bytes(data[-len(marker) - 4:-len(marker)], "big")
open("/tmp/unsigned.ko", "wb").write(data[:-len(marker) - 12 - size])
"""
"""A module of the running kernel without its signature, whose size is at the end (kernel documentation, module-signing)."""


@pytest.fixture
def no_key() -> Iterator[None]:
    """The machine without a key that DKMS would sign with, and so again afterwards."""
    sh(SECURE, f"mkdir -p {KEY.rpartition('/')[0]} && rm -f {KEY}")
    yield
    sh(SECURE, f"rm -f {KEY}")


def driver(metal: Metal) -> Run:
    """Apply the driver's role, whose modules DKMS would compile on this machine."""
    version = {"nvidia_driver_version": driver_versions()[0], "nvidia_driver_accelerators": ["h100-80gb"]}
    return metal.together({SECURE: {**desired(metal, SECURE), "metal_roles": ["nvidia_driver"], **version}})


def packages() -> str:
    return sh(SECURE, "dpkg-query -W; ls /var/lib/bedplate; ls -R /lib/modules | sha256sum")


def test_c23_the_kernel_refuses_a_module_without_a_signature(final: Metal) -> None:
    sh(SECURE, f"cat >/tmp/unsign.py <<'E'\n{UNSIGN}E\npython3 /tmp/unsign.py")
    said = sh(SECURE, "insmod /tmp/unsigned.ko 2>&1; echo code $?; grep -c ^dummy /proc/modules", check=False)
    assert "Key was rejected by service" in said and said.split()[-1] == "0", said
    assert sh(SECURE, "modprobe dummy && grep -c ^dummy /proc/modules && modprobe -r dummy").strip() == "1"


def test_c23_the_driver_is_refused_with_a_signed_path_and_nothing_is_changed(final: Metal, no_key: None) -> None:
    before = packages()
    for make, found in ((":", "no key to sign the modules with"), (STRANGER, "the key DKMS signs with is not enrolled")):
        sh(SECURE, make)
        run = driver(final)
        assert run.code != 0 and run.changes() == {}
        assert f"Secure Boot: found on, and {found}; wanted kernel modules signed by a key the firmware knows" in run.message()
        assert "mokutil --import" in run.message()
    assert packages() == before


def test_c23_a_key_that_the_firmware_knows_is_no_reason_to_refuse(final: Metal, no_key: None) -> None:
    sh(SECURE, ENROLLED)
    assert "Secure Boot" not in driver(final).message()
