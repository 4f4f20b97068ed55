/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs a command of nvidia-smi works on. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "smi.h"
#include "state.h"

struct chosen gpus[MOST_GPUS];
int gpu_count;

static bool named(const struct chosen *gpu, const char *ids)
{
    char copy[1024], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", ids);
    for (char *id = strtok_r(copy, ",", &rest); id; id = strtok_r(NULL, ",", &rest)) {
        char *end;
        unsigned long index = strtoul(id, &end, 10);
        struct pci wanted, mine;
        if (*id && !*end) {
            if (index == gpu->index)
                return true;
        } else if (strcasecmp(id, gpu->uuid) == 0) {
            return true;
        } else if (pci_parse(id, &wanted) && pci_parse(gpu->bus_id, &mine) && pci_same(&wanted, &mine)) {
            return true;
        }
    }
    return false;
}

/* What is kept of a lost GPU, which NVML gives no handle for: its address, from the hardware's side. */
static void fill_lost(struct chosen *gpu)
{
    struct state *state = malloc(sizeof *state);
    unsigned left = gpu->index;
    if (state && state_read(state) == 0)
        for (int i = 0; i < state->gpu_count; i++) {
            char node[32];
            snprintf(node, sizeof node, "/dev/nvidia%d", state->gpus[i].minor);
            if (gpu_driven(state, &state->gpus[i]) && access(rooted(node), F_OK) == 0 && left-- == 0) {
                pci_text(&state->gpus[i].pci, gpu->bus_id, sizeof gpu->bus_id);
                snprintf(gpu->uuid, sizeof gpu->uuid, "%s", state->gpus[i].uuid);
                snprintf(gpu->name, sizeof gpu->name, "%s", state->gpus[i].name);
            }
        }
    free(state);
}

int choose(const char *ids)
{
    unsigned count = 0;
    nvmlReturn_t result = CALL(nvmlDeviceGetCount_v2)(&count);
    if (result != NVML_SUCCESS) {
        printf("Unable to determine the number of GPUs: %s\n", CALL(nvmlErrorString)(result));
        return (int)result;
    }
    if (count == 0) {
        printf("No devices were found\n");
        return EXIT_NO_DEVICES;
    }
    for (unsigned i = 0; i < count && gpu_count < MOST_GPUS; i++) {
        struct chosen *gpu = &gpus[gpu_count];
        memset(gpu, 0, sizeof *gpu);
        gpu->index = i;
        gpu->result = CALL(nvmlDeviceGetHandleByIndex_v2)(i, &gpu->device);
        if (gpu->result == NVML_SUCCESS) {
            nvmlPciInfo_t info = {0};
            CALL(nvmlDeviceGetPciInfo_v3)(gpu->device, &info);
            snprintf(gpu->bus_id, sizeof gpu->bus_id, "%s", info.busId);
            CALL(nvmlDeviceGetUUID)(gpu->device, gpu->uuid, sizeof gpu->uuid);
            CALL(nvmlDeviceGetName)(gpu->device, gpu->name, sizeof gpu->name);
        } else {
            gpu->device = NULL;
            fill_lost(gpu);
        }
        if (!ids || named(gpu, ids))
            gpu_count++;
    }
    if (gpu_count == 0) {
        printf("No devices were found\n");
        return EXIT_NO_DEVICES;
    }
    return 0;
}

int report_lost(FILE *out)
{
    int code = 0;
    for (int i = 0; i < gpu_count; i++)
        if (!gpus[i].device) {
            /* Without the upper half of the domain, which NVML alone writes. */
            fprintf(out, "Unable to determine the device handle for GPU%d: %s: %s.  Reboot the system to recover this GPU\n",
                    gpus[i].index, gpus[i].bus_id + 4, CALL(nvmlErrorString)(gpus[i].result));
            code = (int)gpus[i].result;
        }
    return code;
}
