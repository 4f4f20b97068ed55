# SPDX-License-Identifier: Apache-2.0
"""The metal lab's machines as tests use them."""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bedplate_lab import ssh
from bedplate_lab.metal.plan import MACHINES, Machine

from ..archive import archive_of
from ..hosts import lab
from ..site import Run, Site

PLAY = "tests/e2e/metal/play.yml"
RUN_SECONDS = 600


@dataclass(frozen=True)
class Metal:
    """The machines that run, how Ansible reaches them, and roles applied to them. full: the whole of the tests was asked for."""

    variables: Mapping[str, Mapping[str, str]]
    directory: Path
    full: bool = False

    def play(self, name: str, roles: Sequence[str], *arguments: str, **variables: Any) -> Run:
        """Apply roles to a machine with these role variables; arguments are ansible-playbook's."""
        archive = {"repositories_apt": [archive_of(machine(name).suite)], "repositories_exclusive": True}
        return self.together({name: {**archive, "metal_roles": list(roles), **variables}}, *arguments)

    def together(
        self, hosts: Mapping[str, Mapping[str, Any]], *arguments: str, playbook: str = PLAY, seconds: float = RUN_SECONDS
    ) -> Run:
        """Apply to each machine the roles of its variable ``metal_roles``, side by side."""
        inventory = self.directory / f"{'-'.join(hosts)}.yml"
        own = {name: {**self.variables[name], **variables} for name, variables in hosts.items()}
        inventory.write_text(json.dumps({"all": {"hosts": own}}), encoding="utf-8")
        return Site((inventory,)).run(*arguments, playbook=playbook, seconds=seconds)

    def reboot(self, *names: str) -> None:
        """Reboot machines and wait until they answer."""
        lab("metal", "reboot", *names)


def machine(name: str) -> Machine:
    """What the lab knows of a machine."""
    return next(found for found in MACHINES if found.name == name)


def sh(name: str, command: str, *, check: bool = True, seconds: float = 120) -> str:
    """Run a shell command as root on a machine and return what it wrote on standard output."""
    argv = ssh.command(machine(name).address, f"sudo sh -c {shlex.quote(command)}")
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds)
    assert done.returncode == 0 or not check, f"{name}: {command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def boot_id(name: str) -> str:
    """Which boot of a machine this is."""
    return sh(name, "cat /proc/sys/kernel/random/boot_id").strip()


def checksum(name: str, serial: str) -> str:
    """SHA-256 of a whole disk, as the machine's writes have reached it."""
    return hashlib.sha256(machine(name).path(f"{serial}.raw").read_bytes()).hexdigest()
