/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi mig -lgip, -lgipp, -lgi, -lci. */
#include "smi_mig.h"

#include <stdlib.h>
#include <string.h>

const char *nvml_error(nvmlReturn_t result)
{
    return CALL(nvmlErrorString)(result);
}

bool profile_at(const struct chosen *gpu, unsigned index, profile_info *info)
{
    info->version = nvmlGpuInstanceProfileInfo_v2;
    return CALL(nvmlDeviceGetGpuInstanceProfileInfoV)(gpu->device, index, info) == NVML_SUCCESS;
}

static bool wanted(const char *ids, unsigned id)
{
    char copy[256], *rest = NULL;
    if (!ids)
        return true;
    snprintf(copy, sizeof copy, "%s", ids);
    for (char *one = strtok_r(copy, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
        if (strtoul(one, NULL, 10) == id)
            return true;
    return false;
}

bool mig_on(const struct chosen *gpu)
{
    unsigned current = 0, pending = 0;
    return CALL(nvmlDeviceGetMigMode)(gpu->device, &current, &pending) == NVML_SUCCESS && current;
}

int each_instance(const struct options *options, instance_work work, int *code)
{
    int count = 0;
    for (int i = 0; i < gpu_count; i++)
        for (unsigned j = 0; j < NVML_GPU_INSTANCE_PROFILE_COUNT; j++) {
            profile_info profile;
            nvmlGpuInstance_t found[MOST_INSTANCES];
            unsigned number = MOST_INSTANCES;
            if (!gpus[i].device || !profile_at(&gpus[i], j, &profile) ||
                CALL(nvmlDeviceGetGpuInstances)(gpus[i].device, profile.id, found, &number) != NVML_SUCCESS)
                continue;
            for (unsigned k = 0; k < number; k++) {
                nvmlGpuInstanceInfo_t info;
                if (CALL(nvmlGpuInstanceGetInfo)(found[k], &info) != NVML_SUCCESS || !wanted(options->instances, info.id))
                    continue;
                count++;
                int result = work(&gpus[i], found[k], &info, &profile, options);
                *code = result ? result : *code;
            }
        }
    return count;
}

int each_compute(nvmlGpuInstance_t instance, const struct options *options, compute_work work, const void *context)
{
    int code = 0;
    for (unsigned i = 0; i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; i++) {
        nvmlComputeInstance_t found[MOST_INSTANCES];
        unsigned count = MOST_INSTANCES;
        if (CALL(nvmlGpuInstanceGetComputeInstances)(instance, i, found, &count) != NVML_SUCCESS)
            continue;
        for (unsigned j = 0; j < count; j++) {
            nvmlComputeInstanceInfo_t info;
            if (CALL(nvmlComputeInstanceGetInfo_v2)(found[j], &info) != NVML_SUCCESS || !wanted(options->computes, info.id))
                continue;
            int result = work(found[j], &info, context);
            code = result ? result : code;
        }
    }
    return code;
}

int list_profiles(void)
{
    bool any = false;
    for (int i = 0; i < gpu_count; i++)
        for (unsigned j = 0; j < NVML_GPU_INSTANCE_PROFILE_COUNT; j++) {
            profile_info profile;
            unsigned left = 0;
            if (!gpus[i].device || !mig_on(&gpus[i]) || !profile_at(&gpus[i], j, &profile))
                continue;
            if (!any)
                printf("+-------------------------------------------------------------------------------+\n"
                       "| GPU instance profiles:                                                        |\n"
                       "| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
                       "|                                Free/Total   GiB              CE    JPEG  OFA  |\n"
                       "|===============================================================================|\n");
            any = true;
            CALL(nvmlDeviceGetGpuInstanceRemainingCapacity)(gpus[i].device, profile.id, &left);
            printf("| %3u  %-18s %3u    %2u/%-2u       %6.2f      No    %3u    %2u     0   |\n"
                   "|                                                              %2u    %2u    %2u   |\n"
                   "+-------------------------------------------------------------------------------+\n",
                   gpus[i].index, profile.name, profile.id, left, profile.instanceCount, (double)profile.memorySizeMB / 1024,
                   profile.multiprocessorCount, profile.decoderCount, profile.copyEngineCount, profile.jpegCount,
                   profile.ofaCount);
        }
    if (!any)
        printf("No MIG-enabled devices found.\n");
    return any ? 0 : NVML_ERROR_NOT_FOUND;
}

int list_placements(void)
{
    bool any = false;
    for (int i = 0; i < gpu_count; i++)
        for (unsigned j = 0; j < NVML_GPU_INSTANCE_PROFILE_COUNT; j++) {
            profile_info profile;
            nvmlGpuInstancePlacement_t places[MOST_INSTANCES];
            unsigned count = MOST_INSTANCES;
            if (!gpus[i].device || !profile_at(&gpus[i], j, &profile) ||
                CALL(nvmlDeviceGetGpuInstancePossiblePlacements_v2)(gpus[i].device, profile.id, places, &count) != NVML_SUCCESS)
                continue;
            any = true;
            printf("GPU %2u Profile ID %2u Placement%s: {", gpus[i].index, profile.id, count == 1 ? " " : "s");
            for (unsigned k = 0; k < count; k++)
                printf("%s%u", k ? "," : "", places[k].start);
            printf("}:%u\n", count ? places[0].size : 0);
        }
    if (!any)
        printf("No MIG-enabled devices found.\n");
    return any ? 0 : NVML_ERROR_NOT_FOUND;
}

static int show_instance(const struct chosen *gpu, nvmlGpuInstance_t instance, const nvmlGpuInstanceInfo_t *info,
                         const profile_info *profile, const struct options *options)
{
    (void)instance, (void)options;
    printf("| %3u  %-18s %4u     %4u        %3u:%-3u   |\n", gpu->index, profile->name, info->profileId, info->id,
           info->placement.start, info->placement.size);
    return 0;
}

static int compute_count;

static int show_compute(nvmlComputeInstance_t compute, const nvmlComputeInstanceInfo_t *info, const void *argument)
{
    const struct context *context = argument;
    (void)compute;
    compute_count++;
    printf("| %3u   %4u     %-18s %4u     %4u        %3u:%-3u   |\n", context->gpu->index, context->instance->id,
           context->profile->name, info->profileId, info->id, info->placement.start, info->placement.size);
    return 0;
}

static int show_computes(const struct chosen *gpu, nvmlGpuInstance_t instance, const nvmlGpuInstanceInfo_t *info,
                         const profile_info *profile, const struct options *options)
{
    struct context context = {gpu, info, profile};
    return each_compute(instance, options, show_compute, &context);
}

int list_instances(const struct options *options)
{
    int code = 0;
    printf("+---------------------------------------------------------+\n"
           "| GPU instances:                                          |\n"
           "| GPU   Name               Profile  Instance   Placement  |\n"
           "|                            ID       ID       Start:Size |\n"
           "|=========================================================|\n");
    int count = each_instance(options, show_instance, &code);
    printf("+---------------------------------------------------------+\n");
    if (count == 0) {
        printf("No GPU instances found: Not Found\n");
        return NVML_ERROR_NOT_FOUND;
    }
    return code;
}

int list_computes(const struct options *options)
{
    int code = 0;
    printf("+------------------------------------------------------------------+\n"
           "| Compute instances:                                               |\n"
           "| GPU   GPU      Name               Profile  Instance   Placement  |\n"
           "|     Instance                        ID       ID       Start:Size |\n"
           "|==================================================================|\n");
    each_instance(options, show_computes, &code);
    printf("+------------------------------------------------------------------+\n");
    if (compute_count == 0) {
        printf("No compute instances found: Not Found\n");
        return NVML_ERROR_NOT_FOUND;
    }
    return code;
}
