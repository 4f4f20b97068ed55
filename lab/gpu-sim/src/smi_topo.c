/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi topo -m and nvlink -s. */
#include <stdlib.h>
#include <string.h>

#include "smi.h"

#define CPU_WORDS 16
#define CPU_BITS (8 * (int)sizeof(unsigned long))

/* Links that lead from one GPU to another: to itself, or to a switch, which reaches all. */
static int links_between(const struct chosen *one, const struct chosen *other)
{
    int count = 0;
    for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
        nvmlEnableState_t active = NVML_FEATURE_DISABLED;
        nvmlIntNvLinkDeviceType_t type;
        nvmlPciInfo_t remote;
        if (CALL(nvmlDeviceGetNvLinkState)(one->device, link, &active) != NVML_SUCCESS || active != NVML_FEATURE_ENABLED ||
            CALL(nvmlDeviceGetNvLinkRemoteDeviceType)(one->device, link, &type) != NVML_SUCCESS ||
            CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2)(one->device, link, &remote) != NVML_SUCCESS)
            continue;
        count += type == NVML_NVLINK_DEVICE_TYPE_SWITCH || strcmp(remote.busId, other->bus_id) == 0;
    }
    return count;
}

static void print_connection(const struct chosen *one, const struct chosen *other)
{
    nvmlGpuTopologyLevel_t level = NVML_TOPOLOGY_SYSTEM;
    int links = links_between(one, other);
    if (links > 0) {
        printf("\tNV%d", links);
        return;
    }
    CALL(nvmlDeviceGetTopologyCommonAncestor)(one->device, other->device, &level);
    const char *name = level <= NVML_TOPOLOGY_SINGLE       ? "PIX"
                       : level <= NVML_TOPOLOGY_MULTIPLE   ? "PXB"
                       : level <= NVML_TOPOLOGY_HOSTBRIDGE ? "PHB"
                       : level <= NVML_TOPOLOGY_NODE       ? "NODE"
                                                           : "SYS";
    printf("\t%s", name);
}

static bool bit(const unsigned long *set, int number)
{
    return number < CPU_WORDS * CPU_BITS && set[number / CPU_BITS] >> number % CPU_BITS & 1;
}

static void print_set(const unsigned long *set)
{
    bool any = false;
    for (int i = 0; i < CPU_WORDS * CPU_BITS; i++) {
        if (!bit(set, i))
            continue;
        int last = i;
        while (bit(set, last + 1))
            last++;
        printf(last > i ? "%s%d-%d" : "%s%d", any ? "," : "", i, last);
        any = true;
        i = last;
    }
    if (!any)
        printf("N/A");
}

static void print_row(const struct chosen *one)
{
    unsigned long cpus[CPU_WORDS] = {0}, nodes[CPU_WORDS] = {0};
    printf("GPU%u", one->index);
    for (int i = 0; i < gpu_count; i++)
        if (one == &gpus[i])
            printf("\t X ");
        else
            print_connection(one, &gpus[i]);
    CALL(nvmlDeviceGetCpuAffinity)(one->device, CPU_WORDS, cpus);
    CALL(nvmlDeviceGetMemoryAffinity)(one->device, CPU_WORDS, nodes, NVML_AFFINITY_SCOPE_NODE);
    printf("\t");
    print_set(cpus);
    printf("\t");
    print_set(nodes);
    printf("\t\tN/A\n");
}

int smi_topology(int count, char **arguments)
{
    if (count < 1 || (strcmp(arguments[0], "-m") != 0 && strcmp(arguments[0], "--matrix") != 0)) {
        printf("Invalid combination of input arguments. Please run 'nvidia-smi topo -h' for help.\n");
        return EXIT_USAGE;
    }
    int code = choose(NULL);
    if (code != 0 || (code = report_lost(stdout)) != 0)
        return code;
    for (int i = 0; i < gpu_count; i++)
        printf("\tGPU%u", gpus[i].index);
    printf("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n");
    for (int i = 0; i < gpu_count; i++)
        print_row(&gpus[i]);
    printf("\nLegend:\n\n  X    = Self\n"
           "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
           "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node\n"
           "  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)\n"
           "  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)\n"
           "  PIX  = Connection traversing at most a single PCIe bridge\n"
           "  NV#  = Connection traversing a bonded set of # NVLinks\n");
    return 0;
}

int smi_nvlink(int count, char **arguments)
{
    if (count < 1 || (strcmp(arguments[0], "-s") != 0 && strcmp(arguments[0], "--status") != 0)) {
        printf("Invalid combination of input arguments. Please run 'nvidia-smi nvlink -h' for help.\n");
        return EXIT_USAGE;
    }
    int code = choose(NULL);
    for (int i = 0; code == 0 && i < gpu_count; i++) {
        if (!gpus[i].device)
            continue;
        printf("GPU %u: %s (UUID: %s)\n", gpus[i].index, gpus[i].name, gpus[i].uuid);
        nvmlFieldValue_t speed = {.fieldId = NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON};
        CALL(nvmlDeviceGetFieldValues)(gpus[i].device, 1, &speed);
        for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
            nvmlEnableState_t active;
            if (CALL(nvmlDeviceGetNvLinkState)(gpus[i].device, link, &active) != NVML_SUCCESS)
                continue;
            if (active == NVML_FEATURE_ENABLED)
                printf("\t Link %u: %.3f GB/s\n", link, speed.value.uiVal / 1000.0);
            else
                printf("\t Link %u: <inactive>\n", link);
        }
    }
    return code != 0 ? code : report_lost(stdout);
}
