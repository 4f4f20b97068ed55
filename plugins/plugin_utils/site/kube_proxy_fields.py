# SPDX-License-Identifier: Apache-2.0
"""Top-level fields of KubeProxyConfiguration; kube-proxy would ignore a misspelt one in silence.

Source: Kubernetes 1.36, staging/src/k8s.io/kube-proxy/config/v1alpha1/types.go.
"""

from __future__ import annotations

FIELDS = frozenset(
    [
        "bindAddress",
        "bindAddressHardFail",
        "clientConnection",
        "clusterCIDR",
        "configSyncPeriod",
        "conntrack",
        "detectLocal",
        "detectLocalMode",
        "enableProfiling",
        "featureGates",
        "healthzBindAddress",
        "hostnameOverride",
        "iptables",
        "ipvs",
        "logging",
        "metricsBindAddress",
        "mode",
        "nftables",
        "nodePortAddresses",
        "oomScoreAdj",
        "portRange",
        "showHiddenMetricsForVersion",
        "windowsRunAsService",
        "winkernel",
    ]
)
