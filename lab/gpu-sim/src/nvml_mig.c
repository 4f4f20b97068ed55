/* SPDX-License-Identifier: Apache-2.0 */
/* MIG as it is configured: the mode, profiles, GPU instances. */
#include "mig.h"
#include "nvml_internal.h"

#include <stdio.h>
#include <string.h>

#include "driver.h"

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(current && pending);
    if (!on.gpu->mig_capable)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = (unsigned)on.gpu->mig;
    *pending = (unsigned)on.gpu->mig_pending;
    return NVML_SUCCESS;
}

struct change {
    int gpu, gpu_instance, mode, profile, from, slices, compute_instance;
    int made;
};

static int set_mode(struct state *state, void *argument)
{
    struct change *change = argument;
    struct gpu *gpu = &state->gpus[change->gpu];
    if (gpu->instance_count > 0 && change->mode == 0)
        return NVML_ERROR_IN_USE;
    if (gpu->used_mib > 0 && !gpu->mig_reset && gpu->mig != change->mode)
        return NVML_ERROR_IN_USE;
    gpu->mig_pending = change->mode;
    /* Ampere needs a reset, which the driver makes itself when nobody uses the GPU. */
    if (gpu->used_mib == 0)
        gpu->mig = change->mode;
    change->made = gpu->mig == gpu->mig_pending;
    publish(state);
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *status)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(status && mode <= 1);
    if (!on.gpu->mig_capable)
        return NVML_ERROR_NOT_SUPPORTED;
    struct change change = {.gpu = on.handle->gpu, .mode = (int)mode};
    nvmlReturn_t result = from_errno(state_change(set_mode, &change));
    *status = result != NVML_SUCCESS ? result : change.made ? NVML_SUCCESS : NVML_ERROR_IN_USE;
    return result;
}

static const struct mig_profile *profile_at(const struct state *state, unsigned index)
{
    for (int i = 0; i < state->profile_count; i++)
        if (state->profiles[i].index == (int)index)
            return &state->profiles[i];
    return NULL;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int index,
                                                        nvmlGpuInstanceProfileInfo_t *info)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(info && index < NVML_GPU_INSTANCE_PROFILE_COUNT);
    const struct mig_profile *profile = profile_at(on.state, index);
    if (!on.gpu->mig_capable || !profile)
        return NVML_ERROR_NOT_SUPPORTED;
    *info = (nvmlGpuInstanceProfileInfo_t){.id = (unsigned)profile->id,
                                           .sliceCount = (unsigned)profile->slices,
                                           .instanceCount = strchr(profile->name, '+') ? 1 : (unsigned)profile->placement_count,
                                           .multiprocessorCount = (unsigned)profile->sms,
                                           .copyEngineCount = (unsigned)profile->copy_engines,
                                           .decoderCount = (unsigned)profile->decoders,
                                           .jpegCount = (unsigned)profile->jpegs,
                                           .ofaCount = (unsigned)profile->ofas,
                                           .memorySizeMB = profile->memory_mib};
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int index,
                                                         nvmlGpuInstanceProfileInfo_v2_t *info)
{
    nvmlGpuInstanceProfileInfo_t found;
    struct state *state;
    REQUIRE(info);
    if (info->version != nvmlGpuInstanceProfileInfo_v2 && info->version != nvmlGpuInstanceProfileInfo_v3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    TRY(nvmlDeviceGetGpuInstanceProfileInfo(device, index, &found));
    TRY(enter(&state));
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    snprintf(name, sizeof name, "MIG %s", profile_at(state, index)->name);
    if (info->version == nvmlGpuInstanceProfileInfo_v3) {
        nvmlGpuInstanceProfileInfo_v3_t *third = (nvmlGpuInstanceProfileInfo_v3_t *)info;
        third->id = found.id;
        third->sliceCount = found.sliceCount;
        third->instanceCount = found.instanceCount;
        third->multiprocessorCount = found.multiprocessorCount;
        third->copyEngineCount = found.copyEngineCount;
        third->decoderCount = found.decoderCount;
        third->encoderCount = 0;
        third->jpegCount = found.jpegCount;
        third->ofaCount = found.ofaCount;
        third->memorySizeMB = found.memorySizeMB;
        third->capabilities = 0;
        memcpy(third->name, name, sizeof third->name);
        return NVML_SUCCESS;
    }
    /* The second version is the first with a version before it and a name behind it. */
    memcpy(&info->id, &found.id, offsetof(nvmlGpuInstanceProfileInfo_t, memorySizeMB));
    info->memorySizeMB = found.memorySizeMB;
    memcpy(info->name, name, sizeof info->name);
    return NVML_SUCCESS;
}

/* The profile by the id that users see, with MIG on. */
static nvmlReturn_t on_profile(nvmlDevice_t device, unsigned id, struct target *on)
{
    TRY(on_gpu(device, on));
    if (!on->gpu->mig_capable || !on->gpu->mig)
        return NVML_ERROR_NOT_SUPPORTED;
    on->profile = find_profile(on->state, (int)id);
    return on->profile ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int *count)
{
    struct target on;
    TRY(on_profile(device, id, &on));
    REQUIRE(count);
    *count = (unsigned)mig_capacity(on.state, on.gpu, on.profile);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
                                                                  nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    struct target on;
    TRY(on_profile(device, id, &on));
    REQUIRE(count);
    for (int i = 0; placements && i < on.profile->placement_count; i++)
        placements[i] = (nvmlGpuInstancePlacement_t){(unsigned)on.profile->placements[i], (unsigned)on.profile->size};
    *count = (unsigned)on.profile->placement_count;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned int id,
                                                               nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    return nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, id, placements, count);
}

static int create_instance(struct state *state, void *argument)
{
    struct change *change = argument;
    const struct mig_profile *profile = find_profile(state, change->profile);
    struct gpu_instance *made = mig_add(state, &state->gpus[change->gpu], profile, change->from);
    if (!made)
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    change->made = made->id;
    publish(state);
    return 0;
}

EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
                                                             const nvmlGpuInstancePlacement_t *placement,
                                                             nvmlGpuInstance_t *instance)
{
    struct target on;
    TRY(on_profile(device, id, &on));
    REQUIRE(instance);
    struct change change = {.gpu = on.handle->gpu, .profile = (int)id, .from = placement ? (int)placement->start : -1};
    TRY(from_errno(state_change(create_instance, &change)));
    *instance = (nvmlGpuInstance_t)gpu_instance_handle(change.gpu, change.made);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instance)
{
    return nvmlDeviceCreateGpuInstanceWithPlacement(device, id, NULL, instance);
}

static int destroy_instance(struct state *state, void *argument)
{
    struct change *change = argument;
    struct gpu *gpu = &state->gpus[change->gpu];
    for (int i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].id == change->gpu_instance && gpu->instances[i].compute_count > 0)
            return NVML_ERROR_IN_USE;
    mig_remove(gpu, change->gpu_instance);
    publish(state);
    return 0;
}

EXPORT nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance)
{
    struct target on;
    TRY(on_device(instance, &on));
    struct change change = {.gpu = on.handle->gpu, .gpu_instance = on.handle->gpu_instance};
    return from_errno(state_change(destroy_instance, &change));
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instances,
                                              unsigned int *count)
{
    struct target on;
    TRY(on_profile(device, id, &on));
    REQUIRE(instances && count);
    *count = 0;
    for (int i = 0; i < on.gpu->instance_count; i++)
        if (on.gpu->instances[i].profile == (int)id)
            instances[(*count)++] = (nvmlGpuInstance_t)gpu_instance_handle(on.handle->gpu, on.gpu->instances[i].id);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instance)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(instance);
    for (int i = 0; i < on.gpu->instance_count; i++)
        if (on.gpu->instances[i].id == (int)id) {
            *instance = (nvmlGpuInstance_t)gpu_instance_handle(on.handle->gpu, (int)id);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
    struct target on;
    TRY(on_device(instance, &on));
    REQUIRE(info);
    *info = (nvmlGpuInstanceInfo_t){.device = (nvmlDevice_t)gpu_handle(on.handle->gpu),
                                    .id = (unsigned)on.instance->id,
                                    .profileId = (unsigned)on.instance->profile,
                                    .placement = {(unsigned)on.instance->start, on.profile ? (unsigned)on.profile->size : 0}};
    return NVML_SUCCESS;
}
