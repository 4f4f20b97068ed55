/* SPDX-License-Identifier: Apache-2.0 */
/* A library of the driver that only has to be there: its file name and its soname are all that is looked at. */
__attribute__((visibility("default"))) const char gpu_sim_version[] = DRIVER_VERSION;
