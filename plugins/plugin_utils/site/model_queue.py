# SPDX-License-Identifier: Apache-2.0
"""Site data of the queue: who may use which GPUs, what is shared, and what decides where it is not enough for all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from .model_gpu import ChartSource
from .types import Label, LabelValue, Prose, Quantity, Shape, Text, Url

Gpus = Annotated[int, Field(ge=0)]
Weight = Annotated[float, Field(gt=0, le=1000, strict=False, allow_inf_nan=False)]
PriorityValue = Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000)]


class Share(Shape):
    """GPUs of a pool that belong to a queue, or to all queues of a cohort; CPUs and memory go with them."""

    pool: Text
    """Name of the pool."""
    gpus: Gpus
    """GPUs it owns there: whole ones, also where the pool shares them out by MIG or time."""
    borrow: Gpus | None = None
    """GPUs it may borrow at most; left out, no limit."""
    lend: Gpus | None = None
    """GPUs of its own that it lends at most; left out, all it does not use."""
    cpus: Annotated[int, Field(ge=0)] | None = None
    """CPUs that go with the GPUs; left out, as large a part of the pool's as of its GPUs."""
    memory: Quantity | None = None
    """Memory that goes with the GPUs; left out, as large a part of the pool's as of its GPUs."""
    ephemeral_storage: Quantity | None = None
    """Disk of the nodes for containers and their logs; left out, it is not counted."""

    def broken(self) -> Iterator[tuple[str, str]]:
        """Refuse to lend more than is owned."""
        if self.lend is not None and self.lend > self.gpus:
            yield "lend", f"more than it owns (gpus: {self.gpus})"


class Queue(Shape):
    """A queue that work is submitted to."""

    name: Label
    """Name of the queue."""
    cohort: Label | None = None
    """Queues of one cohort lend each other what they do not use."""
    pools: Annotated[list[Share], Field(min_length=1)]
    """Shares of pools, the one to try first in front."""
    reclaim: Literal["never", "lower-priority", "any"] = "any"
    """Whose borrowed GPUs in the cohort the queue takes back when it needs its own: nobody's, those of work with a lower
    priority, or anybody's."""
    preempt: Literal["never", "lower-priority"] = "lower-priority"
    """Whether work in the queue stops work of a lower priority in the same queue."""
    strategy: Literal["best-effort", "strict"] | None = None
    """strict: what does not fit holds up all that came after it; left out, what Kueue has (best-effort), or what somebody
    set there."""
    weight: Weight | None = None
    """With fair_sharing, how much of what is borrowed it gets beside others; left out, 1, or what somebody set in Kueue."""
    longest_wait_seconds: Annotated[int, Field(ge=1)] | None = None
    """How long work that fits into the queue's own share may wait at most; the policy says so, and the report names what
    waited longer."""


class Cohort(Shape):
    """Queues that lend to each other, below other such cohorts."""

    name: Label
    """Name, as queues give it."""
    parent: Label | None = None
    """Cohort it borrows from and lends to."""
    weight: Weight | None = None
    """With fair_sharing, how much of what is borrowed from the parent it gets beside others."""
    pools: list[Share] = Field(default=[])
    """GPUs that belong to all of its queues together; borrow and lend are towards the parent."""


class Priority(Shape):
    """How urgent work may say it is."""

    name: Label
    """Name that a manifest gives."""
    value: PriorityValue
    """The higher the sooner; work that names no priority has 0."""
    description: Prose = "For work that the team itself puts there."
    """When to use it, for the policy."""


class Gang(Shape):
    """All pods of a workload start, or none."""

    timeout_seconds: Annotated[int, Field(ge=5)] = 300
    """How long an admitted workload may take until all of its pods run; then all of it goes back to the queue."""
    retries: Annotated[int, Field(ge=0)] | None = None
    """How often it is tried again before it is put aside; left out, as long as it takes."""
    one_at_a_time: bool = False
    """Admit the next workload only when all pods of the one before run."""


class Kueue(ChartSource):
    """Kueue, for queueing.system kueue."""

    repository: Url | None = None
    """Address of an HTTP chart repository; null where chart is an OCI reference or a directory on the controller."""
    chart: Text = "oci://registry.k8s.io/kueue/charts/kueue"
    """Name of the chart in the repository, an OCI reference, or a directory on the controller."""
    version: Text | None = None
    """Version of the chart; left out, the one of versions.yml."""
    namespace: Label = "kueue-system"
    """Namespace of Kueue's controller."""
    config: dict[str, Any] = Field(default={})
    """Fields of Kueue's Configuration (config.kueue.x-k8s.io/v1beta2) that win over Bedplate's."""


PRIORITIES = (
    Priority(name="high", value=1000, description="For work that somebody waits for."),
    Priority(name="normal", value=0, description="For everything else."),
    Priority(name="low", value=-1000, description="For work that may be stopped for any other."),
)
"""Those of a site that writes none."""


class Queueing(Shape):
    """What puts work into order where there are queues."""

    system: Literal["kueue"] = "kueue"
    """The one queue system of the cluster."""
    fair_sharing: bool = True
    """Divide what is borrowed by weights instead of by who came first."""
    gang: Gang = Gang()
    """All pods of a workload start, or none."""
    priorities: list[Priority] | None = None
    """How urgent work may say it is; left out, high (1000), normal (0) and low (-1000)."""
    cohorts: list[Cohort] = Field(default=[])
    """Cohorts that have a parent, a weight or GPUs of their own; one that queues merely name needs no entry."""
    kueue: Kueue = Kueue()
    """Kueue."""


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
    """Groups of the identity provider whose members belong to the team; they may see the queues and why their work waits."""
    queues: list[Text] = Field(default=[])
    """Queues the team may submit to."""
    priorities: Annotated[list[Text], Field(min_length=1)] | None = None
    """Priorities its manifests may name; left out, all."""
    quota: TenantQuota = TenantQuota()
    """Limits of the namespace."""


TENANT_NOT_USED_YET = ("quota",)
"""Keys of a tenant that are checked and kept for what is to come; the reference says so."""
