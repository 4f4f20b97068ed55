/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the state file, and how they are written. */
#include "statekeys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HOST(name, kind) {#name, kind, offsetof(struct state, name)}
#define GPU(name, kind) {#name, kind, offsetof(struct gpu, name)}

const struct key HOST_KEYS[] = {HOST(profile, STRING), HOST(product, STRING), HOST(fabric, STRING),
                                       HOST(xid_sequence, NUMBER)};
const struct key DRIVER_KEYS[] = {HOST(loaded, STRING), HOST(loaded_modules, STRING), HOST(fabric_ready, NUMBER),
                                         HOST(hang, NUMBER)};
const struct key GPU_KEYS[] = {
    GPU(name, STRING), GPU(uuid, STRING), GPU(serial, STRING), GPU(part, STRING), GPU(vbios, STRING),
    GPU(architecture, STRING), GPU(brand, STRING), GPU(modules, STRING), GPU(pci, PCI), GPU(device_id, HEX),
    GPU(subsystem_id, HEX), GPU(minor, NUMBER), GPU(numa, NUMBER), GPU(compute_major, NUMBER), GPU(compute_minor, NUMBER),
    GPU(cores, NUMBER), GPU(sms, NUMBER), GPU(memory_bus_bits, NUMBER), GPU(pcie_generation, NUMBER), GPU(pcie_width, NUMBER),
    GPU(memory_mib, NUMBER), GPU(reserved_mib, NUMBER), GPU(used_mib, NUMBER), GPU(temperature, NUMBER),
    GPU(memory_temperature, NUMBER), GPU(temperature_slowdown, NUMBER), GPU(temperature_shutdown, NUMBER),
    GPU(power_mw, NUMBER), GPU(power_limit_mw, NUMBER), GPU(power_min_mw, NUMBER), GPU(power_max_mw, NUMBER),
    GPU(utilization, NUMBER), GPU(memory_utilization, NUMBER), GPU(sm_clock, NUMBER), GPU(memory_clock, NUMBER),
    GPU(max_sm_clock, NUMBER), GPU(max_memory_clock, NUMBER), GPU(nvlink_generation, NUMBER), GPU(nvlink_mbps, NUMBER),
    GPU(ecc, NUMBER), GPU(ecc_corrected, NUMBER), GPU(ecc_uncorrected, NUMBER), GPU(ecc_corrected_total, NUMBER),
    GPU(ecc_uncorrected_total, NUMBER), GPU(remapped_corrected, NUMBER), GPU(remapped_uncorrected, NUMBER),
    GPU(remap_pending, NUMBER), GPU(remap_failed, NUMBER), GPU(persistence, NUMBER), GPU(mig_capable, NUMBER),
    GPU(mig, NUMBER), GPU(mig_pending, NUMBER), GPU(mig_reset, NUMBER), GPU(lost, NUMBER), GPU(absent, NUMBER),
};

const size_t HOST_KEY_COUNT = sizeof HOST_KEYS / sizeof HOST_KEYS[0];
const size_t DRIVER_KEY_COUNT = sizeof DRIVER_KEYS / sizeof DRIVER_KEYS[0];
const size_t GPU_KEY_COUNT = sizeof GPU_KEYS / sizeof GPU_KEYS[0];

static void write_keys(FILE *out, const struct key *keys, size_t count, const void *object)
{
    for (size_t i = 0; i < count; i++) {
        const void *member = (const char *)object + keys[i].offset;
        char text[24];
        if (keys[i].kind == STRING) {
            fprintf(out, "%s = %s\n", keys[i].name, (const char *)member);
        } else if (keys[i].kind == PCI) {
            pci_kernel_text(member, text, sizeof text);
            fprintf(out, "%s = %s\n", keys[i].name, text);
        } else if (keys[i].kind == HEX) {
            fprintf(out, "%s = %08x\n", keys[i].name, *(const unsigned *)member);
        } else {
            fprintf(out, "%s = %d\n", keys[i].name, *(const int *)member);
        }
    }
}

static void write_gpu(FILE *out, const struct gpu *gpu)
{
    char address[24];
    write_keys(out, GPU_KEYS, GPU_KEY_COUNT, gpu);
    for (int i = 0; i < gpu->link_count; i++) {
        pci_kernel_text(&gpu->links[i].remote, address, sizeof address);
        fprintf(out, "link = %s %s\n", gpu->links[i].kind == LINK_GPU ? "gpu" : "switch", address);
    }
    for (int i = 0; i < gpu->instance_count; i++) {
        const struct gpu_instance *one = &gpu->instances[i];
        fprintf(out, "gi = %d %d %d\n", one->id, one->profile, one->start);
        for (int j = 0; j < one->compute_count; j++)
            fprintf(out, "ci = %d %d %d\n", one->compute[j].id, one->compute[j].slices, one->compute[j].start);
    }
    for (int i = 0; i < gpu->xid_count; i++)
        fprintf(out, "xid = %u %u %lld\n", gpu->xids[i].sequence, gpu->xids[i].code, gpu->xids[i].time);
}

static void write_state(FILE *out, const struct state *state)
{
    char address[24];
    fprintf(out, "format = 1\ngeneration = %u\n[host]\n", state->generation);
    write_keys(out, HOST_KEYS, HOST_KEY_COUNT, state);
    for (int i = 0; i < state->numa_count; i++)
        fprintf(out, "numa_cpus = %s\n", state->numa_cpus[i]);
    for (int i = 0; i < state->switch_count; i++) {
        pci_kernel_text(&state->switches[i], address, sizeof address);
        fprintf(out, "switch = %s\n", address);
    }
    fprintf(out, "[driver]\n");
    write_keys(out, DRIVER_KEYS, DRIVER_KEY_COUNT, state);
    fprintf(out, "[mig]\n");
    for (int i = 0; i < state->profile_count; i++) {
        const struct mig_profile *one = &state->profiles[i];
        fprintf(out, "profile = %d %s %d %d %d %d %d %d %d %d %u ", one->id, one->name, one->index, one->slices, one->size,
                one->sms, one->copy_engines, one->decoders, one->jpegs, one->ofas, one->memory_mib);
        for (int j = 0; j < one->placement_count; j++)
            fprintf(out, "%s%d", j ? "," : "", one->placements[j]);
        fprintf(out, "\n");
    }
    for (int i = 0; i < state->gpu_count; i++) {
        fprintf(out, "[gpu %d]\n", i);
        write_gpu(out, &state->gpus[i]);
    }
    fprintf(out, "[end %u]\n", state->generation);
}

int state_write(int file, const struct state *state)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return ENOMEM;
    write_state(out, state);
    fclose(out);
    int result = pwrite(file, text, length, 0) == (ssize_t)length && ftruncate(file, (off_t)length) == 0 ? 0 : errno;
    free(text);
    return result;
}
