# SPDX-License-Identifier: Apache-2.0
"""How apt is called, its locks, and what its failures mean."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .errors import BedplateError
from .host import Host, Result
from .operations import last_lines

DEFAULT_LOCK_TIMEOUT_SECONDS = 300
APT_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_SUSPEND": "1",
    "LC_ALL": "C.UTF-8",
}
UPDATE_TIMEOUT_SECONDS = 300
LOCK_FILES = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock")
"""apt waits by itself for the first two only (DPkg::Lock::Timeout)."""
LOCK_POLL_SECONDS = 2.0
LOCK_NEXT_STEP = "let that process end (or end it), then run this again; the lock file itself is never removed"


def apt_get(lock_timeout_seconds: int = DEFAULT_LOCK_TIMEOUT_SECONDS) -> list[str]:
    """Return the start of every apt-get command: waits for locks a bounded time, keeps our configuration files."""
    return [
        "apt-get",
        "-q",
        "-o",
        f"DPkg::Lock::Timeout={lock_timeout_seconds}",
        "-o",
        "Dpkg::Options::=--force-confdef",
        "-o",
        "Dpkg::Options::=--force-confold",
    ]


def update_index(host: Host, lock_timeout_seconds: int, *options: str) -> Result:
    """Run one apt-get update, bounded in time; raise :class:`BedplateError` naming the holder of a lock that stays held."""
    require_locks_free(host, lock_timeout_seconds)
    argv = [*apt_get(lock_timeout_seconds), "update", *options]
    return host.run(argv, timeout_seconds=UPDATE_TIMEOUT_SECONDS, env=APT_ENVIRONMENT)


@dataclass(frozen=True)
class HeldLock:
    """A package lock in use: its path, and the process that holds it as ``process PID (command line)``."""

    path: str
    holder: str


def held_locks(host: Host) -> list[HeldLock]:
    """Return the package locks that some process holds now, by the kernel's own table (/proc/locks); touches no lock."""
    table = host.read("/proc/locks") or ""
    if not table.strip():
        return []
    found = host.run(["stat", "-c", "%i %n", *LOCK_FILES])  # answers 1 when one of them is missing; the others are printed
    paths = {inode: path for inode, _space, path in (line.partition(" ") for line in found.out.splitlines())}
    held = parse_locks(table, paths)
    return [HeldLock(path, lock_holder(host, pid)) for path, pid in held.items()]


def parse_locks(table: str, paths: dict[str, str]) -> dict[str, str]:
    """Parse /proc/locks: return the pid for each locked path; paths maps inode numbers to paths. See proc_locks(5)."""
    held: dict[str, str] = {}
    for line in table.splitlines():
        fields = line.split()
        if "->" in fields or len(fields) < 6:  # a waiter, not a holder
            continue
        inode = fields[5].rpartition(":")[2]
        if inode in paths:
            held[paths[inode]] = fields[4]
    return held


def wait_for_locks(
    host: Host,
    timeout_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> list[HeldLock]:
    """Wait until no package lock is held, at most timeout_seconds; return what is still held then. Never removes a lock."""
    end = clock() + timeout_seconds
    while True:
        held = held_locks(host)
        if not held or clock() >= end:
            return held
        sleep(min(LOCK_POLL_SECONDS, max(0.0, end - clock())))


def require_locks_free(host: Host, timeout_seconds: float) -> None:
    """Wait for the package locks; raise :class:`BedplateError` naming the holder when they stay held."""
    held = wait_for_locks(host, timeout_seconds)
    if held:
        raise BedplateError(f"{locks_text(held, timeout_seconds)}. Next: {LOCK_NEXT_STEP}")


def locks_text(held: Sequence[HeldLock], timeout_seconds: float) -> str:
    """Describe held locks: found and wanted."""
    holders = ", ".join(f"{lock.path} held by {lock.holder}" for lock in held)
    return f"package lock: found {holders} after waiting {timeout_seconds:g} s; wanted it free"


def explain_common(host: Host, text: str) -> str | None:
    """Explain a failure that any apt command can have: lock, full disk, bad hash or signature, unreachable repository."""
    if re.search(r"Could not get lock|Unable to acquire the dpkg frontend lock|Unable to lock directory", text):
        match = re.search(r"held by process (\d+)(?: \(([^)]*)\))?", text)
        holder = lock_holder(host, match.group(1)) if match else "a process apt did not name"
        return f"package lock: found it held by {holder} to the end of the wait; wanted it free. Next: {LOCK_NEXT_STEP}"
    if re.search(r"No space left on device|You don't have enough free space", text):
        found = _line(text, "space")
        return f"disk: found no space left ({found}); wanted room for the packages. Next: free space, then run this again"
    if "Hash Sum mismatch" in text or "File has unexpected size" in text:
        return (
            f"repository: found a file whose checksum is not the one its signed index states ({_line(text, 'https?://|Hash')}); "
            "wanted them equal. Next: sync the mirror again, then run this again"
        )
    signature = re.search(r"(GPG error|is not signed|NO_PUBKEY|BADSIG|EXPKEYSIG|KEYEXPIRED|signatures were invalid)", text)
    if signature:
        return (
            f"repository signature: found {_line(text, re.escape(signature.group(1)))}; wanted an index signed by the configured "
            "signing_key. Next: correct signing_key of that repository, or have the repository signed again"
        )
    unreachable = re.search(
        r"Could not resolve|Could not connect|Connection refused|Failed to fetch|Certificate verification", text
    )
    if unreachable:
        return (
            f"repository: found {_line(text, re.escape(unreachable.group(0)))}; wanted it reachable. "
            "Next: check its address, the authority of its certificate and the proxy in the site data"
        )
    return None


def lock_holder(host: Host, pid: str) -> str:
    """Name a process: ``process PID (its command line)``."""
    command = (host.read(f"/proc/{pid}/cmdline") or "").replace("\0", " ").strip()
    return f"process {pid} ({command or (host.read(f'/proc/{pid}/comm') or 'ended meanwhile').strip()})"


def _line(text: str, pattern: str) -> str:
    for line in text.splitlines():
        if re.search(pattern, line):
            return re.sub(r"^[EW]: ", "", line.strip()).rstrip(".")
    return last_lines(text)
