# SPDX-License-Identifier: Apache-2.0
"""A machine's monitor: commands to its QEMU by the QEMU Machine Protocol."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from bedplate_lab.errors import LabError
from bedplate_lab.metal.plan import Machine

ANSWER_SECONDS = 60
"""An emulated system takes its time to let go of a device."""
ANSWER = "return"


def ask(machine: Machine, command: str, arguments: dict[str, Any] | None = None, *, event: str = "") -> None:
    """Have QEMU carry out a command and, with `event`, wait until it tells that event. Raises LabError."""
    try:
        with closing(socket.socket(socket.AF_UNIX)) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(str(machine.path("qmp")))
            lines = connection.makefile()
            for name, given, awaited in (("qmp_capabilities", {}, ""), (command, arguments or {}, event)):
                connection.sendall(json.dumps({"execute": name, "arguments": given}).encode() + b"\n")
                missing = {ANSWER, awaited} - {""}
                for told in _messages(machine, command, lines):
                    missing.discard(told)
                    if not missing:
                        break
    except (OSError, ValueError) as error:
        raise LabError(f"machine {machine.name}: its monitor did not take {command} ({error})") from error


def _messages(machine: Machine, command: str, lines: Iterator[str]) -> Iterator[str]:
    """Yield what QEMU tells: ANSWER, or an event's name. Raises LabError for its refusal."""
    for line in lines:
        message = json.loads(line)
        if "error" in message:
            raise LabError(f"machine {machine.name}: QEMU refused {command}: {message['error']['desc']}")
        yield ANSWER if ANSWER in message else message.get("event", "")
    raise OSError("connection closed")
