# SPDX-License-Identifier: Apache-2.0
"""SSH to the lab's hosts: its key, its known hosts, its shared connections, and waiting for a host to answer."""

from __future__ import annotations

import contextlib
import shlex
import socket
import time
from collections.abc import Callable
from pathlib import Path

from bedplate_lab import paths
from bedplate_lab.errors import LabError
from bedplate_lab.run import run

USER = "bedplate"
CONTROL_DIRECTORY = Path("/run/bedplate-lab")
"""Sockets of shared connections; short, because the path of a socket ends at 107 characters."""
POLL_SECONDS = 0.1


def key() -> Path:
    """The private key's path."""
    return paths.state("ssh", "id_ed25519")


def known_hosts() -> Path:
    """The lab's own known_hosts file."""
    return paths.state("ssh", "known_hosts")


def ensure_key() -> str:
    """Make the key pair unless it is there; the public key's line. Raises CommandError."""
    public = key().with_suffix(".pub")
    if not (key().exists() and public.exists()):
        key().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with paths.new_dir(paths.state("ssh-new")) as directory:
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bedplate-lab", "-f", str(directory / "id_ed25519")])
            (directory / "id_ed25519.pub").rename(public)
            (directory / "id_ed25519").rename(key())
        paths.state("ssh-new").rmdir()
    return public.read_text().strip()


def options() -> list[str]:
    """ssh's options for the lab's hosts: nothing of the user's own configuration takes part."""
    settings = {
        "UserKnownHostsFile": str(known_hosts()),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "accept-new",
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "ControlMaster": "auto",
        "ControlPath": f"{CONTROL_DIRECTORY}/%C",
        "ControlPersist": "300s",
        "LogLevel": "ERROR",
    }
    arguments = ["-F", "/dev/null"]
    for name, value in settings.items():
        arguments += ["-o", f"{name}={value}"]
    return arguments


def common_args() -> str:
    """The options as one string, for `ansible_ssh_common_args`."""
    return shlex.join(options())


def command(address: str, remote: str | None = None, *, tty: bool = False, options_first: tuple[str, ...] = ()) -> list[str]:
    """The command line that logs in to a host, or runs `remote` (one shell command) there."""
    CONTROL_DIRECTORY.mkdir(mode=0o700, exist_ok=True)
    arguments = ["ssh", *options_first, *options(), "-i", str(key())]
    if tty:
        arguments.append("-t")
    arguments.append(f"{USER}@{address}")
    return arguments if remote is None else [*arguments, "--", remote]


def forget(address: str) -> None:
    """Drop a host's key and close its shared connection: the next host at that address is another one."""
    close(address)
    with paths.lock("lab-known-hosts"), contextlib.suppress(FileNotFoundError):
        lines = known_hosts().read_text().splitlines(keepends=True)
        kept = [line for line in lines if line.split(" ", 1)[0] != address]
        if kept != lines:
            with paths.new_file(known_hosts()) as temporary:
                temporary.write_text("".join(kept))


def close(address: str) -> None:
    """Close the shared connection to a host, if there is one."""
    run([*command(address, options_first=("-O", "exit"))], check=False, timeout_seconds=10)


def close_all() -> None:
    """Close every shared connection of the lab and remove their directory."""
    if not CONTROL_DIRECTORY.is_dir():
        return
    for entry in CONTROL_DIRECTORY.iterdir():
        run(["ssh", "-F", "/dev/null", "-O", "exit", "-o", f"ControlPath={entry}", "lab"], check=False, timeout_seconds=10)
        entry.unlink(missing_ok=True)
    CONTROL_DIRECTORY.rmdir()


def wait(address: str, timeout_seconds: float, alive: Callable[[], bool]) -> None:
    """Wait until the administrator can log in and use sudo there.

    `alive` is asked now and then whether waiting still makes sense. Raises LabError, saying what was seen last.
    """
    deadline = time.monotonic() + timeout_seconds
    seen = "no answer on port 22"
    next_look = time.monotonic() + 2
    while time.monotonic() < deadline:
        if _banner(address):
            result = run(
                command(address, "sudo -n true", options_first=("-o", "ConnectTimeout=5", "-o", "BatchMode=yes")),
                check=False,
                timeout_seconds=30,
            )
            if result.returncode == 0:
                return
            seen = result.stderr.strip() or f"exit code {result.returncode} of sudo"
        if time.monotonic() > next_look:
            if not alive():
                raise LabError("it stopped while booting")
            next_look = time.monotonic() + 2
        time.sleep(POLL_SECONDS)
    raise LabError(f"no SSH as {USER} within {timeout_seconds:.0f} s: {seen}")


def _banner(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            connection.settimeout(2)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
