# SPDX-License-Identifier: Apache-2.0
"""Lines of /etc/fstab for volumes: ours are known by an option of our own, everything else is kept byte for byte; pure."""

from __future__ import annotations

from .nvme_volumes import Entry, Volume

MARK = "x-bedplate.volume="
IMAGE_STORE = "/var/lib/containerd"
KUBELET = "/var/lib/kubelet"
DEVICE_TIMEOUT_SECONDS = 30


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
