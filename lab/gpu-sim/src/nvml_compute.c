/* SPDX-License-Identifier: Apache-2.0 */
/* MIG as it is used: compute instances, and the MIG devices they are. */
#include "mig.h"
#include "nvml_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

static const int SLICES[NVML_COMPUTE_INSTANCE_PROFILE_COUNT] = {1, 2, 3, 4, 7, 8, 6};

int compute_slices(unsigned profile)
{
    return profile < NVML_COMPUTE_INSTANCE_PROFILE_COUNT ? SLICES[profile] : 0;
}

int compute_profile(int slices)
{
    for (int i = 0; i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; i++)
        if (SLICES[i] == slices)
            return i;
    return -1;
}

static bool cap_there(int number)
{
    char path[64];
    snprintf(path, sizeof path, "/dev/nvidia-caps/nvidia-cap%d", number);
    return access(rooted(path), F_OK) == 0;
}

bool mig_visible(const struct gpu *gpu, const struct gpu_instance *instance, const struct compute_instance *compute)
{
    return cap_there(cap_minor(gpu->minor, instance->id, -1)) && cap_there(cap_minor(gpu->minor, instance->id, compute->id));
}

static nvmlReturn_t on_compute_profile(nvmlGpuInstance_t instance, unsigned profile, struct target *on, int *slices)
{
    TRY(on_device(instance, on));
    *slices = compute_slices(profile);
    return *slices > 0 && on->profile && *slices <= on->profile->slices ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned int profile,
                                                                 unsigned int engines, nvmlComputeInstanceProfileInfo_t *info)
{
    struct target on;
    int slices;
    (void)engines;
    REQUIRE(info);
    TRY(on_compute_profile(instance, profile, &on, &slices));
    *info = (nvmlComputeInstanceProfileInfo_t){.id = profile,
                                               .sliceCount = (unsigned)slices,
                                               .instanceCount = (unsigned)(on.profile->slices / slices),
                                               .multiprocessorCount = (unsigned)(on.profile->sms * slices / on.profile->slices),
                                               .sharedCopyEngineCount = (unsigned)on.profile->copy_engines,
                                               .sharedDecoderCount = (unsigned)on.profile->decoders,
                                               .sharedJpegCount = (unsigned)on.profile->jpegs,
                                               .sharedOfaCount = (unsigned)on.profile->ofas};
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance, unsigned int profile,
                                                                       unsigned int *count)
{
    struct target on;
    int slices;
    TRY(on_compute_profile(instance, profile, &on, &slices));
    REQUIRE(count);
    *count = (unsigned)(compute_free(on.instance, on.profile) / slices);
    return NVML_SUCCESS;
}

struct change {
    int gpu, gpu_instance, slices, compute_instance;
};

static int change_compute(struct state *state, void *argument)
{
    struct change *change = argument;
    struct gpu *gpu = &state->gpus[change->gpu];
    for (int i = 0; i < gpu->instance_count; i++) {
        struct gpu_instance *instance = &gpu->instances[i];
        if (instance->id != change->gpu_instance)
            continue;
        if (change->slices == 0) {
            compute_remove(instance, change->compute_instance);
        } else {
            struct compute_instance *made = compute_add(instance, find_profile(state, instance->profile), change->slices);
            if (!made)
                return NVML_ERROR_INSUFFICIENT_RESOURCES;
            change->compute_instance = made->id;
        }
        publish(state);
        return 0;
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int profile,
                                                         nvmlComputeInstance_t *compute)
{
    struct target on;
    int slices;
    TRY(on_compute_profile(instance, profile, &on, &slices));
    REQUIRE(compute);
    struct change change = {.gpu = on.handle->gpu, .gpu_instance = on.handle->gpu_instance, .slices = slices};
    TRY(from_errno(state_change(change_compute, &change)));
    *compute = (nvmlComputeInstance_t)compute_instance_handle(change.gpu, change.gpu_instance, change.compute_instance);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute)
{
    struct target on;
    TRY(on_device(compute, &on));
    struct change change = {on.handle->gpu, on.handle->gpu_instance, 0, on.handle->compute_instance};
    return from_errno(state_change(change_compute, &change));
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int profile,
                                                       nvmlComputeInstance_t *computes, unsigned int *count)
{
    struct target on;
    int slices;
    TRY(on_compute_profile(instance, profile, &on, &slices));
    REQUIRE(computes && count);
    *count = 0;
    for (int i = 0; i < on.instance->compute_count; i++)
        if (on.instance->compute[i].slices == slices)
            computes[(*count)++] =
                (nvmlComputeInstance_t)compute_instance_handle(on.handle->gpu, on.instance->id, on.instance->compute[i].id);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id,
                                                          nvmlComputeInstance_t *compute)
{
    struct target on;
    TRY(on_device(instance, &on));
    REQUIRE(compute);
    for (int i = 0; i < on.instance->compute_count; i++)
        if (on.instance->compute[i].id == (int)id) {
            *compute = (nvmlComputeInstance_t)compute_instance_handle(on.handle->gpu, on.instance->id, (int)id);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t *info)
{
    struct target on;
    TRY(on_device(compute, &on));
    REQUIRE(info);
    *info = (nvmlComputeInstanceInfo_t){.device = (nvmlDevice_t)gpu_handle(on.handle->gpu),
                                        .gpuInstance = (nvmlGpuInstance_t)gpu_instance_handle(on.handle->gpu, on.instance->id),
                                        .id = (unsigned)on.compute->id,
                                        .profileId = (unsigned)compute_profile(on.compute->slices),
                                        .placement = {(unsigned)on.compute->start, (unsigned)on.compute->slices}};
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t *info)
{
    return nvmlComputeInstanceGetInfo_v2(compute, info);
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    REQUIRE(device && is_mig);
    *is_mig = ((const struct handle *)device)->kind == HANDLE_MIG;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(count);
    *count = on.gpu->mig_capable ? MAX_INSTANCES : 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(mig);
    if (!on.gpu->mig_capable)
        return NVML_ERROR_NOT_SUPPORTED;
    for (int i = 0; i < on.gpu->instance_count; i++)
        for (int j = 0; j < on.gpu->instances[i].compute_count; j++)
            if (mig_visible(on.gpu, &on.gpu->instances[i], &on.gpu->instances[i].compute[j]) && index-- == 0) {
                *mig = (nvmlDevice_t)mig_handle(on.handle->gpu, on.gpu->instances[i].id, on.gpu->instances[i].compute[j].id);
                return NVML_SUCCESS;
            }
    return NVML_ERROR_NOT_FOUND;
}

/* Begin a call on a MIG device. */
static nvmlReturn_t on_mig(nvmlDevice_t device, struct target *on)
{
    TRY(identify(device, on));
    return on->handle->kind == HANDLE_MIG ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    struct target on;
    TRY(on_mig(mig, &on));
    REQUIRE(device);
    *device = (nvmlDevice_t)gpu_handle(on.handle->gpu);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    struct target on;
    TRY(on_mig(device, &on));
    REQUIRE(id);
    *id = (unsigned)on.instance->id;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    struct target on;
    TRY(on_mig(device, &on));
    REQUIRE(id);
    *id = (unsigned)on.compute->id;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    struct target on;
    TRY(on_mig(device, &on));
    REQUIRE(attributes && on.profile);
    *attributes = (nvmlDeviceAttributes_t){.multiprocessorCount = (unsigned)(on.profile->sms * on.compute->slices / on.profile->slices),
                                           .sharedCopyEngineCount = (unsigned)on.profile->copy_engines,
                                           .sharedDecoderCount = (unsigned)on.profile->decoders,
                                           .sharedJpegCount = (unsigned)on.profile->jpegs,
                                           .sharedOfaCount = (unsigned)on.profile->ofas,
                                           .gpuInstanceSliceCount = (unsigned)on.profile->slices,
                                           .computeInstanceSliceCount = (unsigned)on.compute->slices,
                                           .memorySizeMB = on.profile->memory_mib};
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    return nvmlDeviceGetAttributes_v2(device, attributes);
}
