/* SPDX-License-Identifier: Apache-2.0 */
/* Beginning and end, what every call does first, and what concerns the system as a whole. */
#include "nvml_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

#define HANG_POLL_MICROSECONDS 200000

static atomic_int users;

/* The driver answers nothing while it hangs; neither does the thread that asked. */
static nvmlReturn_t read_state(struct state *state)
{
    for (;;) {
        int result = state_read(state);
        if (result == ENOMEM)
            return NVML_ERROR_MEMORY;
        if (result == EACCES)
            return NVML_ERROR_NO_PERMISSION;
        if (result != 0)
            return NVML_ERROR_DRIVER_NOT_LOADED;
        if (!state->hang)
            return NVML_SUCCESS;
        usleep(HANG_POLL_MICROSECONDS);
    }
}

static struct state *own_copy(void)
{
    static __thread struct state *copy;
    if (!copy)
        copy = malloc(sizeof *copy);
    return copy;
}

nvmlReturn_t enter(struct state **state)
{
    if (atomic_load(&users) == 0)
        return NVML_ERROR_UNINITIALIZED;
    *state = own_copy();
    return *state ? read_state(*state) : NVML_ERROR_MEMORY;
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    struct state *state = own_copy();
    if (!state)
        return NVML_ERROR_MEMORY;
    TRY(read_state(state));
    if (!state->loaded[0] || access(rooted("/dev/nvidiactl"), F_OK) != 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (strcmp(state->loaded, DRIVER_VERSION) != 0)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    procfs_in_container(state);
    atomic_fetch_add(&users, 1);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    int found = atomic_load(&users);
    while (found > 0)
        if (atomic_compare_exchange_weak(&users, &found, found - 1))
            return NVML_SUCCESS;
    return NVML_ERROR_UNINITIALIZED;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED: return "Already Initialized";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER: return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_IRQ_ISSUE: return "Interrupt Request Issue";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM: return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_OPERATING_SYSTEM: return "The operating system has blocked the request";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_IN_USE: return "In use by another client";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_NO_DATA: return "No data";
    case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    case NVML_ERROR_NOT_READY: return "System is not in ready state";
    case NVML_ERROR_GPU_NOT_FOUND: return "No GPUs were found";
    case NVML_ERROR_INVALID_STATE: return "Invalid State";
    default: return "Unknown Error";
    }
}

nvmlReturn_t from_errno(int result)
{
    switch (-result) {
    case 0: return NVML_SUCCESS;
    case EACCES:
    case EROFS:
    case EPERM: return NVML_ERROR_NO_PERMISSION;
    case ENOMEM: return NVML_ERROR_MEMORY;
    default: return result > 0 ? (nvmlReturn_t)result : NVML_ERROR_UNKNOWN;
    }
}

nvmlReturn_t copy_text(const char *text, char *target, unsigned size)
{
    REQUIRE(target);
    if (strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(target, text);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    struct state *state;
    TRY(enter(&state));
    return copy_text(state->loaded, version, length);
}

EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    return copy_text(CUDA_MAJOR_TEXT "." DRIVER_VERSION, version, length);
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    REQUIRE(version);
    *version = CUDA_VERSION_NUMBER;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    return nvmlSystemGetCudaDriverVersion(version);
}

EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    char path[32], text[256] = "";
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return NVML_ERROR_NOT_FOUND;
    bool found = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    text[strcspn(text, "\n")] = '\0';
    return found ? copy_text(text, name, length) : NVML_ERROR_NOT_FOUND;
}
