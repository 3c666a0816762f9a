/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The daemon's settings: built-in defaults, then the file, then the command line. A file has lines
 * "key = value" and "# comment"; gpucountd.conf(5) explains every key. */

#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/policy.h"

enum { CONFIG_RATE_MAX = 10 * 1000 * 1000 }; /* so many that there is no limit in effect */

struct config {
	char socket[108];
	char user[64]; /* the user to become when started as root; "": gpucountd, else nobody */
	struct policy policy;
	bool shared;	       /* leases are given even if other users compute on the GPU */
	uint64_t lease_max_ns; /* how long a lease lasts once somebody waits for its GPUs */
	unsigned queue_max;
	unsigned connections_max, connections_per_user, captures_per_user;
	unsigned registered_max, registered_per_user;	      /* programs in standby */
	unsigned captures_per_minute, permissions_per_minute; /* of one user */
	unsigned questions_per_minute;
	struct config_labels {
		bool users, jobs;
	} labels;	      /* which names metrics may carry */
	char audit_file[256]; /* "": the daemon's log alone */
	int log_level;
};

void config_init(struct config *c);

/* 0, or -EINVAL with the fault and what to write instead in error. Names of users and groups that
 * nobody has are left out, with a warning in the log. */
int config_set(struct config *c, const char *key, const char *value, char *error,
	       size_t error_size);

/* As config_set(); error names file, line and key. -ENOENT: there is no such file. A file that
 * anybody but root and owner could have written is refused, because it says who may measure. */
int config_load(struct config *c, const char *path, uid_t owner, char *error, size_t error_size);
