/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of the state file: one table says which key is which member. */
#ifndef GPU_SIM_STATEKEYS_H
#define GPU_SIM_STATEKEYS_H

#include "state.h"

enum kind { STRING, NUMBER, HEX, PCI };

struct key {
    const char *name;
    enum kind kind;
    size_t offset;
};

extern const struct key HOST_KEYS[], DRIVER_KEYS[], GPU_KEYS[];
extern const size_t HOST_KEY_COUNT, DRIVER_KEY_COUNT, GPU_KEY_COUNT;

/* Write the whole state to the file, in place: containers hold the file itself by a mount, so it must stay the same file.
   0 or an errno. */
int state_write(int file, const struct state *state);

#endif
