# SPDX-License-Identifier: Apache-2.0
"""Every role on new machines: how they are found, what is wanted of them, and the one run that brings it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from bedplate_lab.inventory import GENERATED
from bedplate_lab.metal.image import ROLE_PACKAGES

from ..archive import archive_of
from ..site import Run
from .machines import Metal, boot_id, machine, sh

ROLES = ("repositories", "kernel", "nvme", "fabric")
PLAIN, SECURE = "m1", "m2"
"""Debian 12, and Debian 13 with Secure Boot; the second one serves the time and has containerd."""
SWAP = "# swap was on /swap.img\n/swap.img\tnone\tswap\tsw\t0\t0\n"
IMAGES = "/var/lib/containerd"
FABRIC = {"name": "rail0", "fabric": "soft-roce", "device": "enp0s8"}
BOOTED = "BdsDxe: starting"
"""What the firmware writes on the console whenever it starts a system."""


def disks(name: str, *short: str) -> list[str]:
    """Serial numbers of a machine's disks: N1, S3 and so on."""
    return [f"BP{name.upper()}{one}" for one in short]


def by_id(serial: str) -> str:
    """The link udev makes for a disk."""
    return f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_{serial}"


def address(name: str) -> str:
    """A machine's address on the fabric."""
    return f"10.88.0.{machine(name).octet}/24"


def scratch(name: str, count: int) -> dict[str, Any]:
    """The volume each machine has: of the larger disks those that a rule finds blank."""
    rule = {"min_size_bytes": machine(name).disks[0].size_bytes, "count": count}
    return {"name": "scratch", "mount": "/scratch", "layout": "raid0", **rule}


def volume(name: str, mount: str, layout: str, *short: str) -> dict[str, Any]:
    """A volume of the second machine, over disks by serial."""
    return {"name": name, "mount": mount, "layout": layout, "filesystem": "ext4", "serials": disks(SECURE, *short)}


VOLUMES = {
    PLAIN: [scratch(PLAIN, 3)],
    SECURE: [
        scratch(SECURE, 2),
        volume("images", IMAGES, "single", "N3"),
        volume("mirror", "/mirror", "raid1", "S1", "S2"),
        volume("stripes", "/stripes", "raid10", "S3", "S4", "S5"),
        volume("pieces", "/pieces", "lvm", "S6", "S7"),
    ],
}


def depot() -> dict[str, Any]:
    """The lab's depot, as site data knows it."""
    found: dict[str, Any] = yaml.safe_load(GENERATED.read_text(encoding="utf-8"))["bedplate_depot"]
    return found


def desired(metal: Metal, name: str) -> dict[str, Any]:
    """The role variables of a machine."""
    known = depot()
    repository = {key: known["apt"][key] for key in ("components", "signing_key")}
    repositories = [{"name": "depot", "uris": [known["apt"]["uri"]], "suites": [known["apt"]["suite"]], **repository}]
    if metal.full:
        repositories.append(archive_of(machine(name).suite))
    time_server = "127.0.0.1" if name == SECURE else machine(SECURE).address
    return {
        "metal_roles": [*ROLES, *(["container_runtime"] if name == SECURE else [])],
        "repositories_apt": repositories,
        "repositories_ca": [{"name": "depot", "pem": known["ca"]}],
        "repositories_exclusive": True,
        "kernel_command_line": ["iommu=pt"] if name == PLAIN else [],
        "kernel_blacklist": ["pcspkr"] if name == PLAIN else [],
        "kernel_time_servers": [time_server],
        "nvme_volumes": VOLUMES[name],
        "fabric_nics": [{**FABRIC, "address": address(name), "mtu": 4200}],
        "fabric_management_address": machine(name).address,
        "bedplate_allow": ["reboot"],
    }


@dataclass(frozen=True)
class Whole:
    """What was seen of a machine: the run that was refused, if one was, the one that brought all, the one after it.

    boots: before the first run, after it, after the second. starts: how often the firmware had started a system, before the first
    run and after it.
    """

    name: str
    refused: Run | None
    first: Run
    second: Run
    boots: tuple[str, str, str]
    starts: tuple[int, int]


def bring(metal: Metal, name: str) -> Whole:
    """Leave on a machine what people leave, have its roles refuse that, then bring all in one run and nothing in the next."""
    _used_before(metal, name)
    refused = None
    if name == SECURE:
        volumes = [*VOLUMES[name], volume("more", "/more", "single", "N9"), volume("old", "/old", "single", "DATA")]
        refused = metal.together({name: {**desired(metal, name), "metal_roles": ["nvme"], "nvme_volumes": volumes}})
    boot, start = boot_id(name), started(name)
    wiping = {"nvme_wipe": disks(name, "N3"), "bedplate_allow": ["reboot", "wipe"]} if name == SECURE else {}
    first = metal.together({name: {**desired(metal, name), **wiping}})
    boot_between, start_between = boot_id(name), started(name)
    second = metal.together({name: desired(metal, name)})
    return Whole(name, refused, first, second, (boot, boot_between, boot_id(name)), (start, start_between))


def applied(name: str) -> bool:
    """Whether every role was applied to a machine already."""
    return bool(sh(name, "ls /var/lib/bedplate/nvme.json", check=False))


def started(name: str) -> int:
    """How often a machine's firmware has started a system, by its console."""
    return machine(name).path("console").read_text(errors="replace").count(BOOTED)


def _used_before(metal: Metal, name: str) -> None:
    if metal.full:
        sh(name, f"DEBIAN_FRONTEND=noninteractive apt-get purge --yes {' '.join(ROLE_PACKAGES)} 2>&1", seconds=600)
    if name == PLAIN:
        sh(name, "dd if=/dev/zero of=/swap.img bs=1M count=16 status=none && chmod 600 /swap.img && mkswap /swap.img >/dev/null")
        sh(name, f"printf '{SWAP}' >>/etc/fstab && swapon /swap.img")
        sh(name, "modprobe -r br_netfilter")
        sh(name, """sed -i 's/^GRUB_CMDLINE_LINUX="\\(.*\\)"/GRUB_CMDLINE_LINUX="\\1 iommu=on"/' /etc/default/grub""")
    else:
        sh(name, f"mkfs.ext4 -q -F -L old {by_id(*disks(name, 'N3'))}")
        sh(name, f"mkdir -p {IMAGES} && echo pulled >{IMAGES}/older-image")
        serve_time()


def serve_time() -> None:
    """Have the second machine serve its own time, once it has chrony."""
    conf = "mkdir -p /etc/chrony/conf.d && printf 'local stratum 8\\nallow\\n' >/etc/chrony/conf.d/serve.conf"
    sh(SECURE, f"{conf} && systemctl try-restart chrony")
