# SPDX-License-Identifier: Apache-2.0
"""Hosts that serve and mount shares: nfs-utils, mount and /proc in small."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ansible_collections.bedplate.metal.plugins.module_utils.core import Outcome, Policy, execute
from ansible_collections.bedplate.metal.plugins.module_utils.fstab import FSTAB, fields
from ansible_collections.bedplate.metal.plugins.module_utils.host import Result
from ansible_collections.bedplate.metal.plugins.module_utils.mounts import MOUNTINFO
from ansible_collections.bedplate.metal.plugins.module_utils.nfs_client import NfsClient
from ansible_collections.bedplate.metal.plugins.module_utils.nfs_exports import FILE, TABLE
from ansible_collections.bedplate.metal.plugins.module_utils.nfs_server import SERVICE, SETTINGS, THREADS, NfsServer
from ansible_collections.bedplate.metal.plugins.modules import nfs_client as client_module
from ansible_collections.bedplate.metal.plugins.modules import nfs_server as server_module
from fixtures_host import RecordedNetwork, debian
from interrupted import Case
from simulated_commands import WANTS, systemctl

from recorded_host import RecordedHost

ROOT_MOUNT = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
DATA: dict[str, Any] = {
    "name": "data",
    "server": "10.0.0.5",
    "path": "/srv/data",
    "mount": "/data",
    "options": ["vers=4.2", "rw"],
}
CODE: dict[str, Any] = {
    "name": "code",
    "server": "store.example",
    "path": "/code",
    "mount": "/mnt/code",
    "options": ["vers=3", "ro"],
}
EXPORT: dict[str, Any] = {"name": "data", "path": "/srv/data", "clients": ["10.0.0.21", "10.0.0.22"]}
OTHER: dict[str, Any] = {"name": "code", "path": "/srv/code", "clients": ["10.0.0.0/24"], "read_only": True, "root_squash": False}


def with_defaults(specification: dict[str, Any], shares: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    options = specification["shares"]["options"]
    defaults = {name: option["default"] for name, option in options.items() if "default" in option}
    return [{**defaults, **share} for share in shares]


def client_desired(*shares: dict[str, Any]) -> Any:
    shares_in_full = with_defaults(client_module.ARGUMENT_SPEC, shares)
    return client_module.build_desired({"shares": shares_in_full, "lock_timeout_seconds": 0})


def server_desired(*shares: dict[str, Any], threads: int = 64) -> Any:
    shares_in_full = with_defaults(server_module.ARGUMENT_SPEC, shares)
    return server_module.build_desired({"shares": shares_in_full, "threads": threads, "lock_timeout_seconds": 0})


class ClientMachine:
    """A host that mounts. links: of processes, as find prints them. refuses: what mount says then."""

    def __init__(self, fstab: str = "UUID=1234-abcd / ext4 errors=remount-ro 0 1\n") -> None:
        self.network = RecordedNetwork()
        self.host = debian(**{FSTAB: fstab, MOUNTINFO: ROOT_MOUNT})
        self.host.repository["nfs-common"] = ["1:2.6.2"]
        self.host.installs["nfs-common"] = lambda host: host.files.update({"/usr/sbin/mount.nfs": ""})
        self.links = "/proc/1/ns/mnt\tmnt:[1]\n"
        self.refuses = ""
        self.devices = 40
        for name in ("mount", "umount", "find"):
            self.host.on(name, getattr(self, f"_{name}"))
        self.host.on("mkdir", lambda host, argv, stdin: Result(0))

    def run(self, *shares: dict[str, Any], **policy: Any) -> Outcome:
        return execute(NfsClient(self.network), self.host, client_desired(*shares), Policy(**policy))

    def mounted(self) -> dict[str, str]:
        """Sources by path, the system's own left out."""
        lines = [line.split() for line in self.host.files[MOUNTINFO].splitlines()[1:]]
        return {words[4]: words[-2] for words in lines}

    def _mount(self, host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        if self.refuses:
            return Result(32, "", self.refuses)
        (line,) = [line for line in host.files[FSTAB].splitlines() if fields(line)[1:2] == [argv[-1]]]
        source, path, _kind, options = fields(line)[:4]
        kind = "nfs" if "vers=3" in options else "nfs4"
        host.changing()
        self.devices += 1
        host.files[MOUNTINFO] += f"{self.devices} 22 0:{self.devices} / {path} rw,noatime - {kind} {source} rw\n"
        return Result(0)

    def _umount(self, host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        host.changing()
        lines = host.files[MOUNTINFO].splitlines(keepends=True)
        host.files[MOUNTINFO] = "".join(line for line in lines if line.split()[4] != argv[-1])
        return Result(0)

    def _find(self, host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        return Result(1, self.links, "find: '/proc/77/fd': No such file or directory")


class ServerMachine:
    """A host that serves: exportfs keeps its table, the server its threads."""

    def __init__(self, **files: str) -> None:
        self.host = debian(**{MOUNTINFO: ROOT_MOUNT, **files})
        self.host.repository["nfs-kernel-server"] = ["1:2.6.2"]
        self.host.installs["nfs-kernel-server"] = self._installed
        self.host.on("exportfs", self._exportfs)
        self.host.on("systemctl", self._systemctl)
        self.host.on("rpc.nfsd", self._threads)
        self.host.on("install", self._install)

    def run(self, *shares: dict[str, Any], threads: int = 64, **policy: Any) -> Outcome:
        return execute(NfsServer(), self.host, server_desired(*shares, threads=threads), Policy(**policy))

    def opened(self, device: str, address: str = "10.0.0.21:812") -> None:
        """A client has a file open on a device, as nfsd says it."""
        major, minor = (int(part) for part in device.split(":"))
        state = f'- 0x01: {{ type: open, access: r-, deny: --, superblock: "{major:02x}:{minor:02x}:77", filename: "a/b" }}\n'
        self.host.files["/proc/fs/nfsd/clients/4/states"] = state
        self.host.files["/proc/fs/nfsd/clients/4/info"] = f'clientid: 0x1\naddress: "{address}"\nname: "Linux NFSv4.2 w1"\n'

    def _installed(self, host: RecordedHost) -> None:
        host.files.update({"/usr/sbin/exportfs": "", f"{WANTS}/{SERVICE}.service": ""})
        host.services[SERVICE] = "active"
        self._started(host)

    def _started(self, host: RecordedHost) -> None:
        found = re.search(r"threads=(\d+)", host.files.get(SETTINGS, ""))
        host.files[THREADS] = f"{found[1] if found else 8}\n"
        host.files[TABLE] = self._wanted(host)

    def _wanted(self, host: RecordedHost) -> str:
        rows = [line.split() for line in host.files.get(FILE, "").splitlines() if line.startswith("/")]
        return "".join(f"{row[0]}\t{client}({row[1][1:]},wdelay,hide,sec=sys)\n" for row in rows for client in row[2:])

    def _exportfs(self, host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        host.changing()
        if argv[1] == "-ra":
            host.files[TABLE] = self._wanted(host)
            return Result(0)
        client, _colon, path = argv[2].rpartition(":")
        lines = host.files[TABLE].splitlines(keepends=True)
        host.files[TABLE] = "".join(line for line in lines if not line.startswith(f"{path}\t{client.strip('[]')}("))
        return Result(0)

    def _systemctl(self, host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        result = systemctl(host, argv, stdin)
        if argv[1] == "start" and SERVICE in argv[2] and host.services.get(SERVICE) == "active":
            self._started(host)
        return result

    def _threads(self, host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        host.changing()
        host.files[THREADS] = f"{argv[1]}\n"
        return Result(0)

    def _install(self, host: RecordedHost, argv: Sequence[str], stdin: str | None) -> Result:
        host.changing()
        host.files[f"{argv[-1]}/."] = ""
        return Result(0)


def mounting_host() -> ClientMachine:
    machine = ClientMachine()
    machine.run(DATA, CODE)
    machine.host.commands.clear()
    return machine


def serving_host() -> ServerMachine:
    machine = ServerMachine()
    machine.run(EXPORT, OTHER)
    machine.host.commands.clear()
    return machine


def _client_case(name: str, make: Any, *shares: dict[str, Any], **policy: Any) -> Case:
    """A case whose component speaks to the network of the host it was made for."""
    made: list[ClientMachine] = []

    def host() -> RecordedHost:
        made.append(make())
        return made[-1].host

    return Case(name, lambda: NfsClient(made[-1].network), lambda: client_desired(*shares), host, Policy(**policy))


OTHERWISE = {**DATA, "options": ["vers=4.1", "rw"]}

CASES = [
    _client_case("nfs_client", ClientMachine, DATA, CODE),
    _client_case("nfs_client otherwise", mounting_host, OTHERWISE),
    _client_case("nfs_client no more", mounting_host),
    Case("nfs_server", NfsServer, lambda: server_desired(EXPORT, OTHER), lambda: ServerMachine().host),
    Case("nfs_server otherwise", NfsServer, lambda: server_desired(OTHER, threads=8), lambda: serving_host().host),
    Case("nfs_server no more", NfsServer, server_desired, lambda: serving_host().host),
]
