/* SPDX-License-Identifier: Apache-2.0 */
#include "mig.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_SLICES 8
#define COMPUTE_SLICES 7

static bool place_free(const struct state *state, const struct gpu *gpu, const struct mig_profile *profile, int start)
{
    int slices = profile->slices;
    for (int i = 0; i < gpu->instance_count; i++) {
        const struct mig_profile *other = find_profile(state, gpu->instances[i].profile);
        if (!other)
            continue;
        slices += other->slices;
        if (start < gpu->instances[i].start + other->size && gpu->instances[i].start < start + profile->size)
            return false;
    }
    return slices <= COMPUTE_SLICES && gpu->instance_count < MAX_INSTANCES;
}

int mig_place(const struct state *state, const struct gpu *gpu, const struct mig_profile *profile, int from)
{
    /* Media engines that only one instance can have. */
    if (strchr(profile->name, '+'))
        for (int i = 0; i < gpu->instance_count; i++)
            if (gpu->instances[i].profile == profile->id)
                return -1;
    for (int i = profile->placement_count - 1; i >= 0; i--)
        if ((from < 0 || profile->placements[i] == from) && place_free(state, gpu, profile, profile->placements[i]))
            return profile->placements[i];
    return -1;
}

int mig_capacity(const struct state *state, const struct gpu *gpu, const struct mig_profile *profile)
{
    struct state *copy = malloc(sizeof *copy);
    if (!copy)
        return 0;
    *copy = *state;
    struct gpu *trial = &copy->gpus[gpu - state->gpus];
    int count = 0;
    while (mig_add(copy, trial, profile, -1))
        count++;
    free(copy);
    return count;
}

static int by_id(const void *one, const void *other)
{
    return ((const struct gpu_instance *)one)->id - ((const struct gpu_instance *)other)->id;
}

struct gpu_instance *mig_add(struct state *state, struct gpu *gpu, const struct mig_profile *profile, int from)
{
    int start = mig_place(state, gpu, profile, from);
    if (start < 0)
        return NULL;
    /* The driver numbers instances along the tree of halved GPUs: the whole is 0, its halves 1 and 2, the quarters 3 to 6, … */
    int id = MEMORY_SLICES / profile->size - 1 + start / profile->size;
    gpu->instances[gpu->instance_count++] = (struct gpu_instance){.id = id, .profile = profile->id, .start = start};
    qsort(gpu->instances, (size_t)gpu->instance_count, sizeof gpu->instances[0], by_id);
    for (int i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].id == id)
            return &gpu->instances[i];
    return NULL;
}

void mig_remove(struct gpu *gpu, int id)
{
    for (int i = 0; i < gpu->instance_count; i++)
        if (gpu->instances[i].id == id) {
            memmove(&gpu->instances[i], &gpu->instances[i + 1], sizeof gpu->instances[0] * (size_t)(gpu->instance_count - i - 1));
            gpu->instance_count--;
            return;
        }
}

int compute_free(const struct gpu_instance *instance, const struct mig_profile *profile)
{
    int slices = profile->slices;
    for (int i = 0; i < instance->compute_count; i++)
        slices -= instance->compute[i].slices;
    return slices;
}

struct compute_instance *compute_add(struct gpu_instance *instance, const struct mig_profile *profile, int slices)
{
    if (slices <= 0 || slices > compute_free(instance, profile) || instance->compute_count == MAX_INSTANCES)
        return NULL;
    int id = 0, start = 0;
    for (int i = 0; i < instance->compute_count; i++)
        if (instance->compute[i].id == id) {
            id++;
            i = -1;
        }
    for (int i = 0; i < instance->compute_count; i++)
        if (start < instance->compute[i].start + instance->compute[i].slices && instance->compute[i].start < start + slices) {
            start = instance->compute[i].start + instance->compute[i].slices;
            i = -1;
        }
    if (start + slices > profile->slices)
        return NULL;
    instance->compute[instance->compute_count] = (struct compute_instance){.id = id, .slices = slices, .start = start};
    return &instance->compute[instance->compute_count++];
}

void compute_remove(struct gpu_instance *instance, int id)
{
    for (int i = 0; i < instance->compute_count; i++)
        if (instance->compute[i].id == id) {
            memmove(&instance->compute[i], &instance->compute[i + 1],
                    sizeof instance->compute[0] * (size_t)(instance->compute_count - i - 1));
            instance->compute_count--;
            return;
        }
}
