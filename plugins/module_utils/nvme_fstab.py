# SPDX-License-Identifier: Apache-2.0
"""Lines of /etc/fstab for volumes: ours are known by an option of our own, everything else is kept byte for byte; pure."""

from __future__ import annotations

from .nvme_volumes import Entry, Volume

MARK = "x-bedplate.volume="
"""mount(8) takes options that begin with ``x-`` as comments."""
IMAGE_STORE = "/var/lib/containerd"
KUBELET = "/var/lib/kubelet"
DEVICE_TIMEOUT_SECONDS = 30


def fields(line: str) -> list[str]:
    """Return a line's fields, none for a comment (fstab(5))."""
    parts = line.split()
    return [] if not parts or parts[0].startswith("#") or len(parts) < 4 else parts


def marked(line: str) -> str:
    """Return the name of the volume that a line of ours mounts; "" for another's line."""
    parts = fields(line)
    options = parts[3].split(",") if parts else []
    return next((o[len(MARK) :] for o in options if o.startswith(MARK)), "")


def mount_line(volume: Volume, entry: Entry) -> str:
    """Return a volume's line.

    The boot goes on without the volume (nofail) after a bounded wait, but kubelet starts after it, and what keeps its own data
    there does not start without it: it would fill the disk below (systemd.mount(5)).
    """
    options = ["defaults", "noatime", "nofail", f"x-systemd.device-timeout={DEVICE_TIMEOUT_SECONDS}s"]
    if volume.mount == IMAGE_STORE:
        options += ["x-systemd.before=containerd.service", "x-systemd.required-by=containerd.service"]
    if volume.mount == KUBELET:
        options += ["x-systemd.required-by=kubelet.service"]
    options += ["x-systemd.before=kubelet.service", MARK + volume.name]
    check = 2 if volume.filesystem == "ext4" else 0
    return f"UUID={entry.filesystem} {volume.mount} {volume.filesystem} {','.join(options)} 0 {check}\n"


def with_mount(text: str, volume: Volume, line: str) -> str:
    """Return the text with a volume's line: in the place of the one that is there, else at the end."""
    lines = text.splitlines(keepends=True)
    ours = [index for index, found in enumerate(lines) if marked(found) == volume.name]
    for index in reversed(ours[1:]):
        del lines[index]
    if ours:
        lines[ours[0]] = line
        return "".join(lines)
    end = "" if not lines or lines[-1].endswith("\n") else "\n"
    return "".join(lines) + end + line


def others_on(text: str, mount: str, name: str) -> list[str]:
    """Return the lines that mount something else at a volume's mount point."""
    lines = text.splitlines()
    return [line for line in lines if fields(line)[1:2] == [mount] and marked(line) != name]
