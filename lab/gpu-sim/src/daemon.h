/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulated daemons share. */
#ifndef GPU_SIM_DAEMON_H
#define GPU_SIM_DAEMON_H

/* Go on as a daemon with its number in `pid_file`; returns in the daemon only. */
void become_daemon(const char *pid_file);
/* Return at SIGTERM, with the file gone. */
void sleep_until_term(const char *pid_file);

#endif
