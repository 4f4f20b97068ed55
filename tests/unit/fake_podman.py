# SPDX-License-Identifier: Apache-2.0
"""A podman that remembers what it was told and runs nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess

from bedplate_lab.run import CommandError


@dataclass
class FakePodman:
    """Stands in for `bedplate_lab.run.run`. `calls` are podman's arguments, in order."""

    containers: dict[str, dict[str, object]] = field(default_factory=dict)
    volumes: set[str] = field(default_factory=set)
    networks: dict[str, dict[str, str]] = field(default_factory=dict)
    unstartable: set[str] = field(default_factory=set)
    calls: list[list[str]] = field(default_factory=list)
    storage: Path | None = None
    """Where volumes lie."""
    output: dict[str, str] = field(default_factory=dict)
    """What commands in containers print, by their first word."""

    def container(self, name: str, state: str, labels: dict[str, str], pid: int = 0) -> None:
        """Let a container of an earlier run be there."""
        self.containers[name] = {
            "Names": [name],
            "Id": f"id-{name}-{len(self.calls)}",
            "State": state,
            "Labels": labels,
            "Pid": pid,
        }

    def __call__(self, argv: Sequence[str], *, check: bool = True, timeout_seconds: float | None = None) -> CompletedProcess[str]:
        assert argv[0] == "podman"
        words = list(argv[1:])
        self.calls.append(words)
        code, output = self._answer(words)
        if code and check:
            raise CommandError(argv, f"exit code {code}", output, code)
        return CompletedProcess(list(argv), code, output, "")

    def verbs(self) -> list[str]:
        """What was asked for, without arguments but the last: `rm bedplate-lab-w1`, `start …`, `run …`."""
        found = []
        for words in self.calls:
            if "run" in words[:4]:
                found.append(f"run {words[words.index('--name') + 1]}")
            elif words[0] in ("rm", "start", "restart"):
                found.append(f"{words[0]} {words[-1]}")
        return found

    def _answer(self, words: list[str]) -> tuple[int, str]:
        if words == ["ps", "--quiet"]:
            return 0, "\n".join(str(row["Id"]) for row in self.containers.values() if row["State"] == "running")
        if words[:1] == ["ps"]:
            return 0, json.dumps([row for row in self.containers.values() if self._shown(words, row)])
        if words[:1] == ["rm"]:
            self.containers.pop(words[-1], None)
        elif words[:1] in (["start"], ["restart"]):
            if words[-1] in self.unstartable or words[-1] not in self.containers:
                return 125, f"Error: cannot start {words[-1]}"
            self.containers[words[-1]]["State"] = "running"
        elif "run" in words[:4]:
            return self._run(words)
        elif words[0] == "exec":
            return (0, self.output[words[2]]) if words[2] in self.output else (127, "")
        elif words[0] == "volume":
            return self._volume(words)
        elif words[0] == "network":
            return self._network(words)
        return 0, ""

    def _run(self, words: list[str]) -> tuple[int, str]:
        name = words[words.index("--name") + 1]
        if name in self.containers:
            return 125, f"Error: the container name {name} is already in use"
        volume = words[words.index("--volume") + 1].split(":")[0]
        assert volume in self.volumes, "podman would make the volume without the lab's labels"
        self.container(name, "running", _labels(words))
        return 0, "0123456789ab\n"

    def _volume(self, words: list[str]) -> tuple[int, str]:
        if words[1] == "ls":
            return 0, "\n".join(sorted(self.volumes))
        if words[1] == "inspect":
            assert self.storage is not None, "a test that looks into volumes says where they lie"
            (self.storage / words[-1]).mkdir(exist_ok=True)
            return 0, f"{self.storage / words[-1]}\n"
        if words[1] == "exists":
            return (0 if words[-1] in self.volumes else 1), ""
        if words[1] == "create":
            self.volumes.add(words[-1])
        elif words[1] == "rm":
            self.volumes.remove(words[-1])
        return 0, ""

    def _network(self, words: list[str]) -> tuple[int, str]:
        name = words[-1]
        if words[1] == "inspect":
            if name not in self.networks:
                return 125, f"Error: network {name} not found"
            return 0, json.dumps([{"name": name, "labels": self.networks[name]}])
        if words[1] == "create":
            self.networks[name] = _labels(words)
        elif words[1] == "rm":
            del self.networks[name]
        return 0, ""

    def _shown(self, words: list[str], row: dict[str, object]) -> bool:
        labels = row["Labels"]
        assert isinstance(labels, dict)
        for index, word in enumerate(words):
            if word != "--filter":
                continue
            kind, _, value = words[index + 1].partition("=")
            if kind == "label":
                name, valued, wanted = value.partition("=")
                if name not in labels or (valued and labels[name] != wanted):
                    return False
            elif kind == "name" and not str(row["Names"]).startswith(f"['{value.removeprefix('^')}"):
                return False
        return True


def _labels(words: list[str]) -> dict[str, str]:
    pairs = (words[index + 1].partition("=") for index, word in enumerate(words) if word == "--label")
    return {name: value for name, _, value in pairs}
