# SPDX-License-Identifier: Apache-2.0
"""The command line of `scripts/lab gpu`."""

from __future__ import annotations

import argparse
import sys

from bedplate_lab import gpus, gpustate, state
from bedplate_lab.errors import LabError
from bedplate_lab.gpustate import GpuState
from bedplate_lab.podman import Podman
from bedplate_lab.topology import Host


def define(sub: argparse.ArgumentParser) -> None:
    """Give `gpu` its arguments."""
    sub.add_argument("host", metavar="HOST")
    actions = sub.add_subparsers(dest="action", metavar="ACTION", required=True)

    def add(name: str, text: str, *, numbers: bool = True) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if numbers:
            action.add_argument("--gpu", type=int, action="append", default=[], metavar="N", help="this GPU (default: all)")
        return action

    add("show", "show the host's GPUs and what is wrong with them", numbers=False)
    action = add("install", "plug GPUs in, in the place of those that are there", numbers=False)
    action.add_argument("machines", metavar="PROFILE[:COUNT]", nargs="+", help=", ".join(gpustate.profiles()))
    add("remove", "take all GPUs out", numbers=False)
    action = add("lose", "let GPUs fall off the bus (XID 79); after a reboot they are not there")
    action.add_argument("--unplug", action="store_true", help="not there from now on, and nobody says why")
    add("hang", "let the driver answer nobody: nvidia-smi never returns and ignores TERM", numbers=False)
    action = add("xid", "report an XID error, to NVML's events and the host's journal")
    action.add_argument("code", type=int, metavar="XID")
    action = add("ecc", "count memory errors; uncorrected ones leave a row to be remapped")
    action.add_argument("--corrected", type=int, default=0, metavar="N")
    action.add_argument("--uncorrected", type=int, default=0, metavar="N")
    action = add("mismatch", "let the loaded driver be of another version than its library", numbers=False)
    action.add_argument("version", metavar="VERSION", nargs="?")
    action = add("set", "set values, for example temperature=91 utilization=97 used_mib=70000")
    action.add_argument("values", metavar="KEY=VALUE", nargs="+")
    add("heal", "make GPUs, and without --gpu the driver, whole again")
    sub.set_defaults(command=run)


def run(parsed: argparse.Namespace) -> int:
    """Do what was asked; 0. Raises LabError."""
    host = state.load().host(parsed.host)
    podman = Podman()
    action: str = parsed.action
    if action == "show":
        show(gpus.read(podman, host), host)
    elif action == "install":
        gpus.install(podman, host, [_machine(text) for text in parsed.machines])
    elif action == "remove":
        gpus.remove(podman, host)
    elif action == "lose":
        gpus.lose(podman, host, parsed.gpu, unplug=parsed.unplug)
    elif action == "hang":
        gpus.hang(podman, host)
    elif action == "xid":
        gpus.xid(podman, host, parsed.code, parsed.gpu)
    elif action == "ecc":
        gpus.ecc(podman, host, parsed.gpu, parsed.corrected, parsed.uncorrected)
    elif action == "mismatch":
        gpus.mismatch(podman, host, parsed.version)
    elif action == "set":
        gpus.set_values(podman, host, parsed.gpu, _values(parsed.values))
    elif action == "heal":
        gpus.heal(podman, host, parsed.gpu)
    return 0


def _machine(text: str) -> tuple[str, int | None]:
    profile, _, count = text.partition(":")
    if count and not count.isdigit():
        raise LabError(f"{text!r}: wanted PROFILE or PROFILE:COUNT, for example l40s-48gb:2")
    return profile, int(count) if count else None


def _values(texts: list[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise LabError(f"{text!r}: wanted KEY=VALUE, for example temperature=91")
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def show(found: GpuState | None, host: Host) -> None:
    """Print a host's GPUs."""
    if found is None:
        print(f"{host.name} has no GPUs; plug some in: scripts/lab gpu {host.name} install PROFILE")
        return
    driver = found.section("driver")
    loaded = f"{driver.get('loaded')} ({driver.get('loaded_modules')})" if driver.get("loaded") else "none loaded"
    hung = ", hangs" if driver.get("hang") == "1" else ""
    print(f"{host.name}: {found.section('host').get('product')}, driver {loaded}{hung}")
    for gpu in found.gpus:
        notes = [word for key, word in (("lost", "lost"), ("absent", "not on the bus"), ("mig", "MIG")) if gpu.get(key) == "1"]
        notes += [f"XID {xid.split()[1]}" for xid in gpu.all("xid")]
        if errors := gpu.get("ecc_uncorrected_total").lstrip("0"):
            notes.append(f"{errors} uncorrected memory errors")
        print(f"  {gpu.get('minor'):>2}  {gpu.get('pci')}  {gpu.get('name')}  {', '.join(notes)}".rstrip(), file=sys.stdout)
