/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

/* The driver's registered major; those of the others are given out at load and are such on current machines. */
#define MAJOR_NVIDIA 195
#define MAJOR_UVM 511
#define MAJOR_CAPS 237
#define MAJOR_NVSWITCH 238
#define MINOR_CTL 255
#define MINOR_MODESET 254
#define MINOR_NVSWITCHCTL 255

#define HOST_PROCFS "/run/gpu-sim/proc"

static void node(int major_number, int minor_number, const char *format, ...)
{
    char path[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    const char *where = rooted(path);
    if (access(where, F_OK) == 0)
        return;
    if (where != path) {
        /* Below a test's root a file says that the node would be there. */
        FILE *file = fopen(where, "w");
        if (file)
            fclose(file);
        return;
    }
    mode_t mask = umask(0);
    mknod(where, S_IFCHR | 0666, makedev((unsigned)major_number, (unsigned)minor_number));
    umask(mask);
}

static void cap_node(int minor_number)
{
    node(MAJOR_CAPS, minor_number, "/dev/nvidia-caps/nvidia-cap%d", minor_number);
}

static bool cap_wanted(const struct state *state, int minor_number)
{
    if (minor_number < 3) /* config and monitor */
        return true;
    for (int i = 0; i < state->gpu_count; i++)
        for (int j = 0; j < state->gpus[i].instance_count; j++) {
            const struct gpu_instance *one = &state->gpus[i].instances[j];
            if (cap_minor(state->gpus[i].minor, one->id, -1) == minor_number)
                return true;
            for (int k = 0; k < one->compute_count; k++)
                if (cap_minor(state->gpus[i].minor, one->id, one->compute[k].id) == minor_number)
                    return true;
        }
    return false;
}

static void remove_stale_caps(const struct state *state)
{
    DIR *directory = opendir(rooted("/dev/nvidia-caps"));
    if (!directory)
        return;
    struct dirent *entry;
    int minor_number;
    while ((entry = readdir(directory)))
        if (sscanf(entry->d_name, "nvidia-cap%d", &minor_number) == 1 && !cap_wanted(state, minor_number))
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
}

void make_nodes(const struct state *state)
{
    mkdir(rooted("/dev"), 0755);
    mkdir(rooted("/dev/nvidia-caps"), 0755);
    bool any_mig = false;
    for (int i = 0; i < state->gpu_count; i++) {
        const struct gpu *gpu = &state->gpus[i];
        if (!gpu_driven(state, gpu)) {
            char path[32];
            snprintf(path, sizeof path, "/dev/nvidia%d", gpu->minor);
            unlink(rooted(path));
            continue;
        }
        node(MAJOR_NVIDIA, gpu->minor, "/dev/nvidia%d", gpu->minor);
        any_mig = any_mig || gpu->mig_capable;
    }
    node(MAJOR_NVIDIA, MINOR_CTL, "/dev/nvidiactl");
    node(MAJOR_NVIDIA, MINOR_MODESET, "/dev/nvidia-modeset");
    node(MAJOR_UVM, 0, "/dev/nvidia-uvm");
    node(MAJOR_UVM, 1, "/dev/nvidia-uvm-tools");
    if (state->switch_count > 0)
        node(MAJOR_NVSWITCH, MINOR_NVSWITCHCTL, "/dev/nvidia-nvswitchctl");
    for (int i = 0; i < state->switch_count; i++)
        node(MAJOR_NVSWITCH, i, "/dev/nvidia-nvswitch%d", i);
    if (any_mig) {
        cap_node(1);
        cap_node(2);
    }
    for (int i = 0; i < state->gpu_count; i++)
        for (int j = 0; j < state->gpus[i].instance_count; j++) {
            const struct gpu_instance *one = &state->gpus[i].instances[j];
            cap_node(cap_minor(state->gpus[i].minor, one->id, -1));
            for (int k = 0; k < one->compute_count; k++)
                cap_node(cap_minor(state->gpus[i].minor, one->id, one->compute[k].id));
        }
    remove_stale_caps(state);
}

static void make_directories(const char *path)
{
    char buffer[512];
    snprintf(buffer, sizeof buffer, "%s", path);
    for (char *slash = strchr(buffer + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(buffer, 0755);
        *slash = '/';
    }
}

static FILE *create(const char *directory, const char *format, ...)
{
    char path[512];
    int length = snprintf(path, sizeof path, "%s/", directory);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path + length, sizeof path - (size_t)length, format, arguments);
    va_end(arguments);
    make_directories(path);
    return fopen(path, "w");
}

static void write_text(const char *directory, const char *name, const char *text)
{
    FILE *file = create(directory, "%s", name);
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static void write_gpu(const struct state *state, const struct gpu *gpu, const char *directory)
{
    char address[24];
    pci_kernel_text(&gpu->pci, address, sizeof address);
    FILE *file = create(directory, "nvidia/gpus/%s/information", address);
    if (file) {
        fprintf(file,
                "Model: \t\t %s\nIRQ:   \t\t %d\nGPU UUID: \t %s\nVideo BIOS: \t %s\nBus Type: \t PCIe\nDMA Size: \t 52 bits\n"
                "DMA Mask: \t 0xfffffffffffff\nBus Location: \t %s\nDevice Minor: \t %d\nGPU Firmware: \t %s\n"
                "GPU Excluded:\t No\n",
                gpu->name, 16 + gpu->minor, gpu->uuid, gpu->vbios, address, gpu->minor,
                strcmp(state->loaded_modules, "open") == 0 ? state->loaded : "N/A");
        fclose(file);
    }
    for (int j = 0; j < gpu->instance_count; j++) {
        const struct gpu_instance *one = &gpu->instances[j];
        for (int k = -1; k < one->compute_count; k++) {
            int id = k < 0 ? -1 : one->compute[k].id;
            file = id < 0 ? create(directory, "nvidia/capabilities/gpu%d/mig/gi%d/access", gpu->minor, one->id)
                          : create(directory, "nvidia/capabilities/gpu%d/mig/gi%d/ci%d/access", gpu->minor, one->id, id);
            if (file) {
                fprintf(file, "DeviceFileMinor: %d\nDeviceFileMode: 292\nDeviceFileModify: 1\n", cap_minor(gpu->minor, one->id, id));
                fclose(file);
            }
        }
    }
}

static void write_mig_minors(const struct state *state, const char *directory)
{
    FILE *file = create(directory, "nvidia-caps/mig-minors");
    if (!file)
        return;
    fprintf(file, "config 1\nmonitor 2\n");
    for (int i = 0; i < state->gpu_count; i++)
        for (int j = 0; j < 15; j++)
            for (int k = -1; k < 8; k++) {
                int number = cap_minor(state->gpus[i].minor, j, k);
                if (k < 0)
                    fprintf(file, "gpu%d/gi%d/access %d\n", state->gpus[i].minor, j, number);
                else
                    fprintf(file, "gpu%d/gi%d/ci%d/access %d\n", state->gpus[i].minor, j, k, number);
            }
    fclose(file);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    remove(path);
    return 0;
}

static void remove_tree(const char *directory, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void write_procfs(const struct state *state, const char *directory)
{
    char text[512];
    remove_tree(directory, "nvidia/capabilities");
    remove_tree(directory, "nvidia/gpus");
    if (strcmp(state->loaded_modules, "open") == 0)
        snprintf(text, sizeof text,
                 "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (gpu-sim@lab)\n"
                 "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)\n",
                 state->loaded);
    else
        snprintf(text, sizeof text,
                 "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Release Build  (gpu-sim@lab)\n"
                 "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)\n",
                 state->loaded);
    /* No modification: the container toolkit would forbid it in containers, in a file that their own procfs does not have here. */
    write_text(directory, "nvidia/params",
               "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 0\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n");
    bool any_mig = false;
    for (int i = 0; i < state->gpu_count; i++)
        if (gpu_driven(state, &state->gpus[i])) {
            write_gpu(state, &state->gpus[i], directory);
            any_mig = any_mig || state->gpus[i].mig_capable;
        }
    if (any_mig) {
        write_text(directory, "nvidia/capabilities/mig/config", "DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n");
        write_text(directory, "nvidia/capabilities/mig/monitor", "DeviceFileMinor: 2\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
        write_mig_minors(state, directory);
    }
    if (state->switch_count > 0)
        write_text(directory, "nvidia-nvswitch/permissions", "DeviceFileMode: 438\nModifyDeviceFiles: 1\n");
    for (int i = 0; i < state->switch_count; i++) {
        char address[24], name[64];
        pci_kernel_text(&state->switches[i], address, sizeof address);
        snprintf(name, sizeof name, "nvidia-nvswitch/devices/%s", address);
        write_text(directory, name, "");
    }
    /* Last: who finds it finds the rest. */
    write_text(directory, "nvidia/version", text);
}

void publish(const struct state *state)
{
    const char *below = rooted("/proc/driver");
    if (strcmp(below, "/proc/driver") != 0) {
        write_procfs(state, below);
    } else {
        if (access(HOST_PROCFS, F_OK) != 0)
            return; /* a container, or nothing loaded */
        write_procfs(state, HOST_PROCFS);
    }
    make_nodes(state);
}

void procfs_in_container(const struct state *state)
{
    static bool tried;
    if (tried || getenv("GPU_SIM_ROOT") || access("/proc/driver/nvidia/version", F_OK) == 0)
        return;
    tried = true;
    if (geteuid() != 0 || mount("gpu-sim", "/proc/driver", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0555,size=1m") != 0)
        return;
    write_procfs(state, "/proc/driver");
}
