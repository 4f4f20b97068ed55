# SPDX-License-Identifier: Apache-2.0
"""The queue out of validated site data: one plan, from which come the objects of a queue system and the policy in writing. Pure.

The plan is told once for the site, not per host: a site has hundreds of queues, and thousands of hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import yaml
from ansible_collections.bedplate.metal.plugins.plugin_utils.gate import TAINT
from ansible_collections.bedplate.metal.plugins.plugin_utils.queues.words import TENANT_LABEL

from .check_queue import shares_of
from .derive_gpu import merged, tolerate
from .gather import Gathered, Pool
from .model import Site
from .model_queue import PRIORITIES, Share
from .queue_shares import CPU, DISK, DRA_RESOURCE, MEMORY, PODS, covered, gpu_resources, pool_capacity, quotas
from .versions import Versions

HOSTNAME = "kubernetes.io/hostname"
LEADER = "c1f6bfd2.kueue.x-k8s.io"
"""Name of the lease of Kueue's controllers in its own chart: another would let two of them lead during an upgrade."""
FRAMEWORKS = (
    *("batch/job", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob", "kubeflow.org/mpijob", "kubeflow.org/pytorchjob"),
    *("ray.io/rayjob", "ray.io/raycluster", "ray.io/rayservice", "leaderworkerset.x-k8s.io/leaderworkerset"),
    *("pod", "deployment", "statefulset"),
)
"""Kinds of work that Kueue holds; it waits for those whose definitions are not there."""
CONCURRENCY = {
    **{"Job.batch": 5, "Pod": 5, "Workload.kueue.x-k8s.io": 10, "LocalQueue.kueue.x-k8s.io": 5},
    **{"ClusterQueue.kueue.x-k8s.io": 5, "ResourceFlavor.kueue.x-k8s.io": 1},
}
"""As in the chart's own configuration, which ours takes the place of; also the rate of requests."""


class QueueDerivation:
    """Derives the queue plan and the options of the queue system's role."""

    def __init__(self, found: Gathered, site: Site, versions: Versions, taints: Mapping[str, list[dict[str, str]]]) -> None:
        """Settle what pools have. taints: of the nodes, by pool."""
        self.found, self.site, self.versions, self.taints = found, site, versions, taints
        used = dict.fromkeys(one.share.pool for one in shares_of(found))
        self.pools = {name: pool for name, pool in found.pools.items() if name in used and pool.spec is not None}

    def plan(self) -> dict[str, Any]:
        """Return the plan; see the module queue_objects for its keys."""
        queueing = self.site.queueing
        return {
            "enabled": bool(self.site.queues),
            "cluster": self.site.cluster.name,
            "system": queueing.system,
            "fair_sharing": queueing.fair_sharing,
            "gang": queueing.gang.model_dump(),
            "example_image": self.versions.image("agnhost", registry=self.site.cluster.image_registry),
            "flavors": [self._flavor(pool) for pool in self.pools.values()],
            "priorities": [priority.model_dump() for priority in queueing.priorities or PRIORITIES],
            "cohorts": [{**cohort.model_dump(exclude={"pools"}), **self._shares(cohort.pools)} for cohort in queueing.cohorts],
            "queues": [
                {
                    **queue.model_dump(exclude={"pools"}),
                    **self._shares(queue.pools),
                    "tenants": [tenant.name for tenant in self.site.tenants if queue.name in tenant.queues],
                }
                for queue in self.site.queues
            ],
            "tenants": [
                {**tenant.model_dump(exclude={"quota"}), "owner": tenant.owner or tenant.name} for tenant in self.site.tenants
            ],
        }

    def roles(self) -> dict[str, dict[str, Any]]:
        """Return the options of the roles that install a queue system."""
        settings = self.site.queueing.kueue
        return {
            "kueue": {
                "enabled": bool(self.site.queues),
                "namespace": settings.namespace,
                "chart": settings.chart,
                "repository": settings.repository or "",
                "version": settings.version or self.versions.of("kueue"),
                "values": merged(self._values(), settings.values),
            }
        }

    def _flavor(self, pool: Pool) -> dict[str, Any]:
        """Return what work on a pool gets: the labels that find its nodes, the tolerations, and levels of places."""
        spec = pool.spec
        assert spec is not None
        words = {key: str(getattr(spec, key)) for key in ("accelerator", "topology", "fabric")}
        hosts = [self.found.hosts[name].data for name in pool.hosts]
        places = {"block": [host.topology_block for host in hosts], "rack": [host.rack for host in hosts]}
        one = gpu_resources(spec, 1)
        return {
            "name": flavor_name(pool.name),
            "pool": pool.name,
            "accelerator": spec.accelerator,
            "sharing": spec.sharing,
            "workload": spec.workload,
            "exposure": spec.shown_by,
            "device_class": self.site.gpu.dra.driver if spec.shown_by == "dra" else None,
            "nodes": len(pool.hosts),
            "gpus": len(pool.hosts) * spec.gpus_per_node,
            "resources": gpu_resources(spec, len(pool.hosts) * spec.gpus_per_node),
            "most_per_container": dict.fromkeys(one, 1)
            if spec.sharing == "time-slicing"
            else gpu_resources(spec, spec.gpus_per_node),
            "node_labels": {
                "pool.bedplate.dev/name": pool.name,
                "pool.node-restriction.kubernetes.io/name": pool.name,
                **{f"pool.bedplate.dev/{key}": value for key, value in words.items()},
            },
            "tolerations": tolerate(self.taints[pool.name]),
            "levels": [
                *(f"topology.bedplate.dev/{level}" for level, values in places.items() if values and None not in values),
                HOSTNAME,
            ],
        }

    def _shares(self, shares: Sequence[Share]) -> dict[str, Any]:
        amounts = {share.pool: self._quotas(share) for share in shares}
        names = covered(list(amounts.values()))
        return {
            "covered": names,
            "shares": [
                {
                    **share.model_dump(include={"pool", "gpus", "borrow", "lend"}),
                    "flavor": flavor_name(share.pool),
                    "resources": {name: amounts[share.pool][name] for name in names if name in amounts[share.pool]},
                }
                for share in shares
            ],
        }

    def _quotas(self, share: Share) -> dict[str, dict[str, str]]:
        pool = self.pools[share.pool]
        assert pool.spec is not None
        found = quotas(share, pool.spec, pool_capacity(self.found, pool))
        return {name: {key: value for key, value in asdict(quota).items() if value is not None} for name, quota in found.items()}

    def _values(self) -> dict[str, Any]:
        """Return the chart's values: where the controller runs, its image as the site names registries, its configuration."""
        repository, _colon, tag = self.versions.image("kueue", registry=self.site.cluster.image_registry).rpartition(":")
        control_plane = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
        configuration = merged(self._configuration(), self.site.queueing.kueue.config)
        return {
            "kubernetesClusterDomain": self.site.cluster.domain,
            "controllerManager": {
                "nodeSelector": {"pool.bedplate.dev/name": "system"},
                # Before nodes are accepted: the gate comes at the end of the run that installs it.
                "tolerations": [control_plane, {"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}],
                "manager": {"image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"}},
            },
            "managerConfig": {"controllerManagerConfigYaml": yaml.safe_dump(configuration, sort_keys=True)},
        }

    def _configuration(self) -> dict[str, Any]:
        """Return Kueue's Configuration (apis/config/v1beta2 of its module)."""
        queueing = self.site.queueing
        gang = queueing.gang
        retries = {} if gang.retries is None else {"backoffLimitCount": gang.retries}
        names = {name for pool in self.pools.values() if pool.spec for name in gpu_resources(pool.spec, 1)}
        fair = {
            "fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]},
            "admissionFairSharing": {
                "usageHalfLifeTime": "168h",
                "usageSamplingInterval": "5m",
                "resourceWeights": {**dict.fromkeys((CPU, MEMORY, DISK, PODS), 0), **dict.fromkeys(sorted(names), 1)},
            },
        }
        # What a queue does not cover is not counted; unknown to it, it would keep work waiting for ever.
        resources: dict[str, Any] = {"quotaCheckStrategy": "IgnoreUndeclared"}
        if DRA_RESOURCE in names:
            driver = self.site.gpu.dra.driver
            resources["deviceClassMappings"] = [{"name": DRA_RESOURCE, "deviceClassNames": [driver]}]
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": ":8081"},
            "metrics": {"bindAddress": ":8443", "enableClusterQueueResources": True},
            "webhook": {"port": 9443},
            "leaderElection": {"leaderElect": True, "resourceName": LEADER},
            "controller": {"groupKindConcurrency": CONCURRENCY},
            "clientConnection": {"qps": 300, "burst": 500},
            "manageJobsWithoutQueueName": True,
            "managedJobsNamespaceSelector": {"matchExpressions": [{"key": TENANT_LABEL, "operator": "Exists"}]},
            "waitForPodsReady": {
                "timeout": f"{gang.timeout_seconds}s",
                "blockAdmission": gang.one_at_a_time,
                "requeuingStrategy": {"timestamp": "Eviction", **retries},
            },
            "integrations": {"frameworks": list(FRAMEWORKS)},
            "resources": resources,
            **(fair if queueing.fair_sharing else {}),
        }


def flavor_name(pool: str) -> str:
    """Return the name of a pool's flavor."""
    return pool.replace("_", "-")
