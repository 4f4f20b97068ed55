/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda.so.1 as far as programs ask it before they compute: versions and devices. It computes nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state.h"

/* CUresult, from the CUDA driver API's reference. */
enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, SYSTEM_NOT_READY = 802, MISMATCH = 803 };

#define EXPORT __attribute__((visibility("default")))

static struct state state;
static int ready;

static const struct gpu *device_at(int number)
{
    for (int i = 0; i < state.gpu_count; i++) {
        char path[32];
        const struct gpu *gpu = &state.gpus[i];
        snprintf(path, sizeof path, "/dev/nvidia%d", gpu->minor);
        if (gpu_driven(&state, gpu) && !gpu->lost && access(rooted(path), F_OK) == 0 && number-- == 0)
            return gpu;
    }
    return NULL;
}

EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    if (state_read(&state) != 0 || !state.loaded[0])
        return NO_DEVICE;
    if (strcmp(state.loaded, DRIVER_VERSION) != 0)
        return MISMATCH;
    if (!device_at(0))
        return NO_DEVICE;
    /* On machines with NVSwitches CUDA waits for the fabric manager. */
    if (strcmp(state.fabric, "none") != 0 && !state.fabric_ready)
        return SYSTEM_NOT_READY;
    ready = 1;
    return SUCCESS;
}

EXPORT int cuDriverGetVersion(int *version)
{
    if (!version)
        return INVALID_VALUE;
    *version = CUDA_VERSION_NUMBER;
    return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count)
{
    if (!ready)
        return NOT_INITIALIZED;
    if (!count)
        return INVALID_VALUE;
    for (*count = 0; device_at(*count); ++*count)
        continue;
    return SUCCESS;
}

EXPORT int cuDeviceGet(int *device, int number)
{
    if (!ready)
        return NOT_INITIALIZED;
    if (!device || !device_at(number))
        return INVALID_VALUE;
    *device = number;
    return SUCCESS;
}

EXPORT int cuDeviceGetName(char *name, int length, int device)
{
    const struct gpu *gpu = ready ? device_at(device) : NULL;
    if (!gpu || !name || length <= 0)
        return ready ? INVALID_VALUE : NOT_INITIALIZED;
    snprintf(name, (size_t)length, "%s", gpu->name);
    return SUCCESS;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    const struct gpu *gpu = ready ? device_at(device) : NULL;
    if (!gpu || !bytes)
        return ready ? INVALID_VALUE : NOT_INITIALIZED;
    *bytes = (size_t)gpu->memory_mib << 20;
    return SUCCESS;
}
