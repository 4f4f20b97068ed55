# SPDX-License-Identifier: Apache-2.0
"""Names of what Bedplate writes into a cluster for its queues."""

from __future__ import annotations

TENANT_LABEL = "bedplate.dev/tenant"
"""On a tenant's namespace and what is in it: work there names a queue or is held."""
OWNER_LABEL = "bedplate.dev/owner"
"""Who pays."""
POOL_LABEL = "bedplate.dev/pool"
PRIORITIES = "bedplate.dev/priorities"
"""Annotation of a tenant's namespace: the priorities its work may name, with commas between."""
POLICY = "bedplate-queue-policy"
"""ConfigMap in each tenant's namespace."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
