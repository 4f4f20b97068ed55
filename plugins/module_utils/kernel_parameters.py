# SPDX-License-Identifier: Apache-2.0
"""Which parameters of the kernel's command line may be declared. Pure; used for site data and by the role alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .kernel_command_line import REPEATED, key

PARAMETER = r"[A-Za-z0-9][A-Za-z0-9_.-]*(=[A-Za-z0-9_.,:/@+%!=~-]+)?"
"""Written into a shell text, a GRUB script and a command line at once: nothing that means something to one of them."""
THE_BOOT_LOADERS = (
    *("root", "rootfstype", "rootflags", "ro", "rw", "init", "rdinit", "initrd", "resume", "BOOT_IMAGE"),
    *("single", "emergency", "rescue", "systemd.unit"),
)
"""Where the system is and what is started: a wrong one keeps the host from coming back."""
HUGEPAGES = ("hugepages", "hugepagesz", "default_hugepagesz")


def parameter_problem(text: str) -> str:
    """Return why a text is no parameter that may be declared, "" for one that may."""
    if not re.fullmatch(PARAMETER, text):
        return "must be a kernel parameter, name or name=value, without blanks, quotes and characters of a shell"
    if key(text) in THE_BOOT_LOADERS:
        return "is the boot loader's own: a wrong one keeps the host from coming back"
    return ""


def check_parameters(wanted: Sequence[str]) -> None:
    """Raise ValueError for a parameter that may not be declared, or stands twice where only one counts."""
    seen: dict[str, str] = {}
    for text in wanted:
        problem = parameter_problem(text)
        if not problem and key(text) not in (*REPEATED, *HUGEPAGES) and key(text) in seen:
            problem = f"stands beside {seen[key(text)]}: one of them counts"
        if problem:
            raise ValueError(f"kernel.command_line {text!r}: {problem}. Next: correct the site data")
        seen[key(text)] = text
