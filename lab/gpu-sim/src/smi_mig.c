/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi mig: its command line, and what it makes and removes. */
#include "smi_mig.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int removed;

static int drop_compute(nvmlComputeInstance_t compute, const nvmlComputeInstanceInfo_t *info, const void *argument)
{
    const struct context *context = argument;
    nvmlReturn_t result = CALL(nvmlComputeInstanceDestroy)(compute);
    removed++;
    if (result == NVML_SUCCESS)
        printf("Successfully destroyed compute instance ID %2u from GPU %2u GPU instance ID %2u\n", info->id, context->gpu->index,
               context->instance->id);
    else
        printf("Unable to destroy compute instance ID %2u from GPU %2u GPU instance ID %2u: %s\n", info->id, context->gpu->index,
               context->instance->id, nvml_error(result));
    return (int)result;
}

static int drop_computes(const struct chosen *gpu, nvmlGpuInstance_t instance, const nvmlGpuInstanceInfo_t *info,
                         const profile_info *profile, const struct options *options)
{
    struct context context = {gpu, info, profile};
    return each_compute(instance, options, drop_compute, &context);
}

static int drop_instance(const struct chosen *gpu, nvmlGpuInstance_t instance, const nvmlGpuInstanceInfo_t *info,
                         const profile_info *profile, const struct options *options)
{
    (void)profile, (void)options;
    nvmlReturn_t result = CALL(nvmlGpuInstanceDestroy)(instance);
    if (result == NVML_SUCCESS)
        printf("Successfully destroyed GPU instance ID %2u from GPU %2u\n", info->id, gpu->index);
    else
        printf("Unable to destroy GPU instance ID %2u from GPU %2u: %s\n", info->id, gpu->index, nvml_error(result));
    return (int)result;
}

/* A compute instance of all of the GPU instance's slices. */
static int whole_compute(const struct chosen *gpu, nvmlGpuInstance_t instance, const nvmlGpuInstanceInfo_t *info,
                         const profile_info *profile, const struct options *options)
{
    (void)options;
    for (unsigned i = 0; i < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; i++) {
        nvmlComputeInstanceProfileInfo_t found;
        nvmlComputeInstance_t compute;
        nvmlComputeInstanceInfo_t made;
        if (CALL(nvmlGpuInstanceGetComputeInstanceProfileInfo)(instance, i, 0, &found) != NVML_SUCCESS ||
            found.sliceCount != profile->sliceCount)
            continue;
        nvmlReturn_t result = CALL(nvmlGpuInstanceCreateComputeInstance)(instance, i, &compute);
        if (result == NVML_SUCCESS && CALL(nvmlComputeInstanceGetInfo_v2)(compute, &made) == NVML_SUCCESS) {
            printf("Successfully created compute instance ID %2u on GPU %2u GPU instance ID %2u using profile %s (ID %2u)\n",
                   made.id, gpu->index, info->id, profile->name, i);
            return 0;
        }
        printf("Unable to create a compute instance on GPU %2u GPU instance ID %2u using profile %u: %s\n", gpu->index, info->id,
               i, nvml_error(result));
        return (int)result;
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

static bool find_profile(const struct chosen *gpu, const char *name, profile_info *profile)
{
    char *end;
    unsigned long id = strtoul(name, &end, 10);
    for (unsigned i = 0; i < NVML_GPU_INSTANCE_PROFILE_COUNT; i++)
        if (profile_at(gpu, i, profile)) {
            if (*end == '\0' ? profile->id == id : strcasecmp(profile->name + strlen("MIG "), name) == 0)
                return true;
        }
    return false;
}

static int create_one(const struct chosen *gpu, char *spec, const struct options *options)
{
    profile_info profile;
    nvmlGpuInstance_t instance;
    nvmlGpuInstanceInfo_t info;
    nvmlGpuInstancePlacement_t placement = {0};
    char *start = strchr(spec, ':');
    if (start)
        *start++ = '\0';
    nvmlReturn_t result = NVML_ERROR_INVALID_ARGUMENT;
    if (!mig_on(gpu))
        result = NVML_ERROR_NOT_SUPPORTED;
    else if (find_profile(gpu, spec, &profile)) {
        placement.start = start ? (unsigned)strtoul(start, NULL, 10) : 0;
        result = start ? CALL(nvmlDeviceCreateGpuInstanceWithPlacement)(gpu->device, profile.id, &placement, &instance)
                       : CALL(nvmlDeviceCreateGpuInstance)(gpu->device, profile.id, &instance);
    }
    if (result != NVML_SUCCESS || CALL(nvmlGpuInstanceGetInfo)(instance, &info) != NVML_SUCCESS) {
        printf("Unable to create a GPU instance on GPU %2u using profile %s: %s\nFailed to create GPU instances: %s\n", gpu->index,
               spec, nvml_error(result), nvml_error(result));
        return (int)result;
    }
    printf("Successfully created GPU instance ID %2u on GPU %2u using profile %s (ID %2u)\n", info.id, gpu->index, profile.name,
           profile.id);
    return options->with_compute ? whole_compute(gpu, instance, &info, &profile, options) : 0;
}

static int create(const struct options *options)
{
    for (int i = 0; i < gpu_count; i++) {
        char copy[512], *rest = NULL;
        snprintf(copy, sizeof copy, "%s", options->create);
        for (char *spec = strtok_r(copy, ",", &rest); spec; spec = strtok_r(NULL, ",", &rest)) {
            int code = gpus[i].device ? create_one(&gpus[i], spec, options) : NVML_ERROR_GPU_IS_LOST;
            if (code != 0)
                return code;
        }
    }
    return 0;
}

static bool is(const char *argument, const char *brief, const char *full)
{
    return strcmp(argument, brief) == 0 || strcmp(argument, full) == 0;
}

static int parse(int count, char **arguments, struct options *options)
{
    for (int i = 0; i < count; i++) {
        const char *argument = arguments[i], *next = i + 1 < count && arguments[i + 1][0] != '-' ? arguments[i + 1] : NULL;
        const char **value = is(argument, "-i", "--id")                              ? &options->gpus
                             : is(argument, "-gi", "--gpu-instance-id")              ? &options->instances
                             : is(argument, "-ci", "--compute-instance-id")          ? &options->computes
                             : is(argument, "-cgi", "--create-gpu-instance")         ? &options->create
                             : is(argument, "-cci", "--create-compute-instance")     ? &options->create_compute
                                                                                     : NULL;
        bool *flag = is(argument, "-lgip", "--list-gpu-instance-profiles")                       ? &options->profiles
                     : is(argument, "-lgipp", "--list-gpu-instance-possible-placements")         ? &options->placements
                     : is(argument, "-lgi", "--list-gpu-instances")                              ? &options->list
                     : is(argument, "-lci", "--list-compute-instances")                          ? &options->list_compute
                     : is(argument, "-dgi", "--destroy-gpu-instance")                            ? &options->destroy
                     : is(argument, "-dci", "--destroy-compute-instance")                        ? &options->destroy_compute
                     : is(argument, "-C", "--default-compute-instance")                          ? &options->with_compute
                                                                                                 : NULL;
        if (flag) {
            *flag = true;
        } else if (value && (next || value == &options->create_compute)) {
            *value = next ? next : "";
            i += next != NULL;
        } else {
            printf("Invalid combination of input arguments. Please run 'nvidia-smi mig -h' for help.\n");
            return EXIT_USAGE;
        }
    }
    return 0;
}

int smi_mig(int count, char **arguments)
{
    struct options options = {0};
    int code = parse(count, arguments, &options);
    if (code != 0 || (code = choose(options.gpus)) != 0)
        return code;
    if (options.profiles)
        return list_profiles();
    if (options.placements)
        return list_placements();
    if (options.create)
        return create(&options);
    if (options.list)
        return list_instances(&options);
    if (options.list_compute)
        return list_computes(&options);
    if (options.create_compute && each_instance(&options, whole_compute, &code) == 0)
        code = NVML_ERROR_NOT_FOUND;
    if (options.destroy_compute) {
        each_instance(&options, drop_computes, &code);
        if (removed == 0)
            code = NVML_ERROR_NOT_FOUND;
    }
    if (options.destroy && each_instance(&options, drop_instance, &code) == 0)
        code = NVML_ERROR_NOT_FOUND;
    if (code == NVML_ERROR_NOT_FOUND)
        printf("No %s instances found: Not Found\n", options.destroy ? "GPU" : "compute");
    return code;
}
