/* SPDX-License-Identifier: Apache-2.0 */
/* What a loaded driver makes on a host: device nodes and its part of /proc. */
#ifndef GPU_SIM_DRIVER_H
#define GPU_SIM_DRIVER_H

#include "state.h"

/* Make the device nodes of all GPUs the driver drives and of the MIG devices they have; remove those of MIG devices gone. */
void make_nodes(const struct state *state);

/* Write /proc/driver as a driver's procfs shows it into `directory` (nvidia/, nvidia-caps/, nvidia-nvswitch/ below it). */
void write_procfs(const struct state *state, const char *directory);

/* Bring device nodes and procfs of this host up to the state: after a load or a change of MIG devices. No-op in containers. */
void publish(const struct state *state);

/* In a container that may mount: give it its part of /proc, which a real driver's procfs shows in every container. */
void procfs_in_container(const struct state *state);

#endif
