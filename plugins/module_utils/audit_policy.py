# SPDX-License-Identifier: Apache-2.0
"""Rules of the API server's audit policy (audit.k8s.io/v1) where none are given.

Who read or changed a secret is noted without its content; routine reads of the system's own components are left out; every other
change is noted with its request.
"""

from __future__ import annotations

from typing import Any

_SECRET_RESOURCES = [
    {"group": "", "resources": ["secrets", "configmaps", "serviceaccounts/token"]},
    {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
    {"group": "certificates.k8s.io", "resources": ["certificatesigningrequests"]},
]

DEFAULT_RULES: list[dict[str, Any]] = [
    {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/version", "/metrics", "/openapi/*"]},
    {"level": "None", "resources": [{"group": "", "resources": ["events"]}, {"group": "events.k8s.io", "resources": ["events"]}]},
    {
        "level": "None",
        "users": ["system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy", "system:apiserver"],
        "verbs": ["get", "list", "watch"],
    },
    {"level": "None", "userGroups": ["system:nodes"], "verbs": ["get", "list", "watch"]},
    {"level": "None", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
    {"level": "Metadata", "resources": _SECRET_RESOURCES},
    {"level": "Metadata", "verbs": ["get", "list", "watch"]},
    {"level": "Request", "omitStages": ["RequestReceived"]},
]
