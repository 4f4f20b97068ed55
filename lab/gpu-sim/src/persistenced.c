/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-persistenced: keeps the driver's state between clients; here, the persistence mode and the socket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon.h"
#include "state.h"

#define DIRECTORY "/run/nvidia-persistenced"
#define PID_FILE DIRECTORY "/nvidia-persistenced.pid"
#define SOCKET DIRECTORY "/socket"

static int set_mode(struct state *state, void *argument)
{
    for (int i = 0; i < state->gpu_count; i++)
        state->gpus[i].persistence = *(int *)argument;
    return 0;
}

int main(int count, char **arguments)
{
    int mode = 1, off = 0;
    for (int i = 1; i < count; i++)
        if (strcmp(arguments[i], "--no-persistence-mode") == 0)
            mode = 0;
    struct state *state = malloc(sizeof *state);
    if (!state || state_read(state) != 0 || !state->loaded[0] || strcmp(state->loaded, DRIVER_VERSION) != 0) {
        fprintf(stderr, "nvidia-persistenced failed to initialize. Check syslog for more details.\n");
        return 1;
    }
    free(state);
    state_change(set_mode, &mode);
    mkdir(DIRECTORY, 0755);
    unlink(SOCKET);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SOCKET};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4) != 0) {
        fprintf(stderr, "nvidia-persistenced: cannot make " SOCKET "\n");
        return 1;
    }
    chmod(SOCKET, 0666);
    become_daemon(PID_FILE);
    sleep_until_term(PID_FILE);
    unlink(SOCKET);
    state_change(set_mode, &off);
    return 0;
}
