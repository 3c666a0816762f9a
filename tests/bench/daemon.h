/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A daemon of its own for a benchmark, in a temporary folder, and what it costs. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { BENCH_PROCESSES = 5 };

struct bench_daemon {
	char folder[64];
	char socket[96];
	pid_t pid;
	pid_t pids[BENCH_PROCESSES]; /* the supervisor and its workers */
	char names[BENCH_PROCESSES][20];
};

/* fakes: on the fake driver and CUPTI; else on whatever the machine has. Ends the program when the
 * daemon does not come up. */
void bench_daemon_start(struct bench_daemon *d, bool fakes);
void bench_daemon_stop(struct bench_daemon *d);

/* "Pss", "VmHWM", ... of a process in KiB. */
size_t bench_memory(pid_t pid, const char *key);
double bench_cpu_seconds(pid_t pid); /* user and system, so far */

double bench_now(void); /* seconds */
