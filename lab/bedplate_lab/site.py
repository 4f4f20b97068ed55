# SPDX-License-Identifier: Apache-2.0
"""Run site.yml on the lab, and leave it out where nothing it reads has changed since it last succeeded."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from bedplate_lab.errors import LabError
from bedplate_lab.paths import ROOT

PLAYBOOK = ROOT / "playbooks" / "site.yml"
INPUTS = ("ansible.cfg", "requirements.txt", "versions.yml", "inventories/lab", "playbooks", "plugins", "roles")


def digest(hosts: Mapping[str, str], root: Path = ROOT) -> str:
    """Hash of all that a run depends on: the files, and which hosts there are (name to container id)."""
    total = hashlib.sha256()
    for path in _files(root):
        total.update(str(path.relative_to(root)).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    for name, identity in sorted(hosts.items()):
        total.update(f"{name}={identity}\0".encode())
    return total.hexdigest()


def run() -> None:
    """Run site.yml, its output on the terminal. Raises LabError with the next step."""
    program = Path(sys.executable).with_name("ansible-playbook")
    command = [str(program), "-i", "inventories/lab", str(PLAYBOOK.relative_to(ROOT))]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    if sys.stdout.isatty():
        environment.setdefault("ANSIBLE_FORCE_COLOR", "1")
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code != 0:
        raise LabError(
            f"site.yml: exit code {code}, see the first error above. The hosts go on running: look at one with "
            "scripts/lab ssh HOST, then run scripts/lab up again; it goes on from here"
        )


def _files(root: Path) -> Iterable[Path]:
    for name in INPUTS:
        path = root / name
        if path.is_file():
            yield path
        elif path.is_dir():
            for directory, subdirectories, files in os.walk(path):
                subdirectories[:] = sorted(name for name in subdirectories if name != "__pycache__")
                yield from (Path(directory, file) for file in sorted(files) if not file.endswith(".pyc"))
