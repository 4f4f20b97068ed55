/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: handles, and who they are. */
#include "nvml_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define INSTANCES 15
#define COMPUTES 8

static struct handle gpus[MAX_GPUS], migs[MAX_GPUS][INSTANCES][COMPUTES], instances[MAX_GPUS][INSTANCES],
    computes[MAX_GPUS][INSTANCES][COMPUTES];

static struct handle *set(struct handle *handle, enum handle_kind kind, int gpu, int gpu_instance, int compute_instance)
{
    /* Always the same values at the same place: threads may do it at the same time. */
    *handle = (struct handle){kind, gpu, gpu_instance, compute_instance};
    return handle;
}

struct handle *gpu_handle(int gpu)
{
    return set(&gpus[gpu], HANDLE_GPU, gpu, -1, -1);
}

struct handle *mig_handle(int gpu, int gpu_instance, int compute_instance)
{
    return set(&migs[gpu][gpu_instance][compute_instance], HANDLE_MIG, gpu, gpu_instance, compute_instance);
}

struct handle *gpu_instance_handle(int gpu, int gpu_instance)
{
    return set(&instances[gpu][gpu_instance], HANDLE_GPU_INSTANCE, gpu, gpu_instance, -1);
}

struct handle *compute_instance_handle(int gpu, int gpu_instance, int compute_instance)
{
    return set(&computes[gpu][gpu_instance][compute_instance], HANDLE_COMPUTE_INSTANCE, gpu, gpu_instance, compute_instance);
}

bool visible(const struct state *state, const struct gpu *gpu)
{
    char path[32];
    snprintf(path, sizeof path, "/dev/nvidia%d", gpu->minor);
    return gpu_driven(state, gpu) && access(rooted(path), F_OK) == 0;
}

nvmlReturn_t identify(const void *pointer, struct target *target)
{
    memset(target, 0, sizeof *target);
    TRY(enter(&target->state));
    REQUIRE(pointer);
    const struct handle *handle = pointer;
    target->handle = handle;
    if (handle->kind == HANDLE_NONE || handle->gpu >= target->state->gpu_count)
        return NVML_ERROR_INVALID_ARGUMENT;
    target->gpu = &target->state->gpus[handle->gpu];
    if (handle->kind == HANDLE_GPU)
        return NVML_SUCCESS;
    for (int i = 0; i < target->gpu->instance_count; i++)
        if (target->gpu->instances[i].id == handle->gpu_instance)
            target->instance = &target->gpu->instances[i];
    if (!target->instance)
        return NVML_ERROR_NOT_FOUND;
    target->profile = find_profile(target->state, target->instance->profile);
    if (handle->kind == HANDLE_GPU_INSTANCE)
        return NVML_SUCCESS;
    for (int i = 0; i < target->instance->compute_count; i++)
        if (target->instance->compute[i].id == handle->compute_instance)
            target->compute = &target->instance->compute[i];
    return target->compute ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t on_device(const void *handle, struct target *target)
{
    TRY(identify(handle, target));
    return target->gpu->lost || target->gpu->absent ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t on_gpu(const void *handle, struct target *target)
{
    TRY(on_device(handle, target));
    return target->handle->kind == HANDLE_GPU ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    struct state *state;
    TRY(enter(&state));
    REQUIRE(count);
    *count = 0;
    for (int i = 0; i < state->gpu_count; i++)
        *count += visible(state, &state->gpus[i]);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    struct state *state;
    TRY(enter(&state));
    REQUIRE(device);
    for (int i = 0; i < state->gpu_count; i++)
        if (visible(state, &state->gpus[i]) && index-- == 0) {
            if (state->gpus[i].lost)
                return NVML_ERROR_GPU_IS_LOST;
            *device = (nvmlDevice_t)gpu_handle(i);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    struct state *state;
    TRY(enter(&state));
    REQUIRE(uuid && device);
    for (int i = 0; i < state->gpu_count; i++) {
        const struct gpu *gpu = &state->gpus[i];
        if (!visible(state, gpu))
            continue;
        if (strcmp(gpu->uuid, uuid) == 0) {
            *device = (nvmlDevice_t)gpu_handle(i);
            return gpu->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
        }
        for (int j = 0; j < gpu->instance_count; j++)
            for (int k = 0; k < gpu->instances[j].compute_count; k++) {
                char mine[TEXT];
                mig_uuid(gpu, gpu->instances[j].id, gpu->instances[j].compute[k].id, mine, sizeof mine);
                if (strcmp(mine, uuid) == 0) {
                    *device = (nvmlDevice_t)mig_handle(i, gpu->instances[j].id, gpu->instances[j].compute[k].id);
                    return gpu->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
                }
            }
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *device)
{
    struct state *state;
    struct pci wanted;
    TRY(enter(&state));
    REQUIRE(address && device && pci_parse(address, &wanted));
    for (int i = 0; i < state->gpu_count; i++)
        if (visible(state, &state->gpus[i]) && pci_same(&state->gpus[i].pci, &wanted)) {
            *device = (nvmlDevice_t)gpu_handle(i);
            return state->gpus[i].lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *address, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(address, device);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    struct state *state;
    TRY(enter(&state));
    REQUIRE(serial && device);
    for (int i = 0; i < state->gpu_count; i++)
        if (visible(state, &state->gpus[i]) && strcmp(state->gpus[i].serial, serial) == 0) {
            *device = (nvmlDevice_t)gpu_handle(i);
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    struct target on;
    char text[2 * TEXT];
    TRY(identify(device, &on));
    if (on.handle->kind == HANDLE_MIG)
        snprintf(text, sizeof text, "%s MIG %s", on.gpu->name, on.profile ? on.profile->name : "");
    else
        snprintf(text, sizeof text, "%s", on.gpu->name);
    return copy_text(text, name, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    struct target on;
    char text[TEXT];
    TRY(identify(device, &on));
    if (on.handle->kind == HANDLE_MIG)
        mig_uuid(on.gpu, on.instance->id, on.compute->id, text, sizeof text);
    else
        snprintf(text, sizeof text, "%s", on.gpu->uuid);
    return copy_text(text, uuid, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    struct target on;
    TRY(on_gpu(device, &on));
    return copy_text(on.gpu->serial, serial, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *part, unsigned int length)
{
    struct target on;
    TRY(on_gpu(device, &on));
    return copy_text(on.gpu->part, part, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    struct target on;
    TRY(on_gpu(device, &on));
    return copy_text(on.gpu->vbios, version, length);
}

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    struct target on;
    TRY(identify(device, &on));
    REQUIRE(index);
    *index = 0;
    if (on.handle->kind == HANDLE_MIG) {
        for (int j = 0; j < on.gpu->instance_count; j++)
            for (int k = 0; k < on.gpu->instances[j].compute_count; k++) {
                if (&on.gpu->instances[j].compute[k] == on.compute)
                    return NVML_SUCCESS;
                *index += mig_visible(on.gpu, &on.gpu->instances[j], &on.gpu->instances[j].compute[k]);
            }
        return NVML_SUCCESS;
    }
    for (int i = 0; i < on.handle->gpu; i++)
        *index += visible(on.state, &on.state->gpus[i]);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    struct target on;
    TRY(identify(device, &on));
    REQUIRE(minor);
    if (on.handle->kind != HANDLE_GPU)
        return NVML_ERROR_NOT_SUPPORTED;
    *minor = (unsigned)on.gpu->minor;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *architecture)
{
    static const struct {
        const char *name;
        nvmlDeviceArchitecture_t value;
    } KNOWN[] = {{"volta", NVML_DEVICE_ARCH_VOLTA},   {"turing", NVML_DEVICE_ARCH_TURING}, {"ampere", NVML_DEVICE_ARCH_AMPERE},
                 {"ada", NVML_DEVICE_ARCH_ADA},       {"hopper", NVML_DEVICE_ARCH_HOPPER},
                 {"blackwell", NVML_DEVICE_ARCH_BLACKWELL}};
    struct target on;
    TRY(identify(device, &on));
    REQUIRE(architecture);
    *architecture = NVML_DEVICE_ARCH_UNKNOWN;
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        if (strcmp(KNOWN[i].name, on.gpu->architecture) == 0)
            *architecture = KNOWN[i].value;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *type)
{
    struct target on;
    TRY(identify(device, &on));
    REQUIRE(type);
    *type = strcmp(on.gpu->brand, "tesla") == 0 ? NVML_BRAND_TESLA : NVML_BRAND_NVIDIA;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    struct target on;
    TRY(identify(device, &on));
    REQUIRE(major && minor);
    *major = on.gpu->compute_major;
    *minor = on.gpu->compute_minor;
    return NVML_SUCCESS;
}
