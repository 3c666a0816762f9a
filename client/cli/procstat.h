/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Facts of a process from /proc/PID/stat. */
struct procstat {
	char name[16]; /* TASK_COMM_LEN, with the NUL */
	char state;    /* as proc(5) has it: R, S, D, Z, T, t, ... */
	pid_t parent;
	bool exiting; /* the process ends, and the kernel closes its files */
};

/* False: the process has gone, or is hidden from us. */
bool procstat_read(pid_t pid, struct procstat *ret);

/* Was the process stopped by a signal or a debugger? */
bool procstat_is_stopped(const struct procstat *s);
