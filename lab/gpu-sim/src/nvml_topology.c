/* SPDX-License-Identifier: Apache-2.0 */
/* Where a device is: PCI, NUMA, NVLink, fabric; and how it is connected to others. */
#include "nvml_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fill_pci(const struct pci *pci, const struct gpu *gpu, nvmlPciInfo_t *info)
{
    memset(info, 0, sizeof *info);
    info->domain = pci->domain;
    info->bus = pci->bus;
    info->device = pci->device;
    info->pciDeviceId = gpu ? gpu->device_id : 0;
    info->pciSubSystemId = gpu ? gpu->subsystem_id : 0;
    pci_text(pci, info->busId, sizeof info->busId);
    snprintf(info->busIdLegacy, sizeof info->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    struct target on;
    TRY(identify(device, &on));
    REQUIRE(info);
    fill_pci(&on.gpu->pci, on.gpu, info);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    return nvmlDeviceGetPciInfo_v3(device, info);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *info)
{
    return nvmlDeviceGetPciInfo_v3(device, info);
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuTopologyLevel_t *level)
{
    struct target first;
    TRY(on_gpu(one, &first));
    int numa = first.gpu->numa, index = first.handle->gpu;
    struct target second;
    TRY(on_gpu(other, &second));
    REQUIRE(level);
    if (index == second.handle->gpu)
        *level = NVML_TOPOLOGY_INTERNAL;
    else
        *level = numa == second.gpu->numa ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level, unsigned int *count,
                                                     nvmlDevice_t *devices)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(count);
    unsigned room = *count;
    *count = 0;
    for (int i = 0; i < on.state->gpu_count; i++) {
        const struct gpu *other = &on.state->gpus[i];
        if (i == on.handle->gpu || !visible(on.state, other))
            continue;
        nvmlGpuTopologyLevel_t between = other->numa == on.gpu->numa ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
        if (between != level)
            continue;
        if (devices && *count < room)
            devices[*count] = (nvmlDevice_t)gpu_handle(i);
        ++*count;
    }
    return NVML_SUCCESS;
}

/* Set the bits of a list such as 0-47,96-143. */
static void set_cpus(const char *list, unsigned long *set, unsigned words)
{
    const unsigned bits = 8 * sizeof *set;
    memset(set, 0, words * sizeof *set);
    for (const char *part = list; part && *part; part = strchr(part, ',') ? strchr(part, ',') + 1 : NULL) {
        unsigned first, last;
        int found = sscanf(part, "%u-%u", &first, &last);
        if (found < 1)
            return;
        for (unsigned cpu = first; cpu <= (found == 2 ? last : first); cpu++)
            if (cpu / bits < words)
                set[cpu / bits] |= 1UL << cpu % bits;
    }
}

EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(set && words > 0);
    if (on.gpu->numa < 0 || on.gpu->numa >= on.state->numa_count)
        return NVML_ERROR_NOT_SUPPORTED;
    set_cpus(on.state->numa_cpus[on.gpu->numa], set, words);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words, unsigned long *set,
                                                        nvmlAffinityScope_t scope)
{
    (void)scope;
    return nvmlDeviceGetCpuAffinity(device, words, set);
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set,
                                                nvmlAffinityScope_t scope)
{
    struct target on;
    (void)scope;
    TRY(on_gpu(device, &on));
    REQUIRE(set && words > 0);
    memset(set, 0, words * sizeof *set);
    if (on.gpu->numa >= 0)
        set[0] = 1UL << on.gpu->numa;
    return NVML_SUCCESS;
}

/* The link, or NOT_SUPPORTED where the GPU has none of that number. */
static nvmlReturn_t find_link(nvmlDevice_t device, unsigned number, struct target *on, const struct link **link)
{
    TRY(on_gpu(device, on));
    REQUIRE(number < NVML_NVLINK_MAX_LINKS);
    if ((int)number >= on->gpu->link_count)
        return NVML_ERROR_NOT_SUPPORTED;
    *link = &on->gpu->links[number];
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int number, nvmlEnableState_t *active)
{
    struct target on;
    const struct link *link;
    TRY(find_link(device, number, &on, &link));
    REQUIRE(active);
    /* Links to switches come up when the fabric manager has set up the switches; MIG takes them down. */
    bool up = !on.gpu->mig && (link->kind != LINK_SWITCH || on.state->fabric_ready);
    *active = up ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int number, unsigned int *version)
{
    struct target on;
    const struct link *link;
    TRY(find_link(device, number, &on, &link));
    REQUIRE(version);
    *version = (unsigned)on.gpu->nvlink_generation;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int number, nvmlNvLinkCapability_t capability,
                                                  unsigned int *result)
{
    struct target on;
    const struct link *link;
    TRY(find_link(device, number, &on, &link));
    REQUIRE(result && capability < NVML_NVLINK_CAP_COUNT);
    *result = capability == NVML_NVLINK_CAP_P2P_SUPPORTED || capability == NVML_NVLINK_CAP_P2P_ATOMICS ||
              capability == NVML_NVLINK_CAP_VALID;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int number, nvmlPciInfo_t *info)
{
    struct target on;
    const struct link *link;
    TRY(find_link(device, number, &on, &link));
    REQUIRE(info);
    const struct gpu *remote = NULL;
    for (int i = 0; i < on.state->gpu_count; i++)
        if (pci_same(&on.state->gpus[i].pci, &link->remote))
            remote = &on.state->gpus[i];
    fill_pci(&link->remote, remote, info);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int number, nvmlPciInfo_t *info)
{
    return nvmlDeviceGetNvLinkRemotePciInfo_v2(device, number, info);
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int number,
                                                        nvmlIntNvLinkDeviceType_t *type)
{
    struct target on;
    const struct link *link;
    TRY(find_link(device, number, &on, &link));
    REQUIRE(type);
    *type = link->kind == LINK_GPU ? NVML_NVLINK_DEVICE_TYPE_GPU : NVML_NVLINK_DEVICE_TYPE_SWITCH;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int number, nvmlNvLinkErrorCounter_t counter,
                                                    unsigned long long *value)
{
    struct target on;
    const struct link *link;
    TRY(find_link(device, number, &on, &link));
    REQUIRE(value && counter < NVML_NVLINK_ERROR_COUNT);
    *value = 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t index,
                                           nvmlGpuP2PStatus_t *status)
{
    struct target on;
    TRY(on_gpu(one, &on));
    bool links = on.gpu->link_count > 0 && !on.gpu->mig;
    TRY(on_gpu(other, &on));
    REQUIRE(status);
    *status = index == NVML_P2P_CAPS_INDEX_NVLINK && !links ? NVML_P2P_STATUS_NOT_SUPPORTED : NVML_P2P_STATUS_OK;
    return NVML_SUCCESS;
}

/* Only GPUs behind switches of the third generation of NVSwitch or later register with a fabric. */
static nvmlReturn_t fabric(nvmlDevice_t device, nvmlGpuFabricState_t *state, nvmlReturn_t *status)
{
    struct target on;
    TRY(on_gpu(device, &on));
    *status = NVML_SUCCESS;
    if (strcmp(on.state->fabric, "nvswitch3") != 0 && strcmp(on.state->fabric, "nvlink5") != 0)
        *state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED;
    else
        *state = on.state->fabric_ready ? NVML_GPU_FABRIC_STATE_COMPLETED : NVML_GPU_FABRIC_STATE_IN_PROGRESS;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    REQUIRE(info);
    memset(info, 0, sizeof *info);
    return fabric(device, &info->state, &info->status);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
    REQUIRE(info);
    unsigned version = info->version;
    if (version == nvmlGpuFabricInfo_v2)
        memset(info, 0, sizeof(nvmlGpuFabricInfo_v2_t));
    else if (version == nvmlGpuFabricInfo_v3)
        memset(info, 0, sizeof *info);
    else
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    info->version = version;
    TRY(fabric(device, &info->state, &info->status));
    if (version == nvmlGpuFabricInfo_v3 && info->state == NVML_GPU_FABRIC_STATE_COMPLETED)
        info->healthSummary = NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY;
    return NVML_SUCCESS;
}
