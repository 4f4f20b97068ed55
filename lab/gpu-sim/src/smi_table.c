/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi without arguments, -L and -q. */
#include <string.h>
#include <time.h>

#include "smi.h"

#define MIB (1024ULL * 1024ULL)
#define RULE "+-----------------------------------------+------------------------+----------------------+"

static void print_head(void)
{
    char version[80] = "", now[32] = "";
    int cuda = 0;
    time_t seconds = time(NULL);
    struct tm parts;
    CALL(nvmlSystemGetDriverVersion)(version, sizeof version);
    CALL(nvmlSystemGetCudaDriverVersion_v2)(&cuda);
    strftime(now, sizeof now, "%a %b %e %H:%M:%S %Y", localtime_r(&seconds, &parts));
    printf("%s       \n+-----------------------------------------------------------------------------------------+\n"
           "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %d.%-5d |\n" RULE "\n",
           now, version, version, cuda / 1000, cuda % 1000 / 10);
    printf("| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
           "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
           "|                                         |                        |               MIG M. |\n"
           "|=========================================+========================+======================|\n");
}

static void print_gpu(const struct chosen *gpu)
{
    nvmlEnableState_t persistence = 0, ecc = 0, ecc_pending = 0;
    nvmlUtilization_t utilization = {0};
    nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};
    unsigned temperature = 0, power = 0, limit = 0, mig = 0, pending = 0;
    unsigned long long errors = 0;
    char load[16] = "N/A", corrected[24] = "N/A";
    CALL(nvmlDeviceGetPersistenceMode)(gpu->device, &persistence);
    CALL(nvmlDeviceGetMemoryInfo_v2)(gpu->device, &memory);
    CALL(nvmlDeviceGetTemperature)(gpu->device, NVML_TEMPERATURE_GPU, &temperature);
    CALL(nvmlDeviceGetPowerUsage)(gpu->device, &power);
    CALL(nvmlDeviceGetPowerManagementLimit)(gpu->device, &limit);
    if (CALL(nvmlDeviceGetUtilizationRates)(gpu->device, &utilization) == NVML_SUCCESS)
        snprintf(load, sizeof load, "%u%%", utilization.gpu);
    if (CALL(nvmlDeviceGetEccMode)(gpu->device, &ecc, &ecc_pending) == NVML_SUCCESS && ecc &&
        CALL(nvmlDeviceGetTotalEccErrors)(gpu->device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, &errors) ==
            NVML_SUCCESS)
        snprintf(corrected, sizeof corrected, "%llu", errors);
    bool capable = CALL(nvmlDeviceGetMigMode)(gpu->device, &mig, &pending) == NVML_SUCCESS;
    printf("| %3u  %-26.26s      %-3s | %18s %-3s | %20s |\n", gpu->index, gpu->name, persistence ? "On" : "Off", gpu->bus_id, "Off",
           corrected);
    printf("| N/A %4uC    P0          %6uW / %4uW | %7lluMiB / %6lluMiB | %7s      Default |\n", temperature, power / 1000,
           limit / 1000, memory.used / MIB, memory.total / MIB, load);
    printf("|                                         |                        | %20s |\n" RULE "\n",
           capable ? on_off(mig ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED) : "N/A");
}

static bool for_each_mig(const struct chosen *gpu, void (*work)(const struct chosen *gpu, unsigned index, nvmlDevice_t mig))
{
    unsigned most = 0;
    bool any = false;
    CALL(nvmlDeviceGetMaxMigDeviceCount)(gpu->device, &most);
    for (unsigned i = 0; i < most; i++) {
        nvmlDevice_t mig;
        if (CALL(nvmlDeviceGetMigDeviceHandleByIndex)(gpu->device, i, &mig) != NVML_SUCCESS)
            continue;
        any = true;
        if (work)
            work(gpu, i, mig);
    }
    return any;
}

static void print_mig_row(const struct chosen *gpu, unsigned index, nvmlDevice_t mig)
{
    unsigned gpu_instance = 0, compute_instance = 0;
    nvmlDeviceAttributes_t found = {0};
    CALL(nvmlDeviceGetGpuInstanceId)(mig, &gpu_instance);
    CALL(nvmlDeviceGetComputeInstanceId)(mig, &compute_instance);
    CALL(nvmlDeviceGetAttributes_v2)(mig, &found);
    printf("| %3u  %3u  %3u  %3u  | %12uMiB / %6lluMiB | %3u      0 | %3u   0  %3u    0  %3u |\n", gpu->index, gpu_instance,
           compute_instance, index, 0u, found.memorySizeMB, found.multiprocessorCount, found.sharedCopyEngineCount,
           found.sharedDecoderCount, found.sharedJpegCount);
}

static void print_migs(void)
{
    bool any = false;
    for (int i = 0; i < gpu_count; i++)
        any = any || (gpus[i].device && for_each_mig(&gpus[i], NULL));
    if (!any)
        return;
    printf("\n+-----------------------------------------------------------------------------------------+\n"
           "| MIG devices:                                                                            |\n"
           "| GPU  GI   CI   MIG  |          Memory-Usage      |  SM  Unc  |  CE ENC  DEC  OFA  JPG |\n"
           "|=========================================================================================|\n");
    for (int i = 0; i < gpu_count; i++)
        if (gpus[i].device)
            for_each_mig(&gpus[i], print_mig_row);
    printf("+-----------------------------------------------------------------------------------------+\n");
}

int smi_table(void)
{
    int code = report_lost(stdout);
    if (code != 0)
        return code; /* the real program stops at the first GPU it cannot reach */
    print_head();
    for (int i = 0; i < gpu_count; i++)
        print_gpu(&gpus[i]);
    print_migs();
    printf("\n+-----------------------------------------------------------------------------------------+\n"
           "| Processes:                                                                              |\n"
           "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
           "|        ID   ID                                                               Usage      |\n"
           "|=========================================================================================|\n"
           "|  No running processes found                                                             |\n"
           "+-----------------------------------------------------------------------------------------+\n");
    return 0;
}

static void print_mig_line(const struct chosen *gpu, unsigned index, nvmlDevice_t mig)
{
    char uuid[96] = "", name[192] = "";
    (void)gpu;
    CALL(nvmlDeviceGetUUID)(mig, uuid, sizeof uuid);
    CALL(nvmlDeviceGetName)(mig, name, sizeof name);
    const char *profile = strstr(name, " MIG ");
    printf("  MIG %-11s Device %2u: (UUID: %s)\n", profile ? profile + 5 : "", index, uuid);
}

int smi_list(void)
{
    for (int i = 0; i < gpu_count; i++) {
        if (!gpus[i].device)
            continue;
        printf("GPU %u: %s (UUID: %s)\n", gpus[i].index, gpus[i].name, gpus[i].uuid);
        for_each_mig(&gpus[i], print_mig_line);
    }
    return report_lost(stdout);
}
