# SPDX-License-Identifier: Apache-2.0
"""Site data of the hosts: packages, registries, clock, runtime, preflight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from ansible_collections.bedplate.metal.plugins.module_utils.containerd_config import extra_settings
from pydantic import Field, SecretStr, field_validator

from .model_fabric import InterfaceAddress, NicName
from .types import FileName, IpAddress, LabelValue, Pem, Shape, SigningKey, Text, Url, Word
from .types_host import PackageName, PackageVersion, RegistryName, Server, VolumeName

Distribution = Literal["debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04"]


class Repository(Shape):
    """A signed apt repository."""

    name: FileName
    """Short name; the source's file is /etc/apt/sources.list.d/bedplate-<name>.sources."""
    uris: Annotated[list[Url], Field(min_length=1)]
    """Where the repository is."""
    suites: Annotated[list[Word], Field(min_length=1)]
    """Suites, for example [bookworm]; a flat repository has ["/"]."""
    components: list[Word] = Field(default=[])
    """Components, for example [main]; none for a flat repository."""
    signing_key: SigningKey
    """The public key the repository is signed with, ASCII-armoured."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse a mixture of the two layouts of apt repositories."""
        flat = [suite for suite in self.suites if suite.endswith("/")]
        if flat and (self.components or len(flat) < len(self.suites)):
            yield "", f"suite {flat[0]} ends in a slash: such a flat repository has no components and no other suites"
        if not flat and not self.components:
            yield "", "needs components, or a suite that ends in a slash (a flat repository)"


class Authority(Shape):
    """A certificate authority that hosts trust."""

    name: FileName
    """Short name; the file is /usr/local/share/ca-certificates/bedplate-<name>.crt."""
    pem: Pem
    """The authority's certificate."""


class Packages(Shape):
    """Where packages come from."""

    repositories: list[Repository] = Field(default=[])
    """Repositories the hosts use."""
    exclusive: bool = False
    """Use these repositories alone; sources found on the host are set aside."""
    authorities: list[Authority] = Field(default=[])
    """Certificate authorities of repositories, registries and proxies."""
    kubernetes_revision: PackageVersion = "1.1"
    """Package revision behind Kubernetes' version (1.36.3-1.1 at pkgs.k8s.io)."""


class Mirror(Shape):
    """A place that serves a registry's images."""

    url: Url
    """Address of the mirror, with its path where it has one."""
    ca: Pem | None = None
    """Certificate authority of the mirror; left out, those the host trusts."""
    override_path: bool = False
    """The address already holds the API's path (/v2/...), as with one mirror for many registries."""
    username: Text | None = None
    """User at the mirror."""
    password: SecretStr | None = None
    """Password at the mirror; keep it in an encrypted file or a lookup."""
    skip_verify: bool = False
    """Take any certificate; ca is the better way."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse half a credential."""
        if (self.username is None) != (self.password is None):
            yield "", "needs username and password together, or neither"


class Registry(Shape):
    """An upstream image registry and the mirrors tried in its place."""

    host: RegistryName
    """Name of the registry as images are named by it, for example docker.io."""
    mirrors: Annotated[list[Mirror], Field(min_length=1)]
    """Mirrors in the order they are tried."""
    fallback: bool = True
    """Ask the registry itself when no mirror answers."""


class Time(Shape):
    """The hosts' clock."""

    servers: list[Server] = Field(default=[])
    """NTP servers (names or addresses). The offset is measured against them, and where service_required says so chrony is
    installed and takes the time from them alone. None: the clock is not measured, and whatever keeps it stays."""
    max_offset_seconds: Annotated[int, Field(ge=1)] = 5
    """Largest offset accepted before a host joins."""
    service_required: bool = True
    """Whether a host must run a time service; false where something else keeps its clock."""


class ContainerRuntime(Shape):
    """containerd."""

    package: PackageName = "containerd"
    """Package that brings containerd (containerd.io in Docker's repository)."""
    version: PackageVersion | None = None
    """Exact package version, in quotes; left out, the repository's candidate."""
    runc_package: PackageName | None = "runc"
    """Package that brings runc; null where containerd's package carries it."""
    rdma_memlock: Text = "infinity"
    """Locked memory (infinity or bytes) of containerd and its containers in pools with an RDMA fabric."""
    restrict_oom_score_adj: bool = False
    """Do not lower a container's OOM score below containerd's own (machines that forbid it)."""
    extra_config: dict[str, Any] = Field(default={})
    """More of containerd's settings by dotted key; runtime. and images. stand for the CRI plugins in every version."""

    @field_validator("extra_config")
    @classmethod
    def _extra_config(cls, value: dict[str, Any]) -> dict[str, Any]:
        extra_settings(value)
        return value


class Preflight(Shape):
    """What a host must have before anything changes on it."""

    min_disk_bytes: Annotated[int, Field(ge=0)] = 20_000_000_000
    """Free space wanted below /var/lib on a host that is not a node yet."""
    min_memory_bytes: Annotated[int, Field(ge=0)] = 1_800_000_000
    """Memory wanted (kubeadm's own limit for a control plane is 1.7 GB)."""
    distributions: Annotated[list[Distribution], Field(min_length=1)] = Field(
        default=["debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04"]
    )
    """Operating systems accepted."""
    apt_lock_timeout_seconds: Annotated[int, Field(ge=1)] = 300
    """How long apt's lock is waited for."""


class HostData(Shape):
    """What a host itself carries in the inventory."""

    rack: LabelValue | None = None
    """Rack the host stands in, in quotes when it is a number; becomes topology.bedplate.dev/rack."""
    topology_block: LabelValue | None = None
    """Block of racks that share a switch layer; becomes topology.bedplate.dev/block."""
    node_ip: IpAddress | None = None
    """The host's address in the cluster; left out, ansible_host where that is an address out of network.node_cidrs."""
    node_ip_secondary: IpAddress | None = None
    """The host's address of the other family in a dual-stack cluster."""
    nvme_serials: dict[VolumeName, Annotated[list[Text], Field(min_length=1)]] | None = None
    """Disks of this host's volumes by serial, in the place of what the pool's nvme says, for example {scratch: [S1, S2]}."""
    nvme_wipe: list[Text] | None = None
    """Serials of disks whose content may be destroyed, in a run with -e bedplate_allow=wipe. Take it out again afterwards."""
    fabric_addresses: dict[NicName, InterfaceAddress] = Field(default={})
    """The host's addresses on the cards of its pool, by the card's name, for example {rail0: 10.88.0.11/24}."""
    fabric_devices: dict[NicName, Word] = Field(default={})
    """What a card is on this host where it is not as the pool says: interface, RDMA device, PCI address or MAC."""
    out_of_band: Literal["bmc", "serial"] | None = None
    """The other way to the host than its network. It permits to replace the driver of the card the host is reached by."""
    nfs_threads: Annotated[int, Field(ge=1, le=1024)] = 64
    """Threads of the host's NFS server, where it is one: how many calls of clients it answers at once."""
