/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi over the simulated library: what its parts share. */
#ifndef GPU_SIM_SMI_H
#define GPU_SIM_SMI_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <stdbool.h>
#include <stdio.h>

/* The library is loaded when the program runs, as the real one does: without it there is a message, not a loader's error. */
void *symbol(const char *name);
#define CALL(function) ((__typeof__(&function))symbol(#function))

#define MOST_GPUS 32

/* Exit codes, from nvidia-smi(1), "RETURN VALUE"; others are NVML's own numbers. */
enum { EXIT_USAGE = 2, EXIT_NO_DEVICES = 6 };

/* A GPU the command works on. `device` is NULL for one that is lost; `result` then says why. */
struct chosen {
    unsigned index;
    nvmlDevice_t device;
    nvmlReturn_t result;
    char bus_id[32], uuid[96], name[96];
};

extern struct chosen gpus[MOST_GPUS];
extern int gpu_count;

/* Fill `gpus` with those that `ids` names (indexes, UUIDs, PCI addresses, with commas; NULL: all). 0, or an exit code. */
int choose(const char *ids);

/* Say that GPUs are lost, as the real program does; the exit code: 0 when none is. */
int report_lost(FILE *out);

const char *on_off(nvmlEnableState_t state);
/* What stands for a value that could not be read. */
const char *missing(nvmlReturn_t result);

int smi_table(void);
int smi_list(void);
int smi_query_all(void);
int smi_query_gpu(const char *fields, const char *format);
int smi_query_apps(const char *fields, const char *format);
int smi_query_rows(const char *fields, const char *format);
int smi_help_query(void);
int smi_topology(int count, char **arguments);
int smi_nvlink(int count, char **arguments);
int smi_mig(int count, char **arguments);
int smi_set_mig(int mode);
int smi_set_persistence(int mode);
int smi_set_power(double watts);
int smi_reset(void);

#endif
