# SPDX-License-Identifier: Apache-2.0
"""The whole of the site data: the sections an inventory's ``group_vars/all`` may hold.

The JSON schema for editors and docs/site-data.md come from these classes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .model_cluster import Cluster, KubeletSettings, KubeProxySettings, Network
from .model_gpu import Gpu
from .model_host import ContainerRuntime, Packages, Preflight, Registry, Time
from .model_kernel import Kernel
from .model_storage import Storage, StorageCheck
from .types import Label, LabelValue, Prose, Quantity, Shape, Text, Url

Money = Annotated[float, Field(ge=0, strict=False, allow_inf_nan=False)]


class Gate(Shape):
    """The checks a node passes before it takes work."""

    timeout_seconds: Annotated[int, Field(ge=10)] = 180
    """How long a node's checks may take."""


class Unsupported(Shape):
    """A combination outside a vendor's support that the site runs on purpose."""

    row: Text
    """Row of the compatibility table."""
    reason: Prose
    """Why the site runs it."""


class MonthlyCost(Shape):
    """Costs per month in the site's currency, beside those of the pools."""

    network: Money = 0
    """Switches, links, transit."""
    storage: Money = 0
    """Shared storage."""
    support: Money = 0
    """Support contracts."""
    operations: Money = 0
    """People who run the site."""


class ReferencePrice(Shape):
    """A price to compare the site's own with."""

    name: Text
    """What is compared, for example "rented H100"."""
    unit: Literal["gpu_hour", "million_tokens", "request"]
    """Unit of the price."""
    price: Money
    """Price of one unit in the site's currency."""


class Cost(Shape):
    """What the site costs."""

    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]
    """Currency of every price, as ISO 4217 names it, for example EUR."""
    monthly: MonthlyCost = MonthlyCost()
    """Costs per month."""
    reference_prices: list[ReferencePrice] = Field(default=[])
    """Prices to compare with."""


class QueuePool(Shape):
    """A queue's share of a pool."""

    pool: Text
    """Name of the pool."""
    gpus: Annotated[int, Field(ge=0)]
    """GPUs the queue owns there."""
    borrow: Annotated[int, Field(ge=0)] | None = None
    """GPUs it may borrow from its cohort at most; left out, no limit."""


class Queue(Shape):
    """A queue that work is submitted to."""

    name: Label
    """Name of the queue."""
    cohort: Label | None = None
    """Queues of one cohort lend each other what they do not use."""
    pools: Annotated[list[QueuePool], Field(min_length=1)]
    """Shares of pools."""


class TenantQuota(Shape):
    """Limits of a tenant's namespace."""

    gpus: Annotated[int, Field(ge=0)] | None = None
    """GPUs."""
    cpus: Annotated[int, Field(ge=1)] | None = None
    """CPUs."""
    memory: Quantity | None = None
    """Memory, for example "512Gi"."""
    storage: Quantity | None = None
    """Claimed storage, for example "10Ti"."""


class Tenant(Shape):
    """A team with a namespace of its own."""

    name: Label
    """Name of the team and of its namespace."""
    owner: LabelValue | None = None
    """Cost owner; left out, the team."""
    groups: list[Text] = Field(default=[])
    """Groups of the identity provider whose members belong to the team."""
    queues: list[Text] = Field(default=[])
    """Queues the team may submit to."""
    quota: TenantQuota = TenantQuota()
    """Limits of the namespace."""


class Monitor(Shape):
    """A part of monitoring."""

    name: Label
    """Name."""
    kind: Literal["prometheus", "alertmanager", "exporter", "receiver"]
    """What it is."""
    endpoint: Url | None = None
    """Address, where it runs elsewhere."""
    retention_days: Annotated[int, Field(ge=1)] | None = None
    """Days of data kept."""


class Site(Shape):
    """All sections of the site data."""

    cluster: Cluster
    """The Kubernetes cluster."""
    network: Network
    """Address ranges and the network of pods."""
    packages: Packages = Packages()
    """Where packages come from."""
    registries: list[Registry] = Field(default=[])
    """Image registries and their mirrors."""
    time: Time = Time()
    """The hosts' clock."""
    kubelet: KubeletSettings = KubeletSettings()
    """Settings of every kubelet."""
    kube_proxy: KubeProxySettings = KubeProxySettings()
    """Settings of kube-proxy."""
    container_runtime: ContainerRuntime = ContainerRuntime()
    """containerd."""
    kernel: Kernel = Kernel()
    """The hosts' kernel."""
    preflight: Preflight = Preflight()
    """What a host must have before anything changes on it."""
    gpu: Gpu = Gpu()
    """How GPUs are shown to Kubernetes."""
    gate: Gate = Gate()
    """The checks a node passes before it takes work."""
    accept_unsupported: list[Unsupported] = Field(default=[])
    """Unsupported combinations the site runs on purpose."""
    cost: Cost | None = None
    """What the site costs."""
    queues: list[Queue] = Field(default=[])
    """Queues."""
    tenants: list[Tenant] = Field(default=[])
    """Teams."""
    storage: list[Storage] = Field(default=[])
    """Places for data."""
    storage_check: StorageCheck = StorageCheck()
    """What playbooks/check_storage.yml does at each place for data, and how far below its baseline a result may be."""
    monitoring: list[Monitor] = Field(default=[])
    """Parts of monitoring."""


SECTIONS = tuple(Site.model_fields)
NOT_USED_YET = ("queues", "tenants", "monitoring", "cost")
"""Sections that are checked and kept for what is to come; validation warns where one is written."""
