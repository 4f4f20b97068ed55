# SPDX-License-Identifier: Apache-2.0
"""The metal lab's machines as tests use them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bedplate_lab.metal.plan import MACHINES, Machine

from ..archive import debians_archive
from ..hosts import lab, sh
from ..site import Run, Site

PLAY = "tests/e2e/metal/play.yml"
RUN_SECONDS = 600


@dataclass(frozen=True)
class Metal:
    """The machines that run, how Ansible reaches them, and roles applied to one of them."""

    variables: Mapping[str, Mapping[str, str]]
    directory: Path

    def play(self, name: str, roles: Sequence[str], *arguments: str, **variables: Any) -> Run:
        """Apply roles to a machine with these role variables; arguments are ansible-playbook's."""
        inventory = self.directory / f"{name}.yml"
        own = {
            **self.variables[name],
            "repositories_apt": [debians_archive(machine(name).suite)],
            "repositories_exclusive": True,
            "metal_roles": list(roles),
            **variables,
        }
        inventory.write_text(json.dumps({"all": {"hosts": {name: own}}}), encoding="utf-8")
        return Site((inventory,)).run(*arguments, playbook=PLAY, seconds=RUN_SECONDS)

    def reboot(self, *names: str) -> None:
        """Reboot machines and wait until they answer."""
        lab("metal", "reboot", *names)


def machine(name: str) -> Machine:
    """What the lab knows of a machine."""
    return next(found for found in MACHINES if found.name == name)


def checksum(name: str, serial: str) -> str:
    """SHA-256 of a whole disk, by its serial number, past every cache."""
    path = f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_{serial}"
    return sh(name, f"sync; blockdev --flushbufs {path}; sha256sum < {path}").split()[0]
