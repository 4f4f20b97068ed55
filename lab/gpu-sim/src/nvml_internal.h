/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the simulated NVML share. Symbols of nvml.h that no part defines are generated and answer "not supported". */
#ifndef GPU_SIM_NVML_INTERNAL_H
#define GPU_SIM_NVML_INTERNAL_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "state.h"

#define MIB (1024ULL * 1024ULL)
#define NO_INSTANCE 0xFFFFFFFFu

enum handle_kind { HANDLE_NONE, HANDLE_GPU, HANDLE_MIG, HANDLE_GPU_INSTANCE, HANDLE_COMPUTE_INSTANCE };

/* What nvmlDevice_t, nvmlGpuInstance_t and nvmlComputeInstance_t point to: a GPU by its place in the state, and instances. */
struct handle {
    enum handle_kind kind;
    int gpu, gpu_instance, compute_instance;
};

/* What a call works on, found from a handle. `instance` and `compute` are set for MIG devices and instances. */
struct target {
    struct state *state;
    struct gpu *gpu;
    struct gpu_instance *instance;
    struct compute_instance *compute;
    const struct mig_profile *profile;
    const struct handle *handle;
};

/* Begin a call: wait while the driver hangs, read the state into this thread's copy. */
nvmlReturn_t enter(struct state **state);

/* Begin a call on a device; GPU_IS_LOST when it has fallen off the bus. `identify` goes on all the same: what is kept is known. */
nvmlReturn_t on_device(const void *handle, struct target *target);
nvmlReturn_t identify(const void *handle, struct target *target);
/* The same, refused for a MIG device. */
nvmlReturn_t on_gpu(const void *handle, struct target *target);

struct handle *gpu_handle(int gpu);
struct handle *mig_handle(int gpu, int gpu_instance, int compute_instance);
struct handle *gpu_instance_handle(int gpu, int gpu_instance);
struct handle *compute_instance_handle(int gpu, int gpu_instance, int compute_instance);

/* Whether this process may use the GPU: the driver drives it and its device node is there. */
bool visible(const struct state *state, const struct gpu *gpu);
/* Whether this process may use the MIG device: its capability devices are there. */
bool mig_visible(const struct gpu *gpu, const struct gpu_instance *instance, const struct compute_instance *compute);

nvmlReturn_t copy_text(const char *text, char *target, unsigned size);
void fill_pci(const struct pci *pci, const struct gpu *gpu, nvmlPciInfo_t *info);
/* Slices of a compute instance profile (NVML_COMPUTE_INSTANCE_PROFILE_*), 0 for one there is not; and back, -1. */
int compute_slices(unsigned profile);
int compute_profile(int slices);
/* NVML's error for an errno of state_change. */
nvmlReturn_t from_errno(int result);

#define EXPORT __attribute__((visibility("default")))
#define REQUIRE(condition)                                                                                                     \
    do {                                                                                                                       \
        if (!(condition))                                                                                                      \
            return NVML_ERROR_INVALID_ARGUMENT;                                                                                \
    } while (0)
#define TRY(call)                                                                                                              \
    do {                                                                                                                       \
        nvmlReturn_t try_result = (call);                                                                                      \
        if (try_result != NVML_SUCCESS)                                                                                        \
            return try_result;                                                                                                 \
    } while (0)

#endif
