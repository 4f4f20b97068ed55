/* SPDX-License-Identifier: Apache-2.0 */
/* Events: XIDs recorded in the state after a device was registered. */
#include "nvml_internal.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define POLL_MICROSECONDS 100000

struct events {
    bool registered[MAX_GPUS];
    unsigned long long types[MAX_GPUS];
    unsigned seen[MAX_GPUS]; /* sequence number of the last XID that was there before, or was given out */
};

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    struct state *state;
    TRY(enter(&state));
    REQUIRE(set);
    struct events *events = calloc(1, sizeof *events);
    if (!events)
        return NVML_ERROR_MEMORY;
    *set = (nvmlEventSet_t)events;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    REQUIRE(set);
    free(set);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(types);
    *types = nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError | nvmlEventTypeSingleBitEccError |
             nvmlEventTypePState | nvmlEventTypeClock;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(set);
    struct events *events = (struct events *)set;
    events->registered[on.handle->gpu] = true;
    events->types[on.handle->gpu] = types;
    events->seen[on.handle->gpu] = on.state->xid_sequence;
    return NVML_SUCCESS;
}

static bool next(struct events *events, const struct state *state, nvmlEventData_t *data)
{
    for (int i = 0; i < state->gpu_count; i++) {
        if (!events->registered[i] || !(events->types[i] & nvmlEventTypeXidCriticalError))
            continue;
        for (int j = 0; j < state->gpus[i].xid_count; j++) {
            const struct xid *xid = &state->gpus[i].xids[j];
            if (xid->sequence <= events->seen[i])
                continue;
            events->seen[i] = xid->sequence;
            *data = (nvmlEventData_t){.device = (nvmlDevice_t)gpu_handle(i),
                                      .eventType = nvmlEventTypeXidCriticalError,
                                      .eventData = xid->code,
                                      .gpuInstanceId = NO_INSTANCE,
                                      .computeInstanceId = NO_INSTANCE};
            return true;
        }
    }
    return false;
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    REQUIRE(set && data);
    long long deadline = now_ms() + timeout_ms;
    for (;;) {
        struct state *state;
        TRY(enter(&state));
        if (next((struct events *)set, state, data))
            return NVML_SUCCESS;
        if (now_ms() >= deadline)
            return NVML_ERROR_TIMEOUT;
        usleep(POLL_MICROSECONDS);
    }
}

EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    return nvmlEventSetWait_v2(set, data, timeout_ms);
}
