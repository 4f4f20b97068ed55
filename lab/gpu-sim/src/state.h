/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated hardware and driver of one host, as the state file describes it. See ../README.md for the file's format. */
#ifndef GPU_SIM_STATE_H
#define GPU_SIM_STATE_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_GPUS 16
#define MAX_LINKS 18
#define MAX_SWITCHES 8
#define MAX_NUMA 4
#define MAX_MIG_PROFILES 8
#define MAX_INSTANCES 7
#define MAX_XIDS 16
#define MAX_PLACEMENTS 8
#define TEXT 96

/* Where a device is on the PCI bus; the function is always 0. */
struct pci {
    unsigned domain, bus, device;
};

enum link_kind { LINK_NONE, LINK_GPU, LINK_SWITCH };

struct link {
    enum link_kind kind;
    struct pci remote;
};

/* A GPU instance profile: what NVIDIA's MIG user guide lists per product. */
struct mig_profile {
    int id;                 /* as `nvidia-smi mig -lgip` shows it */
    char name[24];          /* 3g.40gb */
    int index;              /* NVML_GPU_INSTANCE_PROFILE_* */
    int slices;             /* compute slices */
    int size;               /* memory slices */
    int sms;                /* multiprocessors */
    int copy_engines, decoders, jpegs, ofas;
    unsigned memory_mib;
    int placements[MAX_PLACEMENTS], placement_count; /* possible first memory slices */
};

/* A compute instance; its profile is given by its number of compute slices. */
struct compute_instance {
    int id, slices, start;
};

struct gpu_instance {
    int id, profile, start;
    struct compute_instance compute[MAX_INSTANCES];
    int compute_count;
};

struct xid {
    unsigned sequence, code;
    long long time; /* Unix seconds */
};

struct gpu {
    char name[TEXT], uuid[TEXT], serial[TEXT], part[TEXT], vbios[TEXT], architecture[TEXT], brand[TEXT], modules[TEXT];
    struct pci pci;
    unsigned device_id, subsystem_id;
    int minor, numa, compute_major, compute_minor;
    int cores, sms, memory_bus_bits, pcie_generation, pcie_width;
    int memory_mib, reserved_mib, used_mib;
    int temperature, memory_temperature, temperature_slowdown, temperature_shutdown;
    int power_mw, power_limit_mw, power_min_mw, power_max_mw;
    int utilization, memory_utilization;
    int sm_clock, memory_clock, max_sm_clock, max_memory_clock;
    int nvlink_generation, nvlink_mbps;
    int ecc, ecc_corrected, ecc_uncorrected, ecc_corrected_total, ecc_uncorrected_total;
    int remapped_corrected, remapped_uncorrected, remap_pending, remap_failed;
    int persistence, mig_capable, mig, mig_pending, mig_reset;
    int lost, absent;
    struct link links[MAX_LINKS];
    int link_count;
    struct gpu_instance instances[MAX_INSTANCES];
    int instance_count;
    struct xid xids[MAX_XIDS];
    int xid_count;
};

struct state {
    unsigned generation;
    /* [host] */
    char profile[TEXT], product[TEXT], fabric[TEXT], numa_cpus[MAX_NUMA][TEXT];
    int numa_count;
    struct pci switches[MAX_SWITCHES];
    int switch_count;
    unsigned xid_sequence;
    /* [driver] */
    char loaded[TEXT], loaded_modules[TEXT];
    int fabric_ready, hang;
    /* [gpu N] */
    struct mig_profile profiles[MAX_MIG_PROFILES];
    int profile_count;
    struct gpu gpus[MAX_GPUS];
    int gpu_count;
};

/* Where the state file is: GPU_SIM_STATE, or its place on a host (also one whose root is mounted where this library comes from), or
   where containers see it through the driver's firmware. */
const char *state_path(void);

/* `path` below GPU_SIM_ROOT, in one of a few buffers that are used in turn (per thread). */
const char *rooted(const char *path);

/* Read the state. 0, or an errno; `state` is unspecified then. EBADMSG: the file is not a state file. */
int state_read(struct state *state);

/* Read the state, let `change` alter it, and write it back; other readers and writers wait meanwhile. `change` returns 0 to
   have it written. The value of `change`, or a negative errno. */
int state_change(int (*change)(struct state *state, void *argument), void *argument);

/* Whether the loaded driver drives the GPU: it is on the bus and of an architecture the loaded flavour of modules knows. */
bool gpu_driven(const struct state *state, const struct gpu *gpu);

/* The text form of a PCI address as NVML writes it (00000000:1B:00.0), or as the kernel does (0000:1b:00.0). */
void pci_text(const struct pci *pci, char *text, size_t size);
void pci_kernel_text(const struct pci *pci, char *text, size_t size);
bool pci_parse(const char *text, struct pci *pci);
bool pci_same(const struct pci *one, const struct pci *other);

const struct mig_profile *find_profile(const struct state *state, int id);

/* The UUID of a MIG device: the same for the same GPU and instances. */
void mig_uuid(const struct gpu *gpu, int gpu_instance, int compute_instance, char *text, size_t size);

/* Minors of the capability devices below /dev/nvidia-caps, as the driver numbers them; compute_instance -1: the GPU instance. */
int cap_minor(int gpu_minor, int gpu_instance, int compute_instance);

#endif
