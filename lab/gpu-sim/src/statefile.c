/* SPDX-License-Identifier: Apache-2.0 */
/* Read the state file, and change it. */
#include "statekeys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST (256 * 1024)

static bool assign(const struct key *keys, size_t count, void *object, const char *name, const char *value)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].name, name) != 0)
            continue;
        void *member = (char *)object + keys[i].offset;
        if (keys[i].kind == STRING)
            snprintf(member, TEXT, "%s", value);
        else if (keys[i].kind == PCI)
            return pci_parse(value, member);
        else
            *(int *)member = (int)strtoul(value, NULL, keys[i].kind == HEX ? 16 : 10);
        return true;
    }
    return false;
}

static bool host_line(struct state *state, const char *name, const char *value)
{
    if (strcmp(name, "numa_cpus") == 0 && state->numa_count < MAX_NUMA) {
        snprintf(state->numa_cpus[state->numa_count++], TEXT, "%s", value);
        return true;
    }
    if (strcmp(name, "switch") == 0 && state->switch_count < MAX_SWITCHES)
        return pci_parse(value, &state->switches[state->switch_count++]);
    return assign(HOST_KEYS, HOST_KEY_COUNT, state, name, value);
}

/* profile = ID NAME INDEX SLICES SIZE SMS COPY_ENGINES DECODERS JPEGS OFAS MEMORY_MIB PLACEMENT,PLACEMENT,… */
static bool profile_line(struct state *state, const char *name, const char *value)
{
    if (strcmp(name, "profile") != 0 || state->profile_count == MAX_MIG_PROFILES)
        return false;
    struct mig_profile *one = &state->profiles[state->profile_count];
    char starts[TEXT];
    if (sscanf(value, "%d %23s %d %d %d %d %d %d %d %d %u %95s", &one->id, one->name, &one->index, &one->slices, &one->size,
               &one->sms, &one->copy_engines, &one->decoders, &one->jpegs, &one->ofas, &one->memory_mib, starts) != 12)
        return false;
    char *rest = NULL;
    for (char *start = strtok_r(starts, ",", &rest); start && one->placement_count < MAX_PLACEMENTS;
         start = strtok_r(NULL, ",", &rest))
        one->placements[one->placement_count++] = atoi(start);
    state->profile_count++;
    return true;
}

static bool gpu_line(struct gpu *gpu, const char *name, const char *value)
{
    if (strcmp(name, "link") == 0 && gpu->link_count < MAX_LINKS) {
        char kind[8], address[24];
        if (sscanf(value, "%7s %23s", kind, address) != 2)
            return false;
        struct link *link = &gpu->links[gpu->link_count++];
        link->kind = strcmp(kind, "gpu") == 0 ? LINK_GPU : LINK_SWITCH;
        return pci_parse(address, &link->remote);
    }
    if (strcmp(name, "gi") == 0 && gpu->instance_count < MAX_INSTANCES) {
        struct gpu_instance *one = &gpu->instances[gpu->instance_count++];
        return sscanf(value, "%d %d %d", &one->id, &one->profile, &one->start) == 3;
    }
    if (strcmp(name, "ci") == 0 && gpu->instance_count > 0) {
        struct gpu_instance *parent = &gpu->instances[gpu->instance_count - 1];
        if (parent->compute_count == MAX_INSTANCES)
            return false;
        struct compute_instance *one = &parent->compute[parent->compute_count++];
        return sscanf(value, "%d %d %d", &one->id, &one->slices, &one->start) == 3;
    }
    if (strcmp(name, "xid") == 0) {
        if (gpu->xid_count == MAX_XIDS)
            memmove(gpu->xids, gpu->xids + 1, sizeof gpu->xids[0] * (size_t)--gpu->xid_count);
        struct xid *one = &gpu->xids[gpu->xid_count++];
        return sscanf(value, "%u %u %lld", &one->sequence, &one->code, &one->time) == 3;
    }
    return assign(GPU_KEYS, GPU_KEY_COUNT, gpu, name, value);
}

/* Fill `state` from the file's text, which is cut up. Keys unknown here are passed over: a newer lab may write them. */
static int parse(struct state *state, char *text)
{
    memset(state, 0, sizeof *state);
    struct gpu model = {.link_count = 0};
    char section[24] = "";
    struct gpu *gpu = NULL;
    char *rest = NULL;
    bool complete = false;
    int format = 0;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        unsigned end;
        if (*line == '#')
            continue;
        if (*line == '[') {
            complete = sscanf(line, "[end %u]", &end) == 1 && end == state->generation;
            sscanf(line, "[%23[a-z]", section);
            gpu = NULL;
            if (strcmp(section, "gpu") == 0) {
                if (state->gpu_count == MAX_GPUS)
                    return EBADMSG;
                gpu = &state->gpus[state->gpu_count++];
                *gpu = model;
            }
            continue;
        }
        char *value = strstr(line, " = ");
        if (!value)
            continue;
        *value = '\0';
        value += 3;
        if (gpu)
            gpu_line(gpu, line, value);
        else if (strcmp(section, "host") == 0)
            host_line(state, line, value);
        else if (strcmp(section, "driver") == 0)
            assign(DRIVER_KEYS, DRIVER_KEY_COUNT, state, line, value);
        else if (strcmp(section, "mig") == 0)
            profile_line(state, line, value);
        else if (strcmp(section, "model") == 0)
            assign(GPU_KEYS, GPU_KEY_COUNT, &model, line, value);
        else if (strcmp(line, "format") == 0)
            format = atoi(value);
        else if (strcmp(line, "generation") == 0)
            state->generation = (unsigned)strtoul(value, NULL, 10);
    }
    return complete && format == 1 ? 0 : EBADMSG;
}

static int read_file(int file, struct state *state)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return errno;
    if (status.st_size > LARGEST)
        return EBADMSG;
    char *text = malloc((size_t)status.st_size + 1);
    if (!text)
        return ENOMEM;
    ssize_t length = pread(file, text, (size_t)status.st_size, 0);
    int result = length < 0 ? errno : 0;
    if (result == 0) {
        text[length] = '\0';
        result = parse(state, text);
    }
    free(text);
    return result;
}

int state_read(struct state *state)
{
    int file = open(state_path(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    flock(file, LOCK_SH);
    int result = read_file(file, state);
    close(file);
    return result;
}

int state_change(int (*change)(struct state *state, void *argument), void *argument)
{
    int file = open(state_path(), O_RDWR | O_CLOEXEC);
    if (file < 0)
        return -errno;
    flock(file, LOCK_EX);
    struct state *state = malloc(sizeof *state);
    int result = state ? -read_file(file, state) : -ENOMEM;
    if (result == 0) {
        result = change(state, argument);
        if (result == 0) {
            state->generation++;
            result = -state_write(file, state);
        }
    }
    free(state);
    close(file);
    return result;
}
