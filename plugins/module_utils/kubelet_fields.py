# SPDX-License-Identifier: Apache-2.0
"""The names of KubeletConfiguration's fields.

Kubelet ignores a field it does not know in a drop-in directory without a word (it is strict only with config.yaml), so a
misspelt setting would never take effect; it is refused here instead.
Source: Kubernetes 1.36, staging/src/k8s.io/kubelet/config/v1beta1/types.go.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_NAMES = """
    address allowedUnsafeSysctls authentication authorization cgroupDriver cgroupRoot cgroupsPerQOS clusterDNS clusterDomain
    configMapAndSecretChangeDetectionStrategy containerLogMaxFiles containerLogMaxSize containerLogMaxWorkers
    containerLogMonitorInterval containerRuntimeEndpoint contentType cpuCFSQuota cpuCFSQuotaPeriod cpuManagerPolicy
    cpuManagerPolicyOptions cpuManagerReconcilePeriod crashLoopBackOff enableContentionProfiling
    enableControllerAttachDetach enableDebugFlagsHandler enableDebuggingHandlers enableProfilingHandler enableServer
    enableSystemLogHandler enableSystemLogQuery enforceNodeAllocatable eventBurst eventRecordQPS evictionHard
    evictionMaxPodGracePeriod evictionMinimumReclaim evictionPressureTransitionPeriod evictionSoft evictionSoftGracePeriod
    failCgroupV1 failSwapOn featureGates fileCheckFrequency hairpinMode healthzBindAddress healthzPort httpCheckFrequency
    imageGCHighThresholdPercent imageGCLowThresholdPercent imageMaximumGCAge imageMinimumGCAge
    imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit iptablesMasqueradeBit kernelMemcgNotification
    kubeAPIBurst kubeAPIQPS kubeReserved kubeReservedCgroup kubeletCgroups localStorageCapacityIsolation logging
    makeIPTablesUtilChains maxOpenFiles maxParallelImagePulls maxPods memoryManagerPolicy memoryReservationPolicy memorySwap
    memoryThrottlingFactor mergeDefaultEvictionSettings nodeLeaseDurationSeconds nodeStatusMaxImages nodeStatusReportFrequency
    nodeStatusUpdateFrequency oomScoreAdj podCIDR podLogsDir podPidsLimit podsPerCore port preloadedImagesVerificationAllowlist
    protectKernelDefaults providerID qosReserved readOnlyPort registerNode registerWithTaints registryBurst registryPullQPS
    reservedMemory reservedSystemCPUs resolvConf rotateCertificates runOnce runtimeRequestTimeout seccompDefault
    serializeImagePulls serverTLSBootstrap showHiddenMetricsForVersion shutdownGracePeriod shutdownGracePeriodByPodPriority
    shutdownGracePeriodCriticalPods singleProcessOOMKill staticPodPath staticPodURL staticPodURLHeader
    streamingConnectionIdleTimeout syncFrequency systemCgroups systemReserved systemReservedCgroup tlsCertFile tlsCipherSuites
    tlsCurvePreferences tlsMinVersion tlsPrivateKeyFile topologyManagerPolicy topologyManagerPolicyOptions topologyManagerScope
    tracing userNamespaces volumePluginDir volumeStatsAggPeriod
"""
FIELDS = frozenset(_NAMES.split())


def unknown_fields(names: Iterable[str]) -> list[str]:
    """Return a sentence for each name that is no field, with the nearest one that is."""
    sentences = []
    for name in sorted(set(names) - FIELDS - {"apiVersion", "kind"}):
        near = difflib.get_close_matches(name, FIELDS, n=1)
        sentences.append(f"{name} is no field of KubeletConfiguration" + (f"; did you mean {near[0]}?" if near else ""))
    return sentences
