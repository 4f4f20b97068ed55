# SPDX-License-Identifier: Apache-2.0
"""The kernel's command line: parameters wanted replace others of their name, through a file that update-grub reads last.

GRUB's configuration is the same file on BIOS and on EFI machines of Debian and Ubuntu: what the EFI partition holds leads to it.
What holds is /proc/cmdline now and the first entry of grub.cfg at the next boot; our file is only the way there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from .core import DRAIN, REBOOT, Change, Problem
from .host import Host
from .operations import RemoveFile, RunCommand, WriteFile, file_change
from .record import RECORD_DIRECTORY

GRUB_FILE = "/etc/default/grub.d/90-bedplate.cfg"
GRUB_CFG = "/boot/grub/grub.cfg"
UPDATE_GRUB = "/usr/sbin/update-grub"
STAMP = f"{RECORD_DIRECTORY}/kernel.grub"
"""A digest of our file as update-grub last read it."""
REPEATED = ("console", "video", "memmap", "acpi_osi")
"""Parameters that may stand several times with a meaning each: one that is wanted is added, those found are kept."""
BOOT = frozenset({DRAIN, REBOOT})
RUNNING = "kernel command line"


def words(text: str) -> tuple[str, ...]:
    """Split a command line as the kernel does: at blanks outside double quotes."""
    return tuple(re.findall(r'(?:[^\s"]|"[^"]*"?)+', text))


def key(word: str) -> str:
    """Return a parameter's name; the kernel takes hyphens and underscores in it for the same."""
    return word.partition("=")[0].replace("-", "_")


def of_names(found: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the parameters found under the names of others."""
    keys = {key(name) for name in names}
    return [word for word in found if key(word) in keys]


def satisfied(found: Sequence[str], wanted: Sequence[str]) -> bool:
    """Tell whether each wanted parameter is there, and alone under its name unless such a parameter may repeat."""
    single = [w for w in wanted if key(w) not in REPEATED]
    repeated = [w for w in wanted if key(w) in REPEATED]
    return all(of_names(found, [w]) == of_names(single, [w]) for w in single) and set(repeated) <= set(found)


def render(wanted: Sequence[str]) -> str:
    """Return the shell text that puts the parameters into GRUB's variables, whatever other files left there."""
    patterns = []
    for word in dict.fromkeys(w if key(w) in REPEATED else key(w) for w in wanted):
        if key(word) in REPEATED:
            patterns.append(f"'{word}'")
        else:
            name = word.replace("_", "[-_]")
            patterns += [name, f"{name}=*"]
    return f"""\
# Written by Bedplate; changes are overwritten. update-grub reads this after /etc/default/grub.
# parameters: {" ".join(wanted)}
# They replace parameters of the same name; all others stay, and every console.
bedplate_others() (
    set -f
    kept=
    for word in $1; do
        case "$word" in
            {" | ".join(patterns)}) ;;
            *) kept="$kept${{kept:+ }}$word" ;;
        esac
    done
    printf '%s' "$kept"
)
GRUB_CMDLINE_LINUX_DEFAULT=$(bedplate_others "${{GRUB_CMDLINE_LINUX_DEFAULT-}}")
GRUB_CMDLINE_LINUX=$(bedplate_others "${{GRUB_CMDLINE_LINUX-}}")
GRUB_CMDLINE_LINUX="${{GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }}{" ".join(wanted)}"
"""


def parameters_in(text: Optional[str]) -> tuple[str, ...]:
    """Return the parameters that a file of ours sets."""
    found = re.search(r"^# parameters: (.*)$", text or "", re.MULTILINE)
    return words(found[1]) if found else ()


def first_entry(grub_cfg: str) -> Optional[tuple[str, ...]]:
    """Return the parameters of the first entry that boots Linux, which is GRUB's default; None when there is none.

    Entries of other origin (memtest, another system, one's own) are not looked at where 10_linux has made some.
    """
    marked = re.search(r"### BEGIN \S*/10_linux ###(.*?)### END \S*/10_linux ###", grub_cfg, re.DOTALL)
    entry = re.search(r"^\s*linux(?:16|efi)?\s+\S*vmlinuz\S*[ \t]*(.*)$", marked[1] if marked else grub_cfg, re.MULTILINE)
    return words(entry[1]) if entry else None


@dataclass(frozen=True)
class CommandLine:
    """running: parameters of the running kernel. grub: whether GRUB's tools and configuration are there. following: those of the
    next boot. file: our file's text. stamp: see :data:`STAMP`.
    """

    running: tuple[str, ...] = ()
    grub: bool = False
    following: tuple[str, ...] = ()
    file: Optional[str] = None
    stamp: str = ""


def observe_command_line(host: Host) -> CommandLine:
    """Read /proc/cmdline, grub.cfg and our file; no command."""
    configuration = host.read(GRUB_CFG)
    return CommandLine(
        words(host.read("/proc/cmdline") or ""),
        configuration is not None and host.exists(UPDATE_GRUB),
        first_entry(configuration or "") or (),
        host.read(GRUB_FILE),
        (host.read(STAMP) or "").strip(),
    )


@dataclass(frozen=True)
class UpdateGrub:
    """Operation: make grub.cfg again, then remember from which file of ours."""

    stamp: str

    def perform(self, host: Host) -> None:
        """Run update-grub(8)."""
        RunCommand((UPDATE_GRUB,), "make GRUB's configuration again", 300).perform(host)
        if self.stamp:
            WriteFile(STAMP, self.stamp + "\n", 0o600).perform(host)
        else:
            host.remove(STAMP)


def plan_command_line(observed: CommandLine, wanted: Sequence[str]) -> tuple[list[Change], list[Problem]]:
    """Plan our file, grub.cfg and the reboot; where the running kernel has it all already, nothing waits for a reboot."""
    text = render(wanted) if wanted else None
    if text is None and observed.file is None and not observed.stamp:
        return [], []
    right_now = satisfied(observed.running, wanted)
    if not observed.grub:
        return [], [] if right_now or not wanted else [_no_grub(observed, wanted)]
    kept = {key(word) for word in wanted}
    withdrawn = [w for w in parameters_in(observed.file) if key(w) not in kept and w in observed.running]
    effects = BOOT if withdrawn or not right_now else frozenset[str]()
    if text is not None:
        changes = file_change(GRUB_FILE, observed.file, text, effects=effects)
    else:
        gone = Change(f"file {GRUB_FILE}", observed.file, None, effects, RemoveFile(GRUB_FILE))
        changes = [gone] if observed.file is not None else []
    stamp = hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""
    named = (*wanted, *withdrawn)
    if stamp != observed.stamp or not satisfied(observed.following, wanted):
        before, after = " ".join(of_names(observed.following, named)) or None, " ".join(wanted) or None
        needs = tuple(c.what for c in changes)
        changes.append(Change(f"file {GRUB_CFG}", before, after, effects, UpdateGrub(stamp), needs))
    if effects:
        before, after = " ".join(of_names(observed.running, named)) or None, " ".join(wanted) or None
        changes.append(Change(RUNNING, before, after, effects, needs=tuple(c.what for c in changes)))
    return changes, []


def _no_grub(observed: CommandLine, wanted: Sequence[str]) -> Problem:
    found = " ".join(of_names(observed.running, wanted)) or "none of them"
    step = "set them where this host's boot loader takes them, or take them out of the site data for this host"
    return Problem(RUNNING, f"{found}, and no GRUB to set them with", " ".join(wanted), step)
