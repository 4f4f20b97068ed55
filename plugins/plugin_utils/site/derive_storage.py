# SPDX-License-Identifier: Apache-2.0
"""Places for data out of the site data: who serves a share, who uses it, and what each host gets of it. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from .check_network import node_ip
from .gather import Gathered, SiteHost
from .kubelet_config import quantity_bytes
from .model_pool import GpuPool
from .model_storage import Storage, StorageCheck
from .types import share_percent

DEFAULT_OPTIONS = ("hard", "nconnect=8", "noatime")
"""hard: calls wait for a server that is away; soft ends them with errors, of which programs make cut-off checkpoints. nconnect:
one TCP connection is one stream through one queue of the card. noatime: access times are the server's (nfs(5)), but without it
the client asks for them again before it answers stat (Linux, fs/nfs/inode.c, nfs_getattr). rsize and wsize are negotiated.
"""
ALIKE = (("hard", "soft", "softerr"), ("atime", "noatime", "relatime", "strictatime"))
"""Options of which one replaces another; any other replaces that of its own name."""
NO_SCRATCH = ("/var/lib/containerd", "/var/lib/kubelet")
"""Mount points of volumes that are not for data."""


def shares(found: Gathered) -> list[Storage]:
    """Return the shared file systems over NFS."""
    return [storage for storage in found.sections.get("storage") or [] if storage.kind == "nfs"]


def server_of(found: Gathered, share: Storage) -> SiteHost | None:
    """Return the host of the inventory that serves a share; None for a server that Bedplate does not touch."""
    name = share.server or ""
    return found.servers.get(name) or found.hosts.get(name)


def pools_of(found: Gathered, storage: Storage) -> list[str]:
    """Return the pools whose nodes use a place, in the order of the inventory; unknown names left out."""
    return [name for name in found.pools if (name in storage.pools if storage.pools else name != "system")]


def users_of(found: Gathered, storage: Storage) -> list[SiteHost]:
    """Return the nodes that use a place."""
    return [found.hosts[name] for pool in pools_of(found, storage) for name in found.pools[pool].hosts]


def ranges_of(found: Gathered) -> list[Any]:
    """Return the ranges of nodes."""
    network = found.sections.get("network")
    return [ipaddress.ip_network(cidr) for cidr in network.node_cidrs] if network is not None else []


def addresses_of(host: SiteHost) -> list[str]:
    """Return every known address of a host: which of them it comes from is decided by its routes."""
    fabric = [text.partition("/")[0] for text in (host.data.fabric_addresses or {}).values()]
    known = [host.data.node_ip, host.data.node_ip_secondary, host.address, *fabric]
    return list(dict.fromkeys(str(ipaddress.ip_address(address)) for address in known if address))


def own_address(found: Gathered, host: SiteHost) -> str | None:
    """Return the address a server is reached at when its shares name no other."""
    return node_ip(host, ranges_of(found)) or host.address


def reach(found: Gathered, share: Storage) -> str:
    """Return the name or address at which clients reach a share's server."""
    host = server_of(found, share)
    return str(share.server) if host is None else str(share.address or own_address(found, host))


def options_of(share: Storage) -> list[str]:
    """Return the mount options of a share: the defaults, with the site's own in their places."""
    chosen = {_kind(option): option for option in (*DEFAULT_OPTIONS, *share.mount_options)}
    return [f"vers={share.nfs_version}", "ro" if share.read_only else "rw", *chosen.values()]


def _kind(option: str) -> str:
    key = option.partition("=")[0]
    return next((group[0] for group in ALIKE if key in group), key)


class StorageDerivation:
    """Derives role variables and the places that are checked."""

    def __init__(self, found: Gathered, lock_timeout_seconds: int) -> None:
        """Take the site's data, and how long the roles wait for apt's locks."""
        self.found, self.lock = found, {"lock_timeout_seconds": lock_timeout_seconds}
        self.used: dict[str, list[Storage]] = {}
        for storage in found.sections.get("storage") or []:
            for host in users_of(found, storage):
                self.used.setdefault(host.name, []).append(storage)

    def host_roles(self, host: SiteHost) -> dict[str, dict[str, Any]]:
        """Return the options of both NFS roles, also without a share: what was there before is taken away then."""
        served = [share for share in shares(self.found) if server_of(self.found, share) is host]
        used = [storage for storage in self.used.get(host.name, []) if storage.kind == "nfs"]
        return {
            "nfs_server": {"shares": [self._export(share) for share in served], "threads": host.data.nfs_threads, **self.lock},
            "nfs_client": {"shares": [self._mount(share) for share in used], **self.lock},
        }

    def _export(self, share: Storage) -> dict[str, Any]:
        nodes = [address for host in users_of(self.found, share) for address in addresses_of(host)]
        return {
            "name": share.name,
            "path": share.path,
            "clients": list(dict.fromkeys([*nodes, *share.clients])),
            "read_only": share.read_only,
            "root_squash": share.root_squash,
            "directory_mode": share.directory_mode,
            "disk_mount": share.disk_mount or "",
        }

    def _mount(self, share: Storage) -> dict[str, Any]:
        return {
            "name": share.name,
            "server": reach(self.found, share),
            "path": share.path,
            "mount": share.mount or "",
            "options": options_of(share),
        }

    def volumes(self) -> list[dict[str, Any]]:
        """Return the options of role storage_class: every share with what a persistent volume says of it."""
        return [
            {
                "name": share.name,
                "server": reach(self.found, share),
                "path": share.path,
                "read_only": share.read_only,
                "options": [option for option in options_of(share) if option not in ("ro", "rw")],
                "capacity": share.capacity,
                "tenants": share.tenants,
            }
            for share in shares(self.found)
        ]

    def places(self, host: SiteHost, spec: GpuPool | None) -> list[dict[str, Any]]:
        """Return the places that check_storage looks at on a host: local ones first, since files are staged onto the first."""
        storage = self.used.get(host.name, [])
        local = {str(one.path): one.name for one in storage if one.kind == "local"}
        for name, volume in (spec.nvme if spec is not None else {}).items():
            if volume.mount not in NO_SCRATCH:
                local.setdefault(volume.mount, name)
        found = [_place(name, path, "local") for path, name in local.items()]
        mounted = [one for one in storage if one.kind == "nfs" and one.mount]
        return [*found, *(_place(one.name, str(one.mount), "nfs", reach(self.found, one), one) for one in mounted)]

    def server(self, host: SiteHost, shared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the fact of a storage server that is no node. shared: role options that are alike on all hosts."""
        address = own_address(self.found, host)
        preflight = {**shared["preflight"], "kind": "worker", "node_ip": address or "", "node_cidrs": []}
        return {
            "pool": host.pool,
            "kind": host.kind,
            "rack": host.data.rack,
            "block": host.data.topology_block,
            "node_ip": address,
            "places": [],
            "roles": {
                "preflight": preflight,
                "repositories": dict(shared["repositories"]),
                "nfs_server": self.host_roles(host)["nfs_server"],
            },
        }


def _place(name: str, path: str, kind: str, server: str = "", share: Storage | None = None) -> dict[str, Any]:
    more = {"read_only": share.read_only, "sample": share.sample or ""} if share is not None else {}
    return {"name": name, "path": path, "kind": kind, "server": server, "read_only": False, "sample": "", **more}


def storage_check(settings: StorageCheck) -> dict[str, Any]:
    """Return what check_storage does at each place, in bytes, seconds and percent."""
    return {
        "file_bytes": quantity_bytes(settings.file_size),
        "files": settings.files,
        "small_file_bytes": quantity_bytes(settings.small_file_size),
        "limit_seconds": settings.limit_seconds,
        "tolerance_percent": share_percent(settings.tolerance),
    }
