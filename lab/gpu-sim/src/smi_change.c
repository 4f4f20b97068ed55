/* SPDX-License-Identifier: Apache-2.0 */
/* What nvidia-smi changes: MIG mode, persistence, power limit, reset. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "smi.h"
#include "state.h"

static const char *error(nvmlReturn_t result)
{
    return CALL(nvmlErrorString)(result);
}

int smi_set_mig(int mode)
{
    const char *verb = mode ? "enable" : "disable";
    int code = report_lost(stdout);
    for (int i = 0; code == 0 && i < gpu_count; i++) {
        nvmlReturn_t status = NVML_SUCCESS;
        nvmlReturn_t result = CALL(nvmlDeviceSetMigMode)(gpus[i].device, (unsigned)mode, &status);
        if (result != NVML_SUCCESS) {
            printf("Unable to %s MIG Mode for GPU %s: %s\nTerminating early due to previous errors.\n", verb, gpus[i].bus_id,
                   error(result));
            return (int)result;
        }
        if (status == NVML_SUCCESS)
            printf("%sd MIG Mode for GPU %s\n", mode ? "Enable" : "Disable", gpus[i].bus_id);
        else
            printf("Warning: MIG mode is in pending %s state for GPU %s:%s\n"
                   "%s is currently being used by one or more other processes. Please first kill all processes using the device "
                   "and retry the command or reboot the system to make MIG mode effective.\n",
                   verb, gpus[i].bus_id, error(status), gpus[i].bus_id);
    }
    if (code == 0)
        printf("All done.\n");
    return code;
}

int smi_set_persistence(int mode)
{
    int code = report_lost(stdout);
    for (int i = 0; code == 0 && i < gpu_count; i++) {
        nvmlReturn_t result = CALL(nvmlDeviceSetPersistenceMode)(gpus[i].device, mode ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED);
        if (result != NVML_SUCCESS) {
            printf("Unable to set persistence mode for GPU %s: %s\nTerminating early due to previous errors.\n", gpus[i].bus_id,
                   error(result));
            return (int)result;
        }
        printf("%sd Legacy persistence mode for GPU %s.\n", mode ? "Enable" : "Disable", gpus[i].bus_id);
    }
    if (code == 0)
        printf("All done.\n");
    return code;
}

int smi_set_power(double watts)
{
    int code = report_lost(stdout);
    for (int i = 0; code == 0 && i < gpu_count; i++) {
        nvmlReturn_t result = CALL(nvmlDeviceSetPowerManagementLimit)(gpus[i].device, (unsigned)(watts * 1000));
        if (result != NVML_SUCCESS) {
            printf("Unable to set power limit for GPU %s: %s\nTerminating early due to previous errors.\n", gpus[i].bus_id,
                   error(result));
            return (int)result;
        }
        printf("Power limit for GPU %s was set to %.2f W.\n", gpus[i].bus_id, watts);
    }
    if (code == 0)
        printf("All done.\n");
    return code;
}

/* A reset clears what lives only until the next one, remaps rows, and lets a pending MIG mode in. */
static int reset(struct state *state, void *argument)
{
    const char *uuid = argument;
    for (int i = 0; i < state->gpu_count; i++) {
        struct gpu *gpu = &state->gpus[i];
        if (strcmp(gpu->uuid, uuid) != 0)
            continue;
        gpu->ecc_corrected = gpu->ecc_uncorrected = 0;
        gpu->remapped_uncorrected += gpu->remap_pending;
        gpu->remap_pending = 0;
        gpu->mig = gpu->mig_pending;
        gpu->instance_count = 0;
    }
    publish(state);
    return 0;
}

int smi_reset(void)
{
    int code = report_lost(stdout);
    for (int i = 0; code == 0 && i < gpu_count; i++) {
        nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};
        CALL(nvmlDeviceGetMemoryInfo_v2)(gpus[i].device, &memory);
        if (memory.used > 0) {
            printf("The following GPUs could not be reset:\n  GPU %s: %s\n", gpus[i].bus_id, error(NVML_ERROR_IN_USE));
            return NVML_ERROR_IN_USE;
        }
        if (state_change(reset, gpus[i].uuid) != 0) {
            printf("The following GPUs could not be reset:\n  GPU %s: %s\n", gpus[i].bus_id, error(NVML_ERROR_NO_PERMISSION));
            return NVML_ERROR_NO_PERMISSION;
        }
        printf("GPU %s was successfully reset.\n", gpus[i].bus_id);
    }
    if (code == 0)
        printf("All done.\n");
    return code;
}
