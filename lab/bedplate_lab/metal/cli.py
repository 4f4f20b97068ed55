# SPDX-License-Identifier: Apache-2.0
"""The words after `scripts/lab metal`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from rich.table import Table

from bedplate_lab.metal import disks, machines, vm
from bedplate_lab.metal.plan import Machine, chosen
from bedplate_lab.steps import Steps


def define(sub: argparse.ArgumentParser) -> None:
    """Add the actions."""
    actions = sub.add_subparsers(metavar="ACTION", required=True)

    def add(name: str, action: Callable[[argparse.Namespace], None], text: str, names: str = "*") -> argparse.ArgumentParser:
        parser = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        parser.set_defaults(action=action)
        if names:
            parser.add_argument("names", metavar="NAME", nargs=names)
        return parser

    sub_up = add("up", _up, "boot machines (m1 and m2 unless some are named), wait for SSH; repeat it after an interruption")
    sub_up.add_argument("--json", action="store_true", help="print how to reach them as JSON: name to Ansible's variables")
    add("down", _down, "switch them off and remove them; the images stay in the cache", names="")
    _bounded(add("reboot", lambda p: machines.reboot(_named(p), Steps(), p.seconds), "reboot machines and wait for SSH"))
    press = "press the reset button, with no shut-down, and wait for SSH"
    _bounded(add("reset", lambda p: machines.reset(_named(p), Steps(), p.seconds), press, "+"))
    pulled = add("pull", lambda p: disks.pull(*_disk(p)), "pull a disk out of a machine that runs; what is on it stays", "")
    inserted = add(
        "insert", lambda p: disks.insert(*_disk(p)), "put a disk into the slot of a pulled one: a blank one, or that one", ""
    )
    for parser in (pulled, inserted):
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("serial", metavar="SERIAL")
    console = add("console", _console, "show the end of a machine's console", "+")
    console.add_argument("--lines", type=int, default=60, metavar="N", help="how many lines (default 60)")
    add("status", _status, "show the machines", names="").add_argument("--json", action="store_true", help="as JSON")


def _bounded(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=float, default=vm.BOOT_SECONDS, metavar="N", help="how long to wait for SSH (default %(default)s)"
    )


def run(parsed: argparse.Namespace) -> int:
    """Carry out the action. Raises LabError."""
    parsed.action(parsed)
    return 0


def _named(parsed: argparse.Namespace) -> list[Machine]:
    return chosen(parsed.names)


def _disk(parsed: argparse.Namespace) -> tuple[Machine, str]:
    return chosen([parsed.name])[0], parsed.serial


def _up(parsed: argparse.Namespace) -> None:
    machines.up_(_named(parsed), Steps(error_output=parsed.json))
    if parsed.json:
        print(json.dumps(machines.variables(_named(parsed)), indent=2))


def _down(_: argparse.Namespace) -> None:
    machines.down(Steps())


def _console(parsed: argparse.Namespace) -> None:
    for machine in _named(parsed):
        print(f"{machine.name}:\n{vm.console(machine, parsed.lines)}")


def _status(parsed: argparse.Namespace) -> None:
    rows = machines.status()
    if parsed.json:
        print(json.dumps(rows, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for title in ("machine", "suite", "address", "state", "secure boot", "disks"):
        table.add_column(title)
    for row in rows:
        disks = " ".join(f"{serial} ({content})" for serial, content in row["disks"].items())
        secure = "enforced" if row["secure_boot"] else "off"
        table.add_row(row["machine"], row["suite"], row["address"], row["state"], secure, disks)
    Steps().console.print(table)
