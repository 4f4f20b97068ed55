/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi: its command line. */
#include "smi.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state.h"

static void *library;

void *symbol(const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        printf("Failed to initialize NVML: Function Not Found\n");
        exit(NVML_ERROR_FUNCTION_NOT_FOUND);
    }
    return found;
}

const char *on_off(nvmlEnableState_t state)
{
    return state == NVML_FEATURE_ENABLED ? "Enabled" : "Disabled";
}

const char *missing(nvmlReturn_t result)
{
    switch (result) {
    case NVML_ERROR_NOT_SUPPORTED: return "[N/A]";
    case NVML_ERROR_GPU_IS_LOST: return "[GPU is lost]";
    case NVML_ERROR_NO_PERMISSION: return "[Insufficient Permissions]";
    default: return "[Unknown Error]";
    }
}

/* While the driver hangs, a process in it can be ended by nothing but SIGKILL. */
static void wait_while_hung(void)
{
    struct state *state = malloc(sizeof *state);
    while (state && state_read(state) == 0 && state->hang) {
        for (int number = 1; number < 32; number++)
            if (number != SIGKILL && number != SIGSTOP && number != SIGCHLD)
                signal(number, SIG_IGN);
        usleep(200000);
    }
    free(state);
}

static int initialize(void)
{
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) {
        printf("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is "
               "properly installed and present in your system.\nPlease also try adding directory that contains libnvidia-ml.so to "
               "your system PATH.\n");
        return NVML_ERROR_LIBRARY_NOT_FOUND;
    }
    nvmlReturn_t result = CALL(nvmlInit_v2)();
    if (result == NVML_SUCCESS)
        return 0;
    if (result == NVML_ERROR_DRIVER_NOT_LOADED) {
        printf("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver "
               "is installed and running.\n\n");
    } else {
        printf("Failed to initialize NVML: %s\n", CALL(nvmlErrorString)(result));
        char version[96] = "";
        if (result == NVML_ERROR_LIB_RM_VERSION_MISMATCH &&
            CALL(nvmlSystemGetNVMLVersion)(version, sizeof version) == NVML_SUCCESS && strchr(version, '.')) {
            char *text = strchr(version, '.') + 1, *last = strrchr(text, '.');
            if (last && last != strchr(text, '.'))
                *last = '\0';
            printf("NVML library version: %s\n", text);
        }
    }
    return (int)result;
}

static int usage(const char *argument)
{
    printf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n");
    if (argument)
        printf("(the simulator does not know %s)\n", argument);
    return EXIT_USAGE;
}

static int help(void)
{
    printf("NVIDIA System Management Interface -- v%s (simulated)\n\n"
           "nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...\n\n"
           "  -L, --list-gpus                 one line per GPU and MIG device\n"
           "  -q, --query                     what is known of GPUs\n"
           "  -i, --id=                       GPUs by index, UUID or PCI address\n"
           "  --query-gpu=, --query-compute-apps=, --query-remapped-rows=   with --format=csv[,noheader][,nounits]\n"
           "  --help-query-gpu                the fields of --query-gpu\n"
           "  topo -m | nvlink -s | mig -lgip|-lgipp|-lgi|-lci|-cgi|-cci|-dci|-dgi\n"
           "  -mig 0|1, -pm 0|1, -pl WATTS, -r, --version\n",
           DRIVER_VERSION);
    return 0;
}

static int version(void)
{
    int cuda = 0;
    CALL(nvmlSystemGetCudaDriverVersion_v2)(&cuda);
    printf("NVIDIA-SMI version  : %s\nNVML version        : %.7s\nDRIVER version      : %s\nCUDA Version        : %d.%d\n",
           DRIVER_VERSION, DRIVER_VERSION, DRIVER_VERSION, cuda / 1000, cuda % 1000 / 10);
    return 0;
}

/* The value of an option that is written --name=value, --name value or -n value; NULL when the argument is another. */
static const char *option(int count, char **arguments, int *position, const char *brief, const char *full)
{
    const char *argument = arguments[*position];
    size_t length = strlen(full);
    if (strncmp(argument, full, length) == 0 && argument[length] == '=')
        return argument + length + 1;
    if ((strcmp(argument, full) == 0 || (brief && strcmp(argument, brief) == 0)) && *position + 1 < count)
        return arguments[++*position];
    return NULL;
}

struct request {
    const char *ids, *format, *gpu, *apps, *rows, *mig, *persistence, *power;
    bool list, query, reset, version;
};

static int parse(int count, char **arguments, struct request *request)
{
    for (int i = 1; i < count; i++) {
        const char *value;
        if ((value = option(count, arguments, &i, "-i", "--id")))
            request->ids = value;
        else if ((value = option(count, arguments, &i, NULL, "--format")))
            request->format = value;
        else if ((value = option(count, arguments, &i, NULL, "--query-gpu")))
            request->gpu = value;
        else if ((value = option(count, arguments, &i, NULL, "--query-compute-apps")))
            request->apps = value;
        else if ((value = option(count, arguments, &i, NULL, "--query-remapped-rows")))
            request->rows = value;
        else if ((value = option(count, arguments, &i, "-mig", "--multi-instance-gpu")))
            request->mig = value;
        else if ((value = option(count, arguments, &i, "-pm", "--persistence-mode")))
            request->persistence = value;
        else if ((value = option(count, arguments, &i, "-pl", "--power-limit")))
            request->power = value;
        else if (strcmp(arguments[i], "-L") == 0 || strcmp(arguments[i], "--list-gpus") == 0)
            request->list = true;
        else if (strcmp(arguments[i], "-q") == 0 || strcmp(arguments[i], "--query") == 0)
            request->query = true;
        else if (strcmp(arguments[i], "-r") == 0 || strcmp(arguments[i], "--gpu-reset") == 0)
            request->reset = true;
        else if (strcmp(arguments[i], "--version") == 0)
            request->version = true;
        else if (!(value = option(count, arguments, &i, "-d", "--display")))
            return usage(arguments[i]);
    }
    return 0;
}

static int run(int count, char **arguments)
{
    struct request request = {0};
    bool command = count > 1 && arguments[1][0] != '-';
    int code = command ? 0 : parse(count, arguments, &request);
    if (code == 0)
        wait_while_hung();
    if (code != 0 || (code = initialize()) != 0)
        return code;
    if (command && strcmp(arguments[1], "mig") == 0)
        return smi_mig(count - 2, arguments + 2);
    if (request.version)
        return version();
    if (command && strcmp(arguments[1], "topo") == 0)
        return smi_topology(count - 2, arguments + 2);
    if (command && strcmp(arguments[1], "nvlink") == 0)
        return smi_nvlink(count - 2, arguments + 2);
    if (command)
        return usage(arguments[1]);
    if ((code = choose(request.ids)) != 0)
        return code;
    if (request.gpu)
        return smi_query_gpu(request.gpu, request.format);
    if (request.apps)
        return smi_query_apps(request.apps, request.format);
    if (request.rows)
        return smi_query_rows(request.rows, request.format);
    if (request.mig)
        return smi_set_mig(atoi(request.mig));
    if (request.persistence)
        return smi_set_persistence(atoi(request.persistence));
    if (request.power)
        return smi_set_power(atof(request.power));
    if (request.reset)
        return smi_reset();
    if (request.list)
        return smi_list();
    return request.query ? smi_query_all() : smi_table();
}

int main(int count, char **arguments)
{
    if (count > 1 && (strcmp(arguments[1], "-h") == 0 || strcmp(arguments[1], "--help") == 0))
        return help();
    if (count > 1 && strcmp(arguments[1], "--help-query-gpu") == 0)
        return smi_help_query();
    int code = run(count, arguments);
    return fflush(stdout) == 0 ? code : 1;
}
