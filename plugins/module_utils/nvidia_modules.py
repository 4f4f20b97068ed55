# SPDX-License-Identifier: Apache-2.0
"""Open or proprietary kernel modules: what a GPU architecture permits.

Sources: NVIDIA's blog "NVIDIA Transitions Fully Towards Open-Source GPU Kernel Modules" and the chapter "Kernel modules" of the
NVIDIA Driver Installation Guide (Maxwell to Volta: proprietary only; Turing to Hopper: both, open recommended; Grace Hopper and
Blackwell: open only); the release notes of branch 590 (no Maxwell, Pascal or Volta any more).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .nvidia_packages import LAST_PROPRIETARY_BRANCH, PackageChoiceError

PROPRIETARY_ONLY = ("maxwell", "pascal", "volta")
OPEN_ONLY = ("grace-hopper", "blackwell")
BOTH = ("turing", "ampere", "ada", "hopper")
ARCHITECTURES = (*PROPRIETARY_ONLY, *BOTH, *OPEN_ONLY)
LAST_BRANCH_OF_OLD = 580
"""The last branch that drives Maxwell, Pascal and Volta."""

_MODELS = (
    (r"gb[23]00|b[123]00|rtx-?pro-?6000", "blackwell"),
    (r"gh200", "grace-hopper"),
    (r"h[128]00|h20", "hopper"),
    (r"l4|l20|l40s?|rtx-?[456]000-?ada|rtx-?40[0-9]0", "ada"),
    (r"a2|a10g?|a16|a30x?|a40|a100x?|a800|rtx-?a[0-9]000|rtx-?30[0-9]0", "ampere"),
    (r"t4g?|t400|t600|t1000|rtx-?[4568]000|rtx-?20[0-9]0", "turing"),
    (r"v100s?|titan-?v", "volta"),
    (r"p4|p6|p40|p100|gtx-?10[0-9]0", "pascal"),
    (r"m4|m6|m10|m40|m60", "maxwell"),
)


def architecture_of(accelerator: str) -> str:
    """Return the architecture of an accelerator as sites name it (h100-80gb, NVIDIA L40S); raise ValueError if unknown."""
    name = re.sub(r"[\s_]+", "-", accelerator.lower())
    name = re.sub(r"^(nvidia-)?(tesla-|quadro-|geforce-)?", "", name)
    for pattern, architecture in _MODELS:
        if re.match(rf"(?:{pattern})(?![a-z0-9])", name):
            return architecture
    raise ValueError(
        f"accelerator {accelerator!r}: found no GPU of that name; wanted one like h100-80gb or l40s-48gb. Next: correct it"
    )


def choose_modules(wanted: str, architectures: Iterable[str], branch: int) -> str:
    """Return ``open`` or ``proprietary`` for these architectures and driver branch.

    wanted: open, proprietary or auto (open where it is possible). Raises :class:`PackageChoiceError` with the reason when no
    kernel modules drive all of them, or when the wanted ones do not.
    """
    found = sorted(set(architectures))
    unknown = [a for a in found if a not in ARCHITECTURES]
    if unknown:
        raise PackageChoiceError(f"architecture {', '.join(unknown)}: wanted one of {', '.join(ARCHITECTURES)}. Next: correct it")
    old = [a for a in found if a in PROPRIETARY_ONLY]
    new = [a for a in found if a in OPEN_ONLY]
    if old and new:
        raise PackageChoiceError(
            f"GPUs of {_list(old)} need proprietary kernel modules, GPUs of {_list(new)} need open ones, and a machine "
            "has one kind: put them into pools of their own"
        )
    if old and branch > LAST_BRANCH_OF_OLD:
        raise PackageChoiceError(
            f"driver branch {branch} does not drive {_list(old)}; the last that does is {LAST_BRANCH_OF_OLD}: set branch to it"
        )
    if wanted == "proprietary" and new:
        raise PackageChoiceError(f"{_list(new)} GPUs work with open kernel modules only: set driver modules to open or auto")
    if wanted == "open" and old:
        raise PackageChoiceError(f"{_list(old)} GPUs work with proprietary kernel modules only: set driver modules to auto")
    if wanted == "proprietary" and branch > LAST_PROPRIETARY_BRANCH:
        raise PackageChoiceError(
            f"branch {branch} has no proprietary kernel modules (the last is {LAST_PROPRIETARY_BRANCH}): set modules to open"
        )
    if wanted == "auto":
        return "proprietary" if old else "open"
    return wanted


def _list(names: list[str]) -> str:
    return " and ".join(name.title() for name in names)
