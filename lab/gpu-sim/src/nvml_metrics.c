/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured or set on a device: memory, temperature, power, clocks, errors. */
#include "nvml_internal.h"

#include <string.h>
#include <time.h>

/* A function that gives one number of a whole GPU. */
#define NUMBER(function, type, expression)                                                                                     \
    EXPORT nvmlReturn_t function(nvmlDevice_t device, type *value)                                                             \
    {                                                                                                                          \
        struct target on;                                                                                                      \
        TRY(on_gpu(device, &on));                                                                                              \
        REQUIRE(value);                                                                                                        \
        *value = (type)(expression);                                                                                           \
        return NVML_SUCCESS;                                                                                                   \
    }

NUMBER(nvmlDeviceGetPowerUsage, unsigned int, on.gpu->power_mw)
NUMBER(nvmlDeviceGetPowerManagementLimit, unsigned int, on.gpu->power_limit_mw)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, on.gpu->power_limit_mw)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, on.gpu->power_limit_mw)
NUMBER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, on.gpu->persistence ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED)
NUMBER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, NVML_COMPUTEMODE_DEFAULT)
NUMBER(nvmlDeviceGetPerformanceState, nvmlPstates_t, NVML_PSTATE_0)
NUMBER(nvmlDeviceGetNumGpuCores, unsigned int, on.gpu->cores)
NUMBER(nvmlDeviceGetMemoryBusWidth, unsigned int, on.gpu->memory_bus_bits)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, on.gpu->pcie_generation)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, on.gpu->pcie_generation)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, on.gpu->pcie_generation)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, on.gpu->pcie_width)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, on.gpu->pcie_width)
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned int, 0)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, nvmlClocksEventReasonGpuIdle)
NUMBER(nvmlDeviceGetDefaultEccMode, nvmlEnableState_t, NVML_FEATURE_ENABLED)
NUMBER(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
NUMBER(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
NUMBER(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t, NVML_GPU_VIRTUALIZATION_MODE_NONE)
NUMBER(nvmlDeviceGetModuleId, unsigned int, on.gpu->minor + 1)
NUMBER(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, (unsigned long long)on.gpu->power_mw * (unsigned long long)time(NULL))

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    struct target on;
    TRY(on_device(device, &on));
    REQUIRE(memory);
    if (on.handle->kind == HANDLE_MIG) {
        memory->total = (on.profile ? on.profile->memory_mib : 0) * MIB;
        memory->reserved = memory->used = 0;
    } else {
        memory->total = (unsigned long long)on.gpu->memory_mib * MIB;
        memory->reserved = (unsigned long long)on.gpu->reserved_mib * MIB;
        memory->used = (unsigned long long)on.gpu->used_mib * MIB;
    }
    memory->free = memory->total - memory->reserved - memory->used;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlMemory_v2_t found = {0};
    REQUIRE(memory);
    TRY(nvmlDeviceGetMemoryInfo_v2(device, &found));
    *memory = (nvmlMemory_t){.total = found.total, .free = found.free, .used = found.used + found.reserved};
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(memory);
    unsigned long long size = 1;
    while (size < (unsigned long long)on.gpu->memory_mib)
        size *= 2;
    *memory = (nvmlBAR1Memory_t){.bar1Total = size * MIB, .bar1Used = MIB, .bar1Free = (size - 1) * MIB};
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *value)
{
    struct target on;
    TRY(on_device(device, &on));
    REQUIRE(value && sensor == NVML_TEMPERATURE_GPU);
    *value = (unsigned)on.gpu->temperature;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    unsigned value = 0;
    REQUIRE(temperature);
    TRY(nvmlDeviceGetTemperature(device, temperature->sensorType, &value));
    temperature->temperature = (int)value;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t threshold,
                                                      unsigned int *value)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(value);
    switch (threshold) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN: *value = (unsigned)on.gpu->temperature_shutdown; return NVML_SUCCESS;
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN: *value = (unsigned)on.gpu->temperature_slowdown; return NVML_SUCCESS;
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(mode);
    *mode = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *least, unsigned int *most)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(least && most);
    *least = (unsigned)on.gpu->power_min_mw;
    *most = (unsigned)on.gpu->power_max_mw;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(utilization);
    if (on.gpu->mig)
        return NVML_ERROR_NOT_SUPPORTED; /* as on MIG-enabled GPUs */
    utilization->gpu = (unsigned)on.gpu->utilization;
    utilization->memory = (unsigned)on.gpu->memory_utilization;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(clock && type < NVML_CLOCK_COUNT);
    *clock = (unsigned)(type == NVML_CLOCK_MEM ? on.gpu->memory_clock : on.gpu->sm_clock);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(clock && type < NVML_CLOCK_COUNT);
    *clock = (unsigned)(type == NVML_CLOCK_MEM ? on.gpu->max_memory_clock : on.gpu->max_sm_clock);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(current && pending);
    *current = *pending = on.gpu->ecc ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

static int errors(const struct gpu *gpu, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter)
{
    if (type == NVML_MEMORY_ERROR_TYPE_CORRECTED)
        return counter == NVML_VOLATILE_ECC ? gpu->ecc_corrected : gpu->ecc_corrected_total;
    return counter == NVML_VOLATILE_ECC ? gpu->ecc_uncorrected : gpu->ecc_uncorrected_total;
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                                unsigned long long *count)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(count);
    *count = (unsigned long long)errors(on.gpu, type, counter);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                                    nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
                                                    unsigned long long *count)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(count);
    /* All of the simulated errors happen in device memory. */
    *count = location == NVML_MEMORY_LOCATION_DEVICE_MEMORY ? (unsigned long long)errors(on.gpu, type, counter) : 0;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected, unsigned int *uncorrected,
                                              unsigned int *pending, unsigned int *failed)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(corrected && uncorrected && pending && failed);
    *corrected = (unsigned)on.gpu->remapped_corrected;
    *uncorrected = (unsigned)on.gpu->remapped_uncorrected;
    *pending = (unsigned)on.gpu->remap_pending;
    *failed = (unsigned)on.gpu->remap_failed;
    return NVML_SUCCESS;
}

static nvmlReturn_t field(const struct gpu *gpu, nvmlFieldValue_t *value)
{
    long long number;
    switch (value->fieldId) {
    case NVML_FI_DEV_ECC_CURRENT:
    case NVML_FI_DEV_ECC_PENDING: number = gpu->ecc; break;
    case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
    case NVML_FI_DEV_ECC_SBE_VOL_DEV: number = gpu->ecc_corrected; break;
    case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
    case NVML_FI_DEV_ECC_DBE_VOL_DEV: number = gpu->ecc_uncorrected; break;
    case NVML_FI_DEV_ECC_SBE_AGG_TOTAL:
    case NVML_FI_DEV_ECC_SBE_AGG_DEV: number = gpu->ecc_corrected_total; break;
    case NVML_FI_DEV_ECC_DBE_AGG_TOTAL:
    case NVML_FI_DEV_ECC_DBE_AGG_DEV: number = gpu->ecc_uncorrected_total; break;
    case NVML_FI_DEV_MEMORY_TEMP: number = gpu->memory_temperature; break;
    case NVML_FI_DEV_NVLINK_LINK_COUNT: number = gpu->link_count; break;
    case NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON: number = gpu->nvlink_mbps; break;
    case NVML_FI_DEV_REMAPPED_COR: number = gpu->remapped_corrected; break;
    case NVML_FI_DEV_REMAPPED_UNC: number = gpu->remapped_uncorrected; break;
    case NVML_FI_DEV_REMAPPED_PENDING: number = gpu->remap_pending; break;
    case NVML_FI_DEV_REMAPPED_FAILURE: number = gpu->remap_failed; break;
    case NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED: number = gpu->mig_capable && !gpu->mig_reset; break;
    case NVML_FI_DEV_PCIE_REPLAY_COUNTER: number = 0; break;
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
    value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    value->value.uiVal = (unsigned)number;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    struct target on;
    TRY(on_gpu(device, &on));
    REQUIRE(values && count > 0);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = (long long)time(NULL) * 1000000;
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = field(on.gpu, &values[i]);
    }
    return NVML_SUCCESS;
}
