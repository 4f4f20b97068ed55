/* SPDX-License-Identifier: Apache-2.0 */
/* How nvidia-smi reads each field. */
#include "smi_fields.h"

#include <string.h>
#include <time.h>

static void put(struct ask ask, const char *format, unsigned long long value)
{
    snprintf(ask.text, TEXT_SIZE, format, value);
}

#define FIELD(name) static nvmlReturn_t name(struct ask ask)
#define TRY(call)                                                                                                              \
    do {                                                                                                                       \
        nvmlReturn_t try_result = (call);                                                                                      \
        if (try_result != NVML_SUCCESS)                                                                                        \
            return try_result;                                                                                                 \
    } while (0)

/* A field that is one number of NVML's. */
#define NUMBER(field, type, function, divisor)                                                                                 \
    FIELD(field)                                                                                                               \
    {                                                                                                                          \
        type value = 0;                                                                                                        \
        TRY(CALL(function)(ask.gpu->device, &value));                                                                          \
        put(ask, "%llu", (unsigned long long)value / (divisor));                                                               \
        return NVML_SUCCESS;                                                                                                   \
    }
#define STRING(field, function)                                                                                                \
    FIELD(field)                                                                                                               \
    {                                                                                                                          \
        return CALL(function)(ask.gpu->device, ask.text, TEXT_SIZE);                                                           \
    }
#define ENABLED(field, function)                                                                                               \
    FIELD(field)                                                                                                               \
    {                                                                                                                          \
        nvmlEnableState_t value;                                                                                               \
        TRY(CALL(function)(ask.gpu->device, &value));                                                                          \
        snprintf(ask.text, TEXT_SIZE, "%s", on_off(value));                                                                    \
        return NVML_SUCCESS;                                                                                                   \
    }
#define WATTS(field, function)                                                                                                 \
    FIELD(field)                                                                                                               \
    {                                                                                                                          \
        unsigned value = 0;                                                                                                    \
        TRY(CALL(function)(ask.gpu->device, &value));                                                                          \
        snprintf(ask.text, TEXT_SIZE, "%.2f", value / 1000.0);                                                                 \
        return NVML_SUCCESS;                                                                                                   \
    }

STRING(name, nvmlDeviceGetName)
STRING(serial, nvmlDeviceGetSerial)
STRING(uuid, nvmlDeviceGetUUID)
STRING(vbios, nvmlDeviceGetVbiosVersion)
NUMBER(pcie_generation, unsigned, nvmlDeviceGetCurrPcieLinkGeneration, 1)
NUMBER(pcie_width, unsigned, nvmlDeviceGetCurrPcieLinkWidth, 1)
ENABLED(persistence, nvmlDeviceGetPersistenceMode)
ENABLED(display_active, nvmlDeviceGetDisplayActive)
WATTS(power_draw, nvmlDeviceGetPowerUsage)
WATTS(power_limit, nvmlDeviceGetPowerManagementLimit)
NUMBER(bus_width, unsigned, nvmlDeviceGetMemoryBusWidth, 1)

FIELD(stamp)
{
    time_t now = time(NULL);
    struct tm parts;
    strftime(ask.text, TEXT_SIZE, "%Y/%m/%d %H:%M:%S.000", localtime_r(&now, &parts));
    return NVML_SUCCESS;
}

FIELD(driver)
{
    return CALL(nvmlSystemGetDriverVersion)(ask.text, TEXT_SIZE);
}

FIELD(count)
{
    unsigned value = 0;
    TRY(CALL(nvmlDeviceGetCount_v2)(&value));
    put(ask, "%llu", value);
    return NVML_SUCCESS;
}

FIELD(index_of)
{
    put(ask, "%llu", ask.gpu->index);
    return NVML_SUCCESS;
}

FIELD(pci)
{
    snprintf(ask.text, TEXT_SIZE, "%s", ask.gpu->bus_id);
    return NVML_SUCCESS;
}

#define PCI_NUMBER(field, format, member)                                                                                      \
    FIELD(field)                                                                                                               \
    {                                                                                                                          \
        nvmlPciInfo_t info = {0};                                                                                              \
        TRY(CALL(nvmlDeviceGetPciInfo_v3)(ask.gpu->device, &info));                                                            \
        put(ask, format, info.member);                                                                                         \
        return NVML_SUCCESS;                                                                                                   \
    }
PCI_NUMBER(pci_domain, "0x%04llX", domain)
PCI_NUMBER(pci_bus, "0x%02llX", bus)
PCI_NUMBER(pci_device, "0x%02llX", device)
PCI_NUMBER(pci_device_id, "0x%08llX", pciDeviceId)
PCI_NUMBER(pci_subsystem, "0x%08llX", pciSubSystemId)

#define MEMORY(field, member)                                                                                                  \
    FIELD(field)                                                                                                               \
    {                                                                                                                          \
        nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};                                                                   \
        TRY(CALL(nvmlDeviceGetMemoryInfo_v2)(ask.gpu->device, &memory));                                                       \
        put(ask, "%llu", memory.member / (1024 * 1024));                                                                       \
        return NVML_SUCCESS;                                                                                                   \
    }
MEMORY(memory_total, total)
MEMORY(memory_reserved, reserved)
MEMORY(memory_used, used)
MEMORY(memory_free, free)

#define UTILIZATION(field, member)                                                                                             \
    FIELD(field)                                                                                                               \
    {                                                                                                                          \
        nvmlUtilization_t found;                                                                                               \
        TRY(CALL(nvmlDeviceGetUtilizationRates)(ask.gpu->device, &found));                                                     \
        put(ask, "%llu", found.member);                                                                                        \
        return NVML_SUCCESS;                                                                                                   \
    }
UTILIZATION(utilization_gpu, gpu)
UTILIZATION(utilization_memory, memory)

FIELD(compute_capability)
{
    int major, minor;
    TRY(CALL(nvmlDeviceGetCudaComputeCapability)(ask.gpu->device, &major, &minor));
    snprintf(ask.text, TEXT_SIZE, "%d.%d", major, minor);
    return NVML_SUCCESS;
}

FIELD(compute_mode)
{
    snprintf(ask.text, TEXT_SIZE, "Default");
    return NVML_SUCCESS;
}

FIELD(performance)
{
    nvmlPstates_t state;
    TRY(CALL(nvmlDeviceGetPerformanceState)(ask.gpu->device, &state));
    put(ask, "P%llu", (unsigned long long)state);
    return NVML_SUCCESS;
}

FIELD(temperature)
{
    unsigned value;
    TRY(CALL(nvmlDeviceGetTemperature)(ask.gpu->device, NVML_TEMPERATURE_GPU, &value));
    put(ask, "%llu", value);
    return NVML_SUCCESS;
}

static nvmlReturn_t nvml_field(struct ask ask, unsigned id, const char *format)
{
    nvmlFieldValue_t value = {.fieldId = id};
    TRY(CALL(nvmlDeviceGetFieldValues)(ask.gpu->device, 1, &value));
    TRY(value.nvmlReturn);
    put(ask, format, value.value.uiVal);
    return NVML_SUCCESS;
}

#define NVML_FIELD(field, id)                                                                                                  \
    FIELD(field)                                                                                                               \
    {                                                                                                                          \
        return nvml_field(ask, id, "%llu");                                                                                    \
    }
NVML_FIELD(memory_temperature, NVML_FI_DEV_MEMORY_TEMP)
NVML_FIELD(corrected_volatile, NVML_FI_DEV_ECC_SBE_VOL_TOTAL)
NVML_FIELD(uncorrected_volatile, NVML_FI_DEV_ECC_DBE_VOL_TOTAL)
NVML_FIELD(corrected_aggregate, NVML_FI_DEV_ECC_SBE_AGG_TOTAL)
NVML_FIELD(uncorrected_aggregate, NVML_FI_DEV_ECC_DBE_AGG_TOTAL)
NVML_FIELD(remapped_corrected, NVML_FI_DEV_REMAPPED_COR)
NVML_FIELD(remapped_uncorrected, NVML_FI_DEV_REMAPPED_UNC)

FIELD(remap_pending)
{
    TRY(nvml_field(ask, NVML_FI_DEV_REMAPPED_PENDING, "%llu"));
    snprintf(ask.text, TEXT_SIZE, "%s", strcmp(ask.text, "0") == 0 ? "No" : "Yes");
    return NVML_SUCCESS;
}

FIELD(remap_failed)
{
    TRY(nvml_field(ask, NVML_FI_DEV_REMAPPED_FAILURE, "%llu"));
    snprintf(ask.text, TEXT_SIZE, "%s", strcmp(ask.text, "0") == 0 ? "No" : "Yes");
    return NVML_SUCCESS;
}

static nvmlReturn_t pair(struct ask ask, bool second, bool mig)
{
    unsigned current = 0, pending = 0;
    if (mig) {
        TRY(CALL(nvmlDeviceGetMigMode)(ask.gpu->device, &current, &pending));
    } else {
        nvmlEnableState_t first, other;
        TRY(CALL(nvmlDeviceGetEccMode)(ask.gpu->device, &first, &other));
        current = first, pending = other;
    }
    snprintf(ask.text, TEXT_SIZE, "%s", on_off((second ? pending : current) ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED));
    return NVML_SUCCESS;
}

/* clang-format off */
FIELD(mig_current) { return pair(ask, false, true); }
FIELD(mig_pending) { return pair(ask, true, true); }
FIELD(ecc_current) { return pair(ask, false, false); }
FIELD(ecc_pending) { return pair(ask, true, false); }
/* clang-format on */

#define CLOCK(field, function, type)                                                                                           \
    FIELD(field)                                                                                                               \
    {                                                                                                                          \
        unsigned value;                                                                                                        \
        TRY(CALL(function)(ask.gpu->device, type, &value));                                                                    \
        put(ask, "%llu", value);                                                                                               \
        return NVML_SUCCESS;                                                                                                   \
    }
CLOCK(clock_sm, nvmlDeviceGetClockInfo, NVML_CLOCK_SM)
CLOCK(clock_memory, nvmlDeviceGetClockInfo, NVML_CLOCK_MEM)
CLOCK(max_clock_sm, nvmlDeviceGetMaxClockInfo, NVML_CLOCK_SM)
CLOCK(max_clock_memory, nvmlDeviceGetMaxClockInfo, NVML_CLOCK_MEM)

FIELD(fabric_state)
{
    static const char *const NAMES[] = {"[N/A]", "Not Started", "In Progress", "Completed"};
    nvmlGpuFabricInfoV_t info = {.version = nvmlGpuFabricInfo_v3};
    TRY(CALL(nvmlDeviceGetGpuFabricInfoV)(ask.gpu->device, &info));
    snprintf(ask.text, TEXT_SIZE, "%s", NAMES[info.state % 4]);
    return NVML_SUCCESS;
}

FIELD(fabric_status)
{
    TRY(fabric_state(ask));
    snprintf(ask.text, TEXT_SIZE, "%s", strcmp(ask.text, "Completed") == 0 ? "Success" : "[N/A]");
    return NVML_SUCCESS;
}

FIELD(not_available)
{
    (void)ask;
    return NVML_ERROR_NOT_SUPPORTED;
}

const struct field GPU_FIELDS[] = {
    {"timestamp", NULL, NULL, stamp}, {"driver_version", NULL, NULL, driver}, {"count", NULL, NULL, count},
    {"index", NULL, NULL, index_of}, {"name", "gpu_name", NULL, name}, {"serial", "gpu_serial", NULL, serial},
    {"uuid", "gpu_uuid", NULL, uuid}, {"pci.bus_id", "gpu_bus_id", NULL, pci}, {"pci.domain", NULL, NULL, pci_domain},
    {"pci.bus", NULL, NULL, pci_bus}, {"pci.device", NULL, NULL, pci_device}, {"pci.device_id", NULL, NULL, pci_device_id},
    {"pci.sub_device_id", NULL, NULL, pci_subsystem}, {"pcie.link.gen.current", "pcie.link.gen.gpucurrent", NULL, pcie_generation},
    {"pcie.link.gen.max", NULL, NULL, pcie_generation}, {"pcie.link.width.current", NULL, NULL, pcie_width},
    {"pcie.link.width.max", NULL, NULL, pcie_width}, {"display_active", NULL, NULL, display_active},
    {"persistence_mode", NULL, NULL, persistence}, {"vbios_version", NULL, NULL, vbios}, {"fan.speed", NULL, "%", not_available},
    {"pstate", NULL, NULL, performance}, {"memory.total", NULL, "MiB", memory_total},
    {"memory.reserved", NULL, "MiB", memory_reserved}, {"memory.used", NULL, "MiB", memory_used},
    {"memory.free", NULL, "MiB", memory_free}, {"memory.bus_width", NULL, NULL, bus_width},
    {"compute_mode", NULL, NULL, compute_mode}, {"compute_cap", NULL, NULL, compute_capability},
    {"utilization.gpu", NULL, "%", utilization_gpu}, {"utilization.memory", NULL, "%", utilization_memory},
    {"ecc.mode.current", NULL, NULL, ecc_current}, {"ecc.mode.pending", NULL, NULL, ecc_pending},
    {"ecc.errors.corrected.volatile.total", NULL, NULL, corrected_volatile},
    {"ecc.errors.corrected.aggregate.total", NULL, NULL, corrected_aggregate},
    {"ecc.errors.uncorrected.volatile.total", NULL, NULL, uncorrected_volatile},
    {"ecc.errors.uncorrected.aggregate.total", NULL, NULL, uncorrected_aggregate},
    {"retired_pages.pending", NULL, NULL, not_available}, {"temperature.gpu", NULL, NULL, temperature},
    {"temperature.memory", NULL, NULL, memory_temperature}, {"power.draw", "power.draw.instant", "W", power_draw},
    {"power.limit", "enforced.power.limit", "W", power_limit}, {"power.default_limit", NULL, "W", power_limit},
    {"clocks.current.sm", "clocks.sm", "MHz", clock_sm}, {"clocks.current.memory", "clocks.mem", "MHz", clock_memory},
    {"clocks.current.graphics", "clocks.gr", "MHz", clock_sm}, {"clocks.max.sm", NULL, "MHz", max_clock_sm},
    {"clocks.max.memory", "clocks.max.mem", "MHz", max_clock_memory}, {"mig.mode.current", NULL, NULL, mig_current},
    {"mig.mode.pending", NULL, NULL, mig_pending}, {"fabric.state", NULL, NULL, fabric_state},
    {"fabric.status", NULL, NULL, fabric_status},
};

const struct field ROW_FIELDS[] = {
    {"gpu_name", "name", NULL, name}, {"gpu_bus_id", NULL, NULL, pci}, {"gpu_uuid", "uuid", NULL, uuid},
    {"remapped_rows.correctable", NULL, NULL, remapped_corrected},
    {"remapped_rows.uncorrectable", NULL, NULL, remapped_uncorrected}, {"remapped_rows.pending", NULL, NULL, remap_pending},
    {"remapped_rows.failure", NULL, NULL, remap_failed},
};

const struct field APP_FIELDS[] = {
    {"timestamp", NULL, NULL, NULL}, {"gpu_name", NULL, NULL, NULL}, {"gpu_bus_id", NULL, NULL, NULL},
    {"gpu_serial", NULL, NULL, NULL}, {"gpu_uuid", NULL, NULL, NULL}, {"pid", NULL, NULL, NULL},
    {"process_name", "name", NULL, NULL}, {"used_gpu_memory", "used_memory", "MiB", NULL},
};

#define COUNT(fields) ((int)(sizeof fields / sizeof fields[0]))
const int GPU_FIELD_COUNT = COUNT(GPU_FIELDS), ROW_FIELD_COUNT = COUNT(ROW_FIELDS), APP_FIELD_COUNT = COUNT(APP_FIELDS);
