# SPDX-License-Identifier: Apache-2.0
"""A share over NFS, its line of /etc/fstab, and how it is mounted and unmounted: each in bounded time."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import BedplateError
from .fstab import FSTAB, with_line
from .host import TIMED_OUT, Host
from .mounts import Mount, users
from .network import Network
from .operations import RunCommand, WriteFile, last_lines
from .wording import listing

MARK = "x-bedplate.share="
PORT = 2049
"""NFS's own (RFC 7530, section 3.1); of NFS 3 the usual one."""
MOUNT_SECONDS = 60.0
AT_BOOT = ("bg", "nofail")
"""The boot goes on without the server, and systemd goes on trying until it answers (systemd.mount(5), on bg of NFS)."""


@dataclass(frozen=True)
class Share:
    """A share as declared. server: name or address. mount: "" where only pods mount it. options: of nfs(5)."""

    name: str
    server: str
    path: str
    mount: str = ""
    options: tuple[str, ...] = ()

    @property
    def bracketed(self) -> str:
        """The server as it stands before a colon."""
        return f"[{self.server}]" if ":" in self.server else self.server

    @property
    def source(self) -> str:
        """What is mounted."""
        return f"{self.bracketed}:{self.path}"

    @property
    def uri(self) -> str:
        """Where its server listens."""
        port = next((option.partition("=")[2] for option in self.options if option.startswith("port=")), "")
        return f"nfs://{self.bracketed}:{port or PORT}"


def line_of(share: Share) -> str:
    """Return a share's line of /etc/fstab."""
    options = [*share.options, *AT_BOOT, MARK + share.name]
    return f"{share.source} {share.mount} nfs {','.join(options)} 0 0\n"


@dataclass(frozen=True)
class WriteLine:
    """Write the line of a share into /etc/fstab; "" removes it."""

    name: str
    line: str

    def perform(self, host: Host) -> None:
        """Change this line alone."""
        text = host.read(FSTAB) or ""
        new = with_line(text, MARK, self.name, self.line)
        if new != text:
            WriteFile(FSTAB, new).perform(host)


@dataclass(frozen=True)
class MountShare:
    """Mount a share by its line. reload: systemd has read an older line of it, and would act by that."""

    share: Share
    network: Network
    reload: bool = False

    def perform(self, host: Host) -> None:
        """Ask the server first, whose silence costs seconds then; raise :class:`BedplateError` that names it."""
        share = self.share
        RunCommand(("mkdir", "-p", share.mount), f"make {share.mount}").perform(host)
        if self.reload:
            RunCommand(("systemctl", "daemon-reload"), f"let systemd read {FSTAB}").perform(host)
        reason = next(iter(self.network.unreachable([share.uri]).values()), "")
        step = f"look at the server {share.server} and the way to it, then repeat; a boot goes on trying by itself"
        said = reason or self._mount(host)
        if said:
            raise BedplateError(f"mount {share.mount}: found {said}; wanted share {share.name} of {share.source}. Next: {step}")

    def _mount(self, host: Host) -> str:
        """Mount it; return why that failed, "" where it did not."""
        # fg, retry: one try here, and its outcome; bg of the line is for boots
        result = host.run(["mount", "-o", "fg,retry=0", self.share.mount], timeout_seconds=MOUNT_SECONDS)
        if result.rc == TIMED_OUT:
            return f"no answer of {self.share.server} within {MOUNT_SECONDS:g} s"
        return "" if result.ok else last_lines(result.err or result.out, 3) or f"return code {result.rc}"


@dataclass(frozen=True)
class Unmount:
    """Unmount a share that nobody uses: never by force, and never lazily, which only hides who does."""

    mount: Mount

    def perform(self, host: Host) -> None:
        """Look who uses it once more, then unmount."""
        who = users(host, self.mount)
        if who:
            raise BedplateError(
                f"mount {self.mount.path}: found it in use by {listing(who, 3)}; wanted nobody. Next: end them and repeat"
            )
        # -c: what leads to the mount is not looked up, which its server would have to answer
        step = "look who uses it (fuser -vm), or at its server, then repeat"
        RunCommand(("umount", "-c", self.mount.path), f"unmount {self.mount.path}", MOUNT_SECONDS, step).perform(host)
