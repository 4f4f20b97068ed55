/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi mig: what its parts share. */
#ifndef GPU_SIM_SMI_MIG_H
#define GPU_SIM_SMI_MIG_H

#include "smi.h"

#define MOST_INSTANCES 8

struct options {
    const char *gpus, *create, *create_compute, *instances, *computes;
    bool profiles, placements, list, list_compute, destroy, destroy_compute, with_compute;
};

typedef nvmlGpuInstanceProfileInfo_v2_t profile_info;

typedef int (*instance_work)(const struct chosen *gpu, nvmlGpuInstance_t instance, const nvmlGpuInstanceInfo_t *info,
                             const profile_info *profile, const struct options *options);
typedef int (*compute_work)(nvmlComputeInstance_t compute, const nvmlComputeInstanceInfo_t *info, const void *context);

/* Where a compute instance is. */
struct context {
    const struct chosen *gpu;
    const nvmlGpuInstanceInfo_t *instance;
    const profile_info *profile;
};

const char *nvml_error(nvmlReturn_t result);

/* The profile of a GPU by index (NVML_GPU_INSTANCE_PROFILE_*); false for one it has not. */
bool profile_at(const struct chosen *gpu, unsigned index, profile_info *info);
bool mig_on(const struct chosen *gpu);

/* Call `work` for every GPU instance that the options name; how many there were. */
int each_instance(const struct options *options, instance_work work, int *code);
/* Call `work` for every compute instance of a GPU instance that the options name; the code of one that failed. */
int each_compute(nvmlGpuInstance_t instance, const struct options *options, compute_work work, const void *context);

int list_profiles(void);
int list_placements(void);
int list_instances(const struct options *options);
int list_computes(const struct options *options);

#endif
