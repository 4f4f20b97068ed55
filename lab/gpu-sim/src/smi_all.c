/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi -q: what is known of each GPU, in the real program's order and words as far as it goes. */
#include <string.h>
#include <time.h>

#include "smi_fields.h"

/* A line of the report: its depth, its title, and the field that has the value (NULL: a heading). */
struct line {
    int depth;
    const char *title, *field;
};

static const struct line LINES[] = {
    {1, "Product Name", "name"},
    {1, "Display Active", "display_active"},
    {1, "Persistence Mode", "persistence_mode"},
    {1, "MIG Mode", NULL},
    {2, "Current", "mig.mode.current"},
    {2, "Pending", "mig.mode.pending"},
    {1, "Serial Number", "serial"},
    {1, "GPU UUID", "uuid"},
    {1, "VBIOS Version", "vbios_version"},
    {1, "GPU Fabric", NULL},
    {2, "State", "fabric.state"},
    {2, "Status", "fabric.status"},
    {1, "PCI", NULL},
    {2, "Bus", "pci.bus"},
    {2, "Device", "pci.device"},
    {2, "Domain", "pci.domain"},
    {2, "Device Id", "pci.device_id"},
    {2, "Bus Id", "pci.bus_id"},
    {2, "Sub System Id", "pci.sub_device_id"},
    {2, "GPU Link Info", NULL},
    {3, "PCIe Generation", "pcie.link.gen.current"},
    {3, "Link Width", "pcie.link.width.current"},
    {1, "Performance State", "pstate"},
    {1, "FB Memory Usage", NULL},
    {2, "Total", "memory.total"},
    {2, "Reserved", "memory.reserved"},
    {2, "Used", "memory.used"},
    {2, "Free", "memory.free"},
    {1, "Compute Mode", "compute_mode"},
    {1, "Utilization", NULL},
    {2, "GPU", "utilization.gpu"},
    {2, "Memory", "utilization.memory"},
    {1, "ECC Mode", NULL},
    {2, "Current", "ecc.mode.current"},
    {2, "Pending", "ecc.mode.pending"},
    {1, "ECC Errors", NULL},
    {2, "Volatile", NULL},
    {3, "DRAM Correctable", "ecc.errors.corrected.volatile.total"},
    {3, "DRAM Uncorrectable", "ecc.errors.uncorrected.volatile.total"},
    {2, "Aggregate", NULL},
    {3, "DRAM Correctable", "ecc.errors.corrected.aggregate.total"},
    {3, "DRAM Uncorrectable", "ecc.errors.uncorrected.aggregate.total"},
    {1, "Remapped Rows", NULL},
    {2, "Correctable Error", "remapped_rows.correctable"},
    {2, "Uncorrectable Error", "remapped_rows.uncorrectable"},
    {2, "Pending", "remapped_rows.pending"},
    {2, "Remapping Failure Occurred", "remapped_rows.failure"},
    {1, "Temperature", NULL},
    {2, "GPU Current Temp", "temperature.gpu"},
    {2, "Memory Current Temp", "temperature.memory"},
    {1, "GPU Power Readings", NULL},
    {2, "Instantaneous Power Draw", "power.draw"},
    {2, "Current Power Limit", "power.limit"},
    {1, "Clocks", NULL},
    {2, "SM", "clocks.sm"},
    {2, "Memory", "clocks.mem"},
    {1, "Max Clocks", NULL},
    {2, "SM", "clocks.max.sm"},
    {2, "Memory", "clocks.max.memory"},
};

static const struct field *find(const char *name)
{
    for (int i = 0; i < GPU_FIELD_COUNT; i++)
        if (strcmp(GPU_FIELDS[i].name, name) == 0 || (GPU_FIELDS[i].alias && strcmp(GPU_FIELDS[i].alias, name) == 0))
            return &GPU_FIELDS[i];
    for (int i = 0; i < ROW_FIELD_COUNT; i++)
        if (strcmp(ROW_FIELDS[i].name, name) == 0)
            return &ROW_FIELDS[i];
    return NULL;
}

static void print(int depth, const char *title, const char *value)
{
    if (value)
        printf("%*s%-*s: %s\n", depth * 4, "", 50 - depth * 4, title, value);
    else
        printf("%*s%s\n", depth * 4, "", title);
}

static void print_gpu(const struct chosen *gpu)
{
    printf("GPU %s\n", gpu->bus_id);
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        const struct line *line = &LINES[i];
        const struct field *field = line->field ? find(line->field) : NULL;
        if (!field) {
            print(line->depth, line->title, NULL);
            continue;
        }
        char text[TEXT_SIZE] = "", value[TEXT_SIZE + 16];
        nvmlReturn_t result = field->get((struct ask){gpu, text});
        if (result != NVML_SUCCESS)
            snprintf(value, sizeof value, "%s", result == NVML_ERROR_NOT_SUPPORTED ? "N/A" : missing(result));
        else
            snprintf(value, sizeof value, "%s%s%s", text, field->unit ? " " : "", field->unit ? field->unit : "");
        print(line->depth, line->title, value);
    }
    printf("    %-46s: None\n\n", "Processes");
}

int smi_query_all(void)
{
    char version[80] = "", now[32], text[16];
    int cuda = 0;
    time_t seconds = time(NULL);
    struct tm parts;
    CALL(nvmlSystemGetDriverVersion)(version, sizeof version);
    CALL(nvmlSystemGetCudaDriverVersion_v2)(&cuda);
    strftime(now, sizeof now, "%a %b %e %H:%M:%S %Y", localtime_r(&seconds, &parts));
    printf("\n==============NVSMI LOG==============\n\n");
    print(0, "Timestamp", now);
    print(0, "Driver Version", version);
    snprintf(text, sizeof text, "%d.%d", cuda / 1000, cuda % 1000 / 10);
    print(0, "CUDA Version", text);
    snprintf(text, sizeof text, "%d", gpu_count);
    printf("\n");
    print(0, "Attached GPUs", text);
    for (int i = 0; i < gpu_count; i++)
        if (gpus[i].device)
            print_gpu(&gpus[i]);
    return report_lost(stdout);
}
