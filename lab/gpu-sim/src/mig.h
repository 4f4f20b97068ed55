/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of MIG: which instances fit where, and what they are called. */
#ifndef GPU_SIM_MIG_H
#define GPU_SIM_MIG_H

#include "state.h"

/* The first memory slice at which another instance of the profile fits, -1 for none; the driver fills a GPU from its end.
   `from` wants one place in particular, -1 takes any. */
int mig_place(const struct state *state, const struct gpu *gpu, const struct mig_profile *profile, int from);

/* How many more instances of the profile fit. */
int mig_capacity(const struct state *state, const struct gpu *gpu, const struct mig_profile *profile);

/* Make a GPU instance; NULL when it does not fit. */
struct gpu_instance *mig_add(struct state *state, struct gpu *gpu, const struct mig_profile *profile, int from);

/* Remove the GPU instance, which has no compute instances. */
void mig_remove(struct gpu *gpu, int id);

/* Compute slices of a GPU instance that no compute instance has. */
int compute_free(const struct gpu_instance *instance, const struct mig_profile *profile);

/* Make a compute instance of so many slices; NULL when it does not fit. */
struct compute_instance *compute_add(struct gpu_instance *instance, const struct mig_profile *profile, int slices);

void compute_remove(struct gpu_instance *instance, int id);

#endif
