/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* A running daemon as /proc shows it: a process "gpucountd" with a child "front". */

enum running_id { RUNNING_FRONT, RUNNING_GRANTER, RUNNING_GPU, RUNNING_PLANNER, RUNNING_WORKERS };

extern const char *const running_names[RUNNING_WORKERS];

struct running_worker {
	pid_t pid; /* 0: there is no such worker */
	bool has_perfmon, has_others;
	bool is_filtered;
};

struct running {
	pid_t pid; /* 0: no daemon runs */
	uid_t uid;
	struct running_worker workers[RUNNING_WORKERS];
};

/* Does any daemon run? Connecting to a socket of systemd's would start one. */
bool running_is_any(void);

/* Finds the daemon whose socket the process listener made listen: listener is the daemon itself, or
 * the manager that started it. Waits a second for workers that are only beginning. */
void running_find(pid_t listener, struct running *ret);
