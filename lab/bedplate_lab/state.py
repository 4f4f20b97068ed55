# SPDX-License-Identifier: Apache-2.0
"""What this lab made and with which choices: `.lab/state.json`, always whole on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bedplate_lab import paths
from bedplate_lab.errors import LabError
from bedplate_lab.topology import Host, planned

FORMAT = 1


@dataclass
class State:
    """The lab's record. `machine` is what the machine was like before (see traces), `site` the last successful run."""

    format: int = FORMAT
    control_planes: int = 0
    workers: int = 0
    source: str = "build"
    upstream_url: str = ""
    extra: dict[str, str] = field(default_factory=dict)
    """Extra hosts: name to address."""
    machine: dict[str, Any] = field(default_factory=dict)
    site: dict[str, str] = field(default_factory=dict)
    packages: list[str] = field(default_factory=list)
    """Debian packages the lab installed on the machine; they stay."""

    def planned(self) -> list[Host]:
        """The hosts of the inventory."""
        return planned(self.control_planes, self.workers)

    def hosts(self) -> list[Host]:
        """All hosts: those of the inventory, then the extra ones."""
        return self.planned() + [Host(name, "extra", address) for name, address in sorted(self.extra.items())]

    def host(self, name: str) -> Host:
        """The host `name`. Raises LabError naming those there are."""
        for host in self.hosts():
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self.hosts()) or "none: the lab is down; start it with scripts/lab up"
        raise LabError(f"host {name}: not in the lab (hosts: {known})")


def path() -> Path:
    """Where the record is."""
    return paths.state("state.json")


def load() -> State:
    """Read the record; an empty one when there is none. Raises LabError for one this version cannot read."""
    try:
        text = path().read_text()
    except FileNotFoundError:
        return State()
    try:
        data = json.loads(text)
        found = data["format"]
        if found == FORMAT:
            return State(**data)
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path()}: not a record of the lab ({error}); remove the lab with scripts/lab down") from error
    raise LabError(f"{path()}: format {found}, wanted {FORMAT}; remove the lab with the version of Bedplate that made it")


def save(state: State) -> None:
    """Write the record in one step: a reader, or a run after a crash, sees the old one or the new one."""
    with paths.new_file(path()) as temporary:
        temporary.write_text(json.dumps(asdict(state), indent=2, sort_keys=True) + "\n")


@contextmanager
def update() -> Iterator[State]:
    """Yield the record and save it when the block ends well; other processes wait meanwhile."""
    with paths.lock("lab-state"):
        state = load()
        yield state
        save(state)
