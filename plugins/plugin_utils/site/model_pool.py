# SPDX-License-Identifier: Apache-2.0
"""Site data of a pool of GPU nodes, in the operator's words. It becomes labels, taints, flavors, quotas and cost tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from .model_fabric import RDMA_FABRICS, Nic, RdmaStack
from .model_gpu import AcceleratorName, CudaVersion, Driver, Exposure, MigProfileName, Sharing
from .model_host import Distribution
from .model_kernel import PoolKernel
from .types import CountOrPercent, LabelKey, LabelValue, Percent, Quantity, Shape, Text, matching, share_percent
from .types_host import MountPoint, VolumeName

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
CpuList = Annotated[
    str,
    AfterValidator(
        matching(
            r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*", 'must be a list of CPU numbers and ranges in quotes, for example "0-3,64-67"'
        )
    ),
]


class Disks(Shape):
    """Which disks are meant: by serial numbers or by a rule, never by device name (those change at boot)."""

    serials: list[Text] = Field(default=[])
    """Serial numbers."""
    min_size: Quantity | None = None
    """Every blank NVMe disk of at least this size."""
    model: Text | None = None
    """Every blank NVMe disk whose model contains this."""
    count: Annotated[int, Field(ge=1)] | None = None
    """How many disks the rule must find; another number is refused. Left out, as many as there are."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse disks that nothing describes."""
        if not self.serials and self.min_size is None and self.model is None:
            yield "", "names no disk: give serials, or a rule (min_size, model)"
        rule = (self.min_size, self.model) != (None, None)
        if self.serials and (rule or self.count is not None):
            yield "", "gives serials and a rule: one of the two"


class Volume(Shape):
    """A local volume over NVMe disks."""

    disks: Disks
    """The disks."""
    layout: Literal["single", "raid0", "raid1", "raid10", "lvm"] = "single"
    """How they are joined; lvm stripes over them."""
    filesystem: Literal["xfs", "ext4"] = "xfs"
    """File system made on the volume."""
    mount: MountPoint
    """Where it is mounted; /var/lib/containerd for the image store."""


class Reserved(Shape):
    """What the operating system and Kubernetes keep for themselves."""

    cpus: CpuList | None = None
    """CPUs kept off pods, as a list in quotes, for example "0-3,64-67"."""
    memory: Quantity | None = None
    """Memory kept off pods, for example "16Gi"."""


class PoolKubelet(Shape):
    """Resource managers of the pool's kubelets."""

    cpu_manager: Literal["none", "static"] = "none"
    """static: whole CPUs for pods of class Guaranteed."""
    memory_manager: Literal["None", "Static"] = "None"
    """Static: memory pinned to NUMA nodes; needs reserved.memory."""
    topology_manager: Literal["none", "best-effort", "restricted", "single-numa-node"] = "none"
    """How strictly CPUs, memory and devices must share a NUMA node."""
    reserved: Reserved = Reserved()
    """CPUs and memory kept off pods."""
    config: dict[str, Any] = Field(default={})
    """More fields of KubeletConfiguration for this pool alone."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse managers without what they need."""
        if self.cpu_manager == "static" and self.reserved.cpus is None:
            yield "cpu_manager", "cpu_manager static needs reserved.cpus: the kubelet refuses to start without reserved CPUs"
        if self.memory_manager == "Static" and self.reserved.memory is None:
            yield "memory_manager", "memory_manager Static needs reserved.memory"


class Taint(Shape):
    """A taint of every node of the pool."""

    key: LabelKey
    """Key of the taint."""
    value: LabelValue | None = None
    """Value of the taint."""
    effect: Effect
    """What happens to pods that do not tolerate it."""


class Upgrade(Shape):
    """How rolling work goes through the pool."""

    canary: Annotated[int, Field(ge=0)] = 1
    """Nodes done first, alone."""
    waves: Annotated[list[Percent], Field(min_length=1)] = Field(default=["25%", "100%"])
    """Cumulative shares of the pool to finish before the next begins; the last is "100%"."""
    max_unavailable: CountOrPercent = 1
    """Most nodes out at once: a count, or a share in quotes."""
    failure_budget: Annotated[int, Field(ge=0)] = 0
    """Failed nodes after which the work halts."""
    drain_timeout_seconds: Annotated[int, Field(ge=1)] = 1800
    """How long a node's pods may take to leave."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse waves that do not rise to the whole pool."""
        shares = [share_percent(wave) or 0 for wave in self.waves]
        if shares != sorted(set(shares)) or shares[-1] != 100:
            yield "waves", 'waves are cumulative: each share larger than the one before, the last "100%"'


class PoolCost(Shape):
    """What the pool costs."""

    gpu_hour: Annotated[float, Field(ge=0, strict=False)]
    """Price of one GPU for one hour, in the site's currency."""
    owner: LabelValue
    """Team that pays."""


class GpuPool(Shape):
    """A pool: an inventory group directly under gpu_nodes, whose hosts are alike."""

    accelerator: AcceleratorName
    """GPU model and memory, for example h100-80gb."""
    gpus_per_node: Annotated[int, Field(ge=1, le=72)]
    """GPUs in every node."""
    topology: LabelValue
    """How the GPUs are joined, for example 8gpu-sxm-nvlink or 4gpu-pcie."""
    fabric: Literal["infiniband", "roce", "ethernet"]
    """Network between nodes."""
    workload: Literal["distributed-training", "inference", "dev"]
    """What the pool is for; training and inference live in pools of their own."""
    mixed_gpus: bool = False
    """Accept hosts with GPUs of more than one model."""
    exposure: Exposure | None = None
    """How Kubernetes gets to see the GPUs, one way per pool: NVIDIA's operator, its device plugin alone, a DRA driver, or
    none; left out, operator where there is a driver and none where not."""
    sharing: Sharing = "full-gpu"
    """How a GPU is shared out."""
    mig: Annotated[dict[MigProfileName, Annotated[int, Field(ge=1)]], Field(min_length=1)] | None = None
    """With sharing mig: instances per GPU by profile, for example {1g.10gb: 7}."""
    mig_strategy: Literal["single", "mixed"] = "mixed"
    """With sharing mig: mixed advertises a resource per profile (nvidia.com/mig-1g.10gb); single, with one profile alone,
    advertises its instances as nvidia.com/gpu."""
    time_slices: Annotated[int, Field(ge=2)] | None = None
    """With sharing time-slicing: pods per GPU."""
    cpus: Annotated[int, Field(ge=1)] | None = None
    """CPUs (hardware threads) per node; the preflight report compares them."""
    numa_nodes: Annotated[int, Field(ge=1)] | None = None
    """NUMA nodes with CPUs per node."""
    memory: Quantity | None = None
    """Memory installed per node, for example "2Ti"; the preflight report compares it."""
    os: Distribution | None = None
    """Operating system of the pool's hosts, one of preflight.distributions; left out, any of them."""
    kernel: PoolKernel | None = None
    """The kernel of the pool's hosts, on top of the section kernel and winning over it; a text in quotes is its version alone."""
    driver: Driver | None = None
    """NVIDIA driver."""
    cuda: CudaVersion | None = None
    """CUDA version the pool's images are built for, in quotes, for example "13.0"."""
    nics: list[Nic] = Field(default=[])
    """Network cards of every node; the preflight report looks for each by its name, else by fabric and speed."""
    rdma_stack: RdmaStack = RdmaStack()
    """Drivers and tools of RDMA."""
    nvme: dict[VolumeName, Volume] = Field(default={})
    """Local volumes by name, for example scratch."""
    kubelet: PoolKubelet = PoolKubelet()
    """Resource managers of the kubelet."""
    taints: list[Taint] | None = None
    """Taints of the nodes; left out, pool.bedplate.dev/name=<pool>:NoSchedule; [] for none."""
    upgrade: Upgrade = Upgrade()
    """How rolling work goes through the pool."""
    cost: PoolCost | None = None
    """What the pool costs."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse keys that contradict each other."""
        if self.kubelet.memory_manager == "Static" and self.numa_nodes is None:
            yield "numa_nodes", "kubelet.memory_manager Static needs numa_nodes: the memory kept off pods is divided among them"
        match = re.match(r"([0-9]+)gpu\b", self.topology)
        if match and int(match[1]) != self.gpus_per_node:
            yield "topology", f"topology {self.topology} does not go with gpus_per_node {self.gpus_per_node}"
        if (self.sharing == "mig") != (self.mig is not None):
            yield "sharing", "mig and sharing: mig go together"
        if self.mig is not None and self.mig_strategy == "single" and len(self.mig) != 1:
            yield "mig_strategy", "mig_strategy single advertises instances of one profile; use mixed for several"
        if (self.sharing == "time-slicing") != (self.time_slices is not None):
            yield "sharing", "time_slices and sharing: time-slicing go together"

    @property
    def rdma(self) -> bool:
        """True where pods may use RDMA: by the fabric between nodes, or by a card of another one."""
        return self.fabric in RDMA_FABRICS or any(nic.rdma for nic in self.nics)

    @property
    def shown_by(self) -> str:
        """How Kubernetes gets to see the GPUs: exposure, or what it means when left out."""
        return self.exposure or ("operator" if self.driver is not None else "none")


NOT_USED_YET = ("cost",)
"""Keys that describe a pool's nodes for what is to come; the reference says so."""
