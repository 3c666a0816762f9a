/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_AUDIT_AUDIT_H
#define GPUCTR_AUDIT_AUDIT_H

/* One line for every decision, to a file of JSON lines when there is one and to the log: under
 * systemd as a structured entry with a message id (gpucountd(8) lists both), elsewhere as text.
 * Whoever grants writes first, and does not grant what could not be written. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/buffer.h"
#include "daemon/broker/rate.h"

enum audit_event {
	AUDIT_STARTED, /* every lease of the lines before is over */
	AUDIT_REFUSED, /* a connection, or a capture before its lease */
	AUDIT_LEASE_GRANTED,
	AUDIT_LEASE_RENEWED,
	AUDIT_LEASE_ENDED,
	AUDIT_LEASE_EXPIRED,
	AUDIT_LEASE_REVOKED,
	AUDIT_PERMISSION_GRANTED, /* written before the driver is asked */
	AUDIT_PERMISSION_REFUSED, /* by us, or by the driver after the line above */
	AUDIT_JOB_BEGUN,
	AUDIT_JOB_ENDED,
};

struct audit_line {
	enum audit_event event;
	uid_t uid;
	pid_t pid;
	const char *user, *program; /* NULL: unknown */
	uint32_t capture;	    /* 0: none */
	const char *const *gpus;    /* UUIDs */
	size_t n_gpus;
	const char *const *metrics; /* as asked for */
	size_t n_metrics;
	const char *job;	/* NULL: none */
	int code;		/* enum gpuctr_error_code */
	uint32_t driver_status; /* of a permission */
	bool corrects;		/* a line that said it was granted: is not left out */
	const char *why;	/* NULL: as asked */
	uint64_t missed;	/* by audit_takes(): lines of this user that were left out before */
};

struct audit {
	bool wants_file;
	int fd;		      /* -1: none, or it could not be opened */
	int error;	      /* of the last write; 0 or -errno */
	bool torn;	      /* the file ends in a part of a line */
	struct rate refusals; /* what one user may put into the log by being refused */
	struct buffer line;
};

/* Consumes fd; wants_file and -1: nothing is granted until there is one. */
void audit_set_file(struct audit *a, bool wants_file, int fd);
void audit_deinit(struct audit *a);

/* Is there room for this line? False: more than 60 refusals of one user in a minute are counted
 * instead, and the count stands in that user's next line of this kind. */
bool audit_takes(struct audit *a, struct audit_line *l);

/* A line that was taken. 0, or -errno: then what it says must not be done. */
int audit_write(struct audit *a, const struct audit_line *l);

/* Why it could not be written; static. */
const char *audit_problem(const struct audit *a);

/* For the supervisor, which alone may open files. The descriptor; -errno with a message logged. */
int audit_open(const char *path);

/* Could the caller open it? Makes nothing. 0 or -errno. */
int audit_check(const char *path);

#endif
