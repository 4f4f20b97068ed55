/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of nvidia-smi's --query-… options. */
#ifndef GPU_SIM_SMI_FIELDS_H
#define GPU_SIM_SMI_FIELDS_H

#include "smi.h"

#define TEXT_SIZE 128

/* Whom a field is asked of; `text` (TEXT_SIZE bytes) takes the value. */
struct ask {
    const struct chosen *gpu;
    char *text;
};

struct field {
    const char *name, *alias, *unit;
    nvmlReturn_t (*get)(struct ask ask);
};

extern const struct field GPU_FIELDS[], ROW_FIELDS[], APP_FIELDS[];
extern const int GPU_FIELD_COUNT, ROW_FIELD_COUNT, APP_FIELD_COUNT;

#endif
