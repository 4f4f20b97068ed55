# SPDX-License-Identifier: Apache-2.0
"""Secure Boot: whether the firmware enforces it, and whether a module compiled on the host would be loaded.

A module compiled by DKMS is signed with the host's own key; the kernel loads it only when that key is enrolled with the
firmware's shim (a machine owner key, see mokutil(1)), which needs somebody at the console. So it is found before anything is
installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .core import Problem
from .host import Host

VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
"""EFI global variable: four bytes of attributes, then one byte, 1 for on (UEFI specification, "Global Variables")."""
DKMS_KEYS = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub")
"""Certificates DKMS signs with: Ubuntu's, and the one dkms makes by itself (dkms(8), mok_certificate)."""


@dataclass(frozen=True)
class SecureBoot:
    """on: enforced by the firmware. key: certificate DKMS signs with, None if there is none yet. enrolled: shim knows it."""

    on: bool = False
    key: Optional[str] = None
    enrolled: bool = False


def observe_secure_boot(host: Host) -> SecureBoot:
    """Read the firmware's variable; ask mokutil only where Secure Boot is on."""
    value = host.read(VARIABLE)
    if not value or not value.endswith("\x01"):
        return SecureBoot()
    key = next((path for path in DKMS_KEYS if host.exists(path)), None)
    if key is None:
        return SecureBoot(True)
    answer = host.run(["mokutil", "--test-key", key])  # its return code differs between versions
    return SecureBoot(True, key, "is already enrolled" in answer.out + answer.err)


def unsigned_problem(state: SecureBoot, build: str) -> Optional[Problem]:
    """Return why a module of this build would not load, None when it would. build: dkms or precompiled (signed by Ubuntu)."""
    if not state.on or build == "precompiled" or state.enrolled:
        return None
    found = "on, and the key DKMS signs with is not enrolled" if state.key else "on, and no key to sign the modules with"
    key = state.key or DKMS_KEYS[-1]
    make = "" if state.key else "make a key pair (dkms generate_mok), "
    return Problem(
        "Secure Boot",
        found,
        "kernel modules signed by a key the firmware knows",
        f"{make}enrol it (mokutil --import {key}, confirm at the console at the next boot), or take Ubuntu's precompiled signed "
        "modules (source distribution, build precompiled), or switch Secure Boot off; nothing was changed",
    )
