/* SPDX-License-Identifier: Apache-2.0 */
/* gpu-sim: what the kernel does on a machine with GPUs. Commands: load, publish, module KERNEL. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "state.h"

#define INSTALLED "/usr/share/gpu-sim/module"
#define TEMPLATE "/usr/lib/gpu-sim/nvidia.ko"
#define RUN "/run/gpu-sim"
#define PROCFS RUN "/proc"

/* The version and flavour of the installed kernel modules, as their package says; "" for none. */
struct installed {
    char version[TEXT], modules[TEXT];
};

static struct installed read_installed(void)
{
    struct installed found = {"", ""};
    FILE *file = fopen(rooted(INSTALLED), "r");
    if (file) {
        if (fscanf(file, "%95s %95s", found.version, found.modules) != 2)
            found.version[0] = '\0';
        fclose(file);
    }
    return found;
}

/* A boot: what was only in the driver's or the GPU's memory is gone, what waited for a reset happens. */
static int boot(struct state *state, void *argument)
{
    const struct installed *installed = argument;
    snprintf(state->loaded, TEXT, "%s", installed->version);
    snprintf(state->loaded_modules, TEXT, "%s", installed->modules);
    state->fabric_ready = state->hang = 0;
    bool any = false;
    for (int i = 0; i < state->gpu_count; i++) {
        struct gpu *gpu = &state->gpus[i];
        gpu->absent = gpu->absent || gpu->lost;
        gpu->mig = gpu->mig_pending;
        gpu->instance_count = gpu->xid_count = gpu->used_mib = gpu->persistence = 0;
        gpu->ecc_corrected = gpu->ecc_uncorrected = 0;
        gpu->remapped_uncorrected += gpu->remap_pending;
        gpu->remap_pending = 0;
        any = any || gpu_driven(state, gpu);
    }
    if (!any) /* as nvidia.ko, which ends with ENODEV when no GPU accepts it */
        state->loaded[0] = state->loaded_modules[0] = '\0';
    return 0;
}

static int load(void)
{
    struct installed installed = read_installed();
    bool real = !getenv("GPU_SIM_ROOT");
    if (access(rooted(PROCFS), F_OK) == 0)
        return 0; /* a driver is loaded; another version takes a reboot */
    int result = state_change(boot, &installed);
    if (result == -ENOENT) {
        fprintf(stderr, "nvidia: no GPU in this machine\n");
        return 0;
    }
    struct state *state = malloc(sizeof *state);
    if (result != 0 || !state || state_read(state) != 0) {
        fprintf(stderr, "nvidia: %s cannot be read or changed\n", state_path());
        return 1;
    }
    if (!state->loaded[0]) {
        if (installed.version[0])
            fprintf(stderr, "NVRM: none of the GPUs is supported by the %s kernel modules %s\n", installed.modules,
                    installed.version);
        free(state);
        return 0;
    }
    mkdir(rooted(RUN), 0755);
    mkdir(rooted(PROCFS), 0755);
    write_procfs(state, rooted(PROCFS));
    if (real && mount(PROCFS, "/proc/driver", NULL, MS_BIND, NULL) != 0) {
        fprintf(stderr, "nvidia: mount over /proc/driver: %s\n", strerror(errno));
        return 1;
    }
    publish(state);
    fprintf(stderr, "NVRM: loading NVIDIA UNIX %s Kernel Module  %s\n", state->loaded_modules, state->loaded);
    free(state);
    return 0;
}

static int bring_up_to_date(void)
{
    struct state *state = malloc(sizeof *state);
    if (state && state_read(state) == 0 && state->loaded[0])
        publish(state);
    free(state);
    return 0;
}

/* Make the module file of a kernel from the template: the kernel's release takes the place of the marks in its vermagic. */
static int module(const char *kernel)
{
    static const char MARK[] = "vermagic=@@@@";
    char path[512];
    FILE *source = fopen(rooted(TEMPLATE), "r");
    if (!source) {
        fprintf(stderr, "%s: %s\n", TEMPLATE, strerror(errno));
        return 1;
    }
    static char content[65536];
    size_t length = fread(content, 1, sizeof content, source);
    fclose(source);
    char *mark = memmem(content, length, MARK, sizeof MARK - 1);
    if (!mark || strlen(kernel) > 64) {
        fprintf(stderr, "%s: found no place for the kernel's release\n", TEMPLATE);
        return 1;
    }
    mark += strlen("vermagic=");
    size_t room = strlen(mark);
    memset(mark, 0, room);
    snprintf(mark, room + 1, "%s SMP preempt mod_unload modversions", kernel);
    static const char *const DIRECTORIES[] = {"", "/updates", "/updates/dkms"};
    for (size_t i = 0; i < sizeof DIRECTORIES / sizeof DIRECTORIES[0]; i++) {
        snprintf(path, sizeof path, "/lib/modules/%s%s", kernel, DIRECTORIES[i]);
        mkdir(rooted(path), 0755);
    }
    snprintf(path, sizeof path, "/lib/modules/%s/updates/dkms/nvidia.ko", kernel);
    FILE *target = fopen(rooted(path), "w");
    if (!target || fwrite(content, 1, length, target) != length || fclose(target) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "load") == 0)
        return load();
    if (count == 2 && strcmp(arguments[1], "publish") == 0)
        return bring_up_to_date();
    if (count == 3 && strcmp(arguments[1], "module") == 0)
        return module(arguments[2]);
    fprintf(stderr, "usage: gpu-sim load | publish | module KERNEL\n");
    return 2;
}
