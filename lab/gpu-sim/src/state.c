/* SPDX-License-Identifier: Apache-2.0 */
/* What the state means: lookups and the names of things. */
#include "state.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST_STATE "/var/lib/gpu-sim/state"
/* The container toolkit mounts the driver's firmware (gsp*.bin) into containers; one of these files leads to the state. */
#define CONTAINER_STATE "/lib/firmware/nvidia/" DRIVER_VERSION "/gsp_sim.bin"

#define INSTANCES_PER_GPU 15
#define COMPUTE_PER_INSTANCE 8
#define FIRST_CAP_MINOR 3

/* Containers that mount the host's root somewhere (the device plugin) load the library from there: the state is there too. */
static const char *beside_library(void)
{
    static __thread char path[512];
    Dl_info info;
    if (!dladdr((void *)(uintptr_t)state_path, &info) || !info.dli_fname)
        return NULL;
    const char *end = strstr(info.dli_fname, "/usr/lib/");
    if (!end)
        end = strstr(info.dli_fname, "/lib/");
    if (!end || end == info.dli_fname)
        return NULL;
    snprintf(path, sizeof path, "%.*s" HOST_STATE, (int)(end - info.dli_fname), info.dli_fname);
    return access(path, F_OK) == 0 ? path : NULL;
}

const char *state_path(void)
{
    const char *named = getenv("GPU_SIM_STATE");
    if (named && *named)
        return named;
    if (access(HOST_STATE, F_OK) == 0)
        return HOST_STATE;
    const char *beside = beside_library();
    return beside ? beside : CONTAINER_STATE;
}

const char *rooted(const char *path)
{
    static __thread char buffers[4][512];
    static __thread unsigned next;
    const char *root = getenv("GPU_SIM_ROOT");
    if (!root || !*root)
        return path;
    char *buffer = buffers[next++ % 4];
    snprintf(buffer, sizeof buffers[0], "%s%s", root, path);
    return buffer;
}

bool gpu_driven(const struct state *state, const struct gpu *gpu)
{
    if (gpu->absent || !state->loaded[0])
        return false;
    /* gpu->modules names the only flavour that knows the architecture, "" when both do. */
    return !gpu->modules[0] || !state->loaded_modules[0] || strcmp(gpu->modules, state->loaded_modules) == 0;
}

void pci_text(const struct pci *pci, char *text, size_t size)
{
    snprintf(text, size, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
}

void pci_kernel_text(const struct pci *pci, char *text, size_t size)
{
    snprintf(text, size, "%04x:%02x:%02x.0", pci->domain, pci->bus, pci->device);
}

bool pci_parse(const char *text, struct pci *pci)
{
    memset(pci, 0, sizeof *pci);
    if (sscanf(text, "%x:%x:%x.0", &pci->domain, &pci->bus, &pci->device) == 3)
        return true;
    pci->domain = 0;
    return sscanf(text, "%x:%x.0", &pci->bus, &pci->device) == 2;
}

bool pci_same(const struct pci *one, const struct pci *other)
{
    return one->domain == other->domain && one->bus == other->bus && one->device == other->device;
}

const struct mig_profile *find_profile(const struct state *state, int id)
{
    for (int i = 0; i < state->profile_count; i++)
        if (state->profiles[i].id == id)
            return &state->profiles[i];
    return NULL;
}

/* FNV-1a, enough to tell names apart. */
static uint64_t hash(uint64_t seed, const char *text)
{
    uint64_t value = 14695981039346656037ULL ^ seed;
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * 1099511628211ULL;
    value ^= value >> 29;
    value *= 0xbf58476d1ce4e5b9ULL;
    return value ^ value >> 32;
}

void mig_uuid(const struct gpu *gpu, int gpu_instance, int compute_instance, char *text, size_t size)
{
    char name[TEXT + 32];
    snprintf(name, sizeof name, "%s/%d/%d", gpu->uuid, gpu_instance, compute_instance);
    uint64_t high = hash(1, name), low = hash(2, name);
    /* Version 5, as the driver's are: made from names. */
    snprintf(text, size, "MIG-%08x-%04x-5%03x-%04x-%012llx", (unsigned)(high >> 32), (unsigned)(high >> 16 & 0xffff),
             (unsigned)(high & 0xfff), (unsigned)(0x8000 | (low >> 48 & 0x3fff)), (unsigned long long)(low & 0xffffffffffffULL));
}

int cap_minor(int gpu_minor, int gpu_instance, int compute_instance)
{
    int per_instance = 1 + COMPUTE_PER_INSTANCE;
    return FIRST_CAP_MINOR + (gpu_minor * INSTANCES_PER_GPU + gpu_instance) * per_instance + 1 + compute_instance;
}
