# SPDX-License-Identifier: Apache-2.0
"""Site data of the places for data: local volumes, shared file systems over NFS, and what is checked at each."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .types import IpAddress, Label, Percent, Quantity, Shape, Text, Url, Word, matching
from .types_host import MountPoint, Server

NOT_USED_KINDS = ("csi", "object")
"""Kinds that are checked and kept for what is to come; validation warns where one is written."""
OF_KIND = {
    "local": ("path", "pools"),
    "nfs": (
        *("server", "path", "mount", "pools", "read_only", "nfs_version", "mount_options", "sample", "capacity"),
        *("address", "clients", "root_squash", "directory_mode", "disk_mount"),
    ),
    "csi": (),
    "object": ("endpoint",),
}
"""The keys that each kind has besides name, kind and tenants."""
REQUIRED = {"local": ("path",), "nfs": ("server", "path"), "csi": (), "object": ("endpoint",)}
RESERVED_OPTIONS = {
    "vers": "nfs_version",
    "nfsvers": "nfs_version",
    "ro": "read_only",
    "rw": "read_only",
    "bg": "",
    "fg": "",
    "auto": "",
    "noauto": "",
    "nofail": "",
    "retry": "",
    "_netdev": "",
}
"""Mount options that another key stands for, or ("") that decide whether a boot waits for the server."""

_export = matching(
    r"(/[A-Za-z0-9][A-Za-z0-9._@+-]*)+", "must be an absolute path whose parts are of letters, digits, '.', '_', '-', '@' and '+'"
)
_below = matching(
    r"[A-Za-z0-9][A-Za-z0-9._@+-]*(/[A-Za-z0-9][A-Za-z0-9._@+-]*)*", "must be a path below the place's own, without a first slash"
)
_mode = matching(r"[01]?[0-7]{3}", 'must be permission bits in quotes, for example "1777"; no set-user or set-group bit')


def _option(text: str) -> str:
    key = text.partition("=")[0]
    if not key or "," in text or text.startswith("x-"):
        raise ValueError("must be one mount option of nfs(5), for example nconnect=16; more of them are entries of their own")
    if key in RESERVED_OPTIONS:
        place = RESERVED_OPTIONS[key]
        raise ValueError(f"say it by {place}" if place else "a boot never waits for a server and goes on trying: that is fixed")
    return text


def _client(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text)) if "/" in text else str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError("must be an address or a range of addresses, for example 10.20.0.0/24") from None


ExportPath = Annotated[str, AfterValidator(_export)]
PathBelow = Annotated[str, AfterValidator(_below)]
Mode = Annotated[str, AfterValidator(_mode)]
Client = Annotated[str, AfterValidator(_client)]
MountOption = Annotated[Word, AfterValidator(_option)]


class Storage(Shape):
    """A place for data."""

    name: Label
    """Name, also that of the storage class."""
    kind: Literal["local", "nfs", "csi", "object"]
    """local: a volume of each node; nfs; csi: a driver's chart; object: an S3 endpoint. Nothing acts on csi and object yet."""
    server: Server | None = None
    """NFS: a host of the inventory, which Bedplate sets up as server, or address or full name of one that it does not touch."""
    path: ExportPath | None = None
    """NFS: exported path. local: where the volume is mounted."""
    mount: MountPoint | None = None
    """NFS: where the nodes mount it; left out, only pods do, by its persistent volumes."""
    pools: list[Text] = Field(default=[])
    """Pools whose nodes use it; none named: all under gpu_nodes."""
    read_only: bool = False
    """NFS: nodes and pods only read, and a server of the inventory lets them do no more."""
    nfs_version: Literal["3", "4.1", "4.2"] = "4.2"
    """NFS: version of the protocol, in quotes."""
    mount_options: list[MountOption] = Field(default=[])
    """NFS: more options of nfs(5); one of the defaults (hard, nconnect=8, noatime) is replaced by another of its kind."""
    sample: PathBelow | None = None
    """NFS: directory below path whose files check_storage reads where the share is read-only."""
    capacity: Quantity = "1Ti"
    """NFS: size that its persistent volumes show; claims are compared with it, and nothing enforces it."""
    address: IpAddress | None = None
    """NFS, server of the inventory: its address that clients use, as on a storage network; left out, its own."""
    clients: list[Client] = Field(default=[])
    """NFS, server of the inventory: addresses and ranges let in besides the nodes that use it."""
    root_squash: bool = True
    """NFS, server of the inventory: root of a client is nobody. false: root of every client is root there."""
    directory_mode: Mode = "1777"
    """NFS, server of the inventory: permissions of the exported directory where Bedplate makes it, in quotes; one that is there
    stays as it is."""
    disk_mount: MountPoint | None = None
    """NFS, server of the inventory: mount point of the disk that path lies on; nothing is exported while it is not mounted."""
    endpoint: Url | None = None
    """object: address of the object store."""
    tenants: list[Text] = Field(default=[])
    """Tenants that may use it; none named: all."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse keys of another kind, and a kind without what it needs."""
        for key in sorted(self.model_fields_set - {"name", "kind", "tenants", *OF_KIND[self.kind]}):
            kinds = [kind for kind, keys in OF_KIND.items() if key in keys]
            yield key, f"is a key of kind {' and '.join(kinds)}, not of {self.kind}"
        for key in REQUIRED[self.kind]:
            if getattr(self, key) is None:
                yield key, f"kind {self.kind} needs {key}"


class StorageCheck(Shape):
    """What check_storage does at each place for data; small on purpose, and never more than a quarter of what is free."""

    file_size: Quantity = "1Gi"
    """Size of the file that is written, restored and read."""
    files: Annotated[int, Field(ge=10, le=100_000)] = 2000
    """How many small files are made, read, copied and removed."""
    small_file_size: Quantity = "64Ki"
    """Size of each of them."""
    limit_seconds: Annotated[int, Field(ge=5, le=3600)] = 60
    """How long each single check may take; one that takes longer fails."""
    tolerance: Percent = "30%"
    """How far below its baseline a result may be, in quotes."""
