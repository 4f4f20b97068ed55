# SPDX-License-Identifier: Apache-2.0
"""The command line of the lab."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence

from bedplate_lab import cache, extra, gpucli, kubectl, ssh, state, summary
from bedplate_lab.down import down
from bedplate_lab.errors import LabError
from bedplate_lab.leftovers import remove_dead
from bedplate_lab.metal import cli as metalcli
from bedplate_lab.metal import machines as metal
from bedplate_lab.podman import Podman
from bedplate_lab.steps import Steps
from bedplate_lab.topology import MOST
from bedplate_lab.up import Options, build, up

Command = Callable[[argparse.Namespace], int]


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    top = argparse.ArgumentParser(
        prog="scripts/lab",
        description="A cluster of hosts in containers beside a depot of packages and images, on this machine (Debian, root).",
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(command=command)
        return sub

    sub = add("up", _up, "build what is missing, boot depot and hosts, run site.yml; repeat it after an interruption")
    sub.add_argument("--control-planes", type=_count("control_plane"), metavar="N", help="control-plane hosts (default 1)")
    sub.add_argument(
        "--workers", type=_count("worker"), metavar="N", help="workers, in the pools train and infer by turns (default 2)"
    )
    _source(sub)
    sub.add_argument("--no-site", action="store_true", help="stop before site.yml: hosts that know nothing but SSH")

    sub = add("down", _down, "remove all the lab made, and only that; the cache stays")
    sub.add_argument("--cache", action="store_true", help="remove the cache of built components too")
    sub.add_argument(
        "--dead", action="store_true", help="instead of this lab, remove those of other checkouts of which nothing runs any more"
    )

    sub = add("status", _status, "show hosts, depot and nodes")
    sub.add_argument("--json", action="store_true", help="as JSON")

    sub = add("ssh", _ssh, "log in to a host, or run a command on it")
    sub.add_argument("host", metavar="HOST")
    sub.add_argument("remote", metavar="CMD", nargs=argparse.REMAINDER, help="a command and its arguments")

    sub = add("kubectl", _kubectl, "run kubectl here, as the cluster's administrator; all arguments are kubectl's")
    sub.add_argument("arguments", metavar="…", nargs=argparse.REMAINDER)

    sub = add("build", _build, "fill the cache and the depot's content, and start nothing")
    _source(sub)

    sub = add("cache", _none, "tidy the cache")
    actions = sub.add_subparsers(metavar="ACTION", required=True)
    action = actions.add_parser("prune", help="drop what versions.yml and the recipes no longer name")
    action.set_defaults(command=_cache_prune)

    gpucli.define(add("gpu", gpucli.run, "plug, break and heal the simulated GPUs of a host"))

    metalcli.define(add("metal", metalcli.run, "virtual machines with kernels, disks and a fabric of their own"))

    sub = add("host", _none, "add, remove or reboot single hosts")
    actions = sub.add_subparsers(metavar="ACTION", required=True)
    action = actions.add_parser("add", help="boot bare hosts that are not in the inventory; hosts that run are left alone")
    action.add_argument("names", metavar="NAME", nargs="+")
    action.add_argument("--json", action="store_true", help="print how to reach them as JSON: name to Ansible's variables")
    action.set_defaults(command=_host_add)
    action = actions.add_parser("rm", help="remove hosts made by `host add`; those that are gone are fine")
    action.add_argument("names", metavar="NAME", nargs="+")
    action.set_defaults(command=_host_rm)
    action = actions.add_parser("reboot", help="shut hosts down, start them again and wait for SSH")
    action.add_argument("names", metavar="NAME", nargs="+")
    action.set_defaults(command=_host_reboot)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 0, or 1 with a message on what was found, wanted and to do next."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # The options of `kubectl`, --help among them, are kubectl's.
    own = words[:1] != ["kubectl"]
    parsed = parser().parse_args(words) if own else argparse.Namespace(command=_kubectl, arguments=words[1:])
    command: Command = parsed.command
    try:
        return command(parsed)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        return 130


def _count(role: str) -> Callable[[str], int]:
    most = MOST["control_plane" if role == "control_plane" else "worker"]

    def parse(text: str) -> int:
        if not text.isdigit() or int(text) > most:
            raise argparse.ArgumentTypeError(f"{text!r}: wanted a number from 0 to {most}")
        return int(text)

    return parse


def _source(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--source",
        choices=("build", "upstream"),
        help="where components come from: built from pinned Go modules, or upstream's releases (default build)",
    )
    sub.add_argument("--upstream-url", metavar="URL", help="a server with the layout of upstream's, instead of upstream's own")


def _up(parsed: argparse.Namespace) -> int:
    options = Options(parsed.control_planes, parsed.workers, parsed.source, parsed.upstream_url, site=not parsed.no_site)
    up(options, Steps())
    return 0


def _down(parsed: argparse.Namespace) -> int:
    if parsed.dead:
        remove_dead(Steps())
    else:
        down(Steps(), cache=parsed.cache)
    return 0


def _build(parsed: argparse.Namespace) -> int:
    build(Options(source=parsed.source, upstream_url=parsed.upstream_url), Steps())
    return 0


def _cache_prune(_: argparse.Namespace) -> int:
    cache.drop_outdated(Steps())
    return 0


def _status(parsed: argparse.Namespace) -> int:
    data = summary.status(state.load(), Podman())
    if parsed.json:
        print(json.dumps(data, indent=2))
    else:
        summary.print_status(data, Steps().console)
    return 0


def _ssh(parsed: argparse.Namespace) -> int:
    address = metal.address(parsed.host) or state.load().host(parsed.host).address
    remote = parsed.remote[1:] if parsed.remote[:1] == ["--"] else parsed.remote
    # One word is a shell command, as with ssh itself; several are a command and its arguments.
    line = None if not remote else remote[0] if len(remote) == 1 else shlex.join(remote)
    return _become(ssh.command(address, line, tty=line is not None and _terminal()))


def _kubectl(parsed: argparse.Namespace) -> int:
    program, environment = kubectl.prepare(state.load())
    os.environ.update(environment)
    return _become([program, *parsed.arguments])


def _host_add(parsed: argparse.Namespace) -> int:
    steps = Steps(error_output=parsed.json)
    found = extra.add(parsed.names, steps)
    if parsed.json:
        print(json.dumps(found, indent=2))
    return 0


def _host_rm(parsed: argparse.Namespace) -> int:
    extra.remove(parsed.names, Steps())
    return 0


def _host_reboot(parsed: argparse.Namespace) -> int:
    extra.reboot(parsed.names, Steps())
    return 0


def _none(_: argparse.Namespace) -> int:
    raise AssertionError("argparse requires an action")


def _terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _become(command: Sequence[str]) -> int:
    sys.stdout.flush()
    os.execvp(command[0], list(command))
