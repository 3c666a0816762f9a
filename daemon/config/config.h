/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The daemon's settings: built-in defaults, then the file, then the command line. A file has lines
 * "key = value" and "# comment"; gpucountd.conf(5) explains every key. */

#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/policy.h"

enum { CONFIG_RATE_MAX = 10 * 1000 * 1000 }; /* so high that it limits nobody */

struct config {
	char socket[108];
	char user[64]; /* the user to become when started as root; "": gpucountd, else nobody */
	struct policy policy;
	bool shared;	       /* leases are granted even if other users compute on the GPU */
	uint64_t lease_max_ns; /* length of a lease once somebody waits for its GPUs */
	unsigned queue_max;
	unsigned connections_max, connections_per_user, captures_per_user;
	unsigned registered_max, registered_per_user;	      /* limits for programs in standby */
	unsigned captures_per_minute, permissions_per_minute; /* limits for one user */
	unsigned questions_per_minute;
	struct config_labels {
		bool users, jobs;
	} labels;	      /* names that exported metrics may contain */
	char audit_file[256]; /* "": only the daemon's log */
	int log_level;
};

void config_init(struct config *c);

/* 0, or -EINVAL with the fault and its correction in error. Leaves out names of users and groups
 * that do not exist, with a warning in the log. */
int config_set(struct config *c, const char *key, const char *value, char *error,
	       size_t error_size);

/* Applies a file like config_set(); error names file, line and key. -ENOENT: no such file. Refuses
 * a file that others than root and owner could have written, because it defines who may measure. */
int config_load(struct config *c, const char *path, uid_t owner, char *error, size_t error_size);
