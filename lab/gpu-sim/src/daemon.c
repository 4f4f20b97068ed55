/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void become_daemon(const char *pid_file)
{
    pid_t child = fork();
    if (child != 0) {
        FILE *file = child > 0 ? fopen(pid_file, "w") : NULL;
        if (file) {
            fprintf(file, "%d\n", (int)child);
            fclose(file);
        }
        /* systemd reads the file when this process ends: not before it is there. */
        _exit(child > 0 && file ? 0 : 1);
    }
    setsid();
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
}

static void end(int number)
{
    (void)number; /* only to end pause() */
}

void sleep_until_term(const char *pid_file)
{
    struct sigaction action = {.sa_handler = end};
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigsuspend(&before);
    unlink(pid_file);
}
