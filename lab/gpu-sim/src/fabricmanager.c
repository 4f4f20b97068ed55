/* SPDX-License-Identifier: Apache-2.0 */
/* nv-fabricmanager: sets up the NVSwitches, and refuses a driver of any other version than its own. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon.h"
#include "state.h"

#define LOG_FILE "/var/log/fabricmanager.log"
#define PID_FILE "/run/nvidia-fabricmanager/nv-fabricmanager.pid"
#define SUBNET_MANAGER "/opt/nvidia/nvlsm/sbin/nvlsm"

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s\n", text);
    FILE *file = fopen(rooted(LOG_FILE), "a");
    if (file) {
        fprintf(file, "%s\n", text);
        fclose(file);
    }
}

static int set_up(struct state *state, void *argument)
{
    (void)argument;
    state->fabric_ready = 1;
    return 0;
}

static int refuse(const struct state *state)
{
    bool subnet = strcmp(state->fabric, "nvlink5") == 0;
    if (!state->loaded[0]) {
        say("failed to initialize NVIDIA NVSwitch: NVIDIA driver is not loaded");
        return 1;
    }
    if (strcmp(state->loaded, DRIVER_VERSION) != 0) {
        say("fabric manager NVIDIA GPU driver interface version " DRIVER_VERSION " don't match with driver version %s. Please update "
            "with matching NVIDIA driver package.",
            state->loaded);
        return 1;
    }
    if (state->switch_count == 0 && !subnet) {
        say("request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do "
            "[NV_WARN_NOTHING_TO_DO]");
        return 1;
    }
    if (subnet && access(rooted(SUBNET_MANAGER), X_OK) != 0) {
        say("failed to start the NVLink Subnet Manager: " SUBNET_MANAGER " not found");
        return 1;
    }
    return 0;
}

int main(int count, char **arguments)
{
    bool foreground = getenv("GPU_SIM_FOREGROUND") != NULL;
    if (count > 1 && strcmp(arguments[1], "--version") == 0) {
        printf("Fabric Manager version is : " DRIVER_VERSION "\n");
        return 0;
    }
    struct state *state = malloc(sizeof *state);
    if (!state || state_read(state) != 0) {
        say("failed to initialize NVIDIA NVSwitch: NVIDIA driver is not loaded");
        return 1;
    }
    if (refuse(state) != 0 || state_change(set_up, NULL) != 0)
        return 1;
    say("Successfully configured all the available NVSwitches to route GPU NVLink traffic. NVLink Peer-to-Peer support will be "
        "enabled once the GPUs are successfully registered with the NVLink fabric.");
    free(state);
    if (foreground)
        return 0;
    become_daemon(PID_FILE);
    sleep_until_term(PID_FILE);
    return 0;
}
