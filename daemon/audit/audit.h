/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One line for every decision: with a journal a structured entry with a message id; else a JSON
 * object in the file, if the settings name one, and a text in the log. Entry and object have the
 * same fields (gpucountd(8)). A grant is written before it is given, and is not given if it cannot
 * be written. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/broker/rate.h"
#include "proto/base/buf.h"

enum audit_event {
	AUDIT_STARTED, /* every lease in earlier lines is over */
	AUDIT_REFUSED, /* a connection, or a capture before its lease, is refused */
	AUDIT_LEASE_GRANTED,
	AUDIT_LEASE_ENDED,
	AUDIT_LEASE_EXPIRED,
	AUDIT_LEASE_REVOKED,
	AUDIT_TRACE_GRANTED, /* trace of another user's programs; own ones need no permission */
	AUDIT_TRACE_ENDED,   /* early end of a trace, also of one's own programs */
	AUDIT_PERMISSION_GRANTED, /* written before the driver is asked */
	AUDIT_PERMISSION_REFUSED, /* by the daemon, or by the driver after the line above */
	AUDIT_JOB_BEGUN,
	AUDIT_JOB_ENDED,
};

struct audit_line {
	enum audit_event event;
	uid_t uid;
	pid_t pid;
	const char *user, *program; /* NULL: unknown */
	const char *owner; /* user of the measured programs if it is not user; else NULL or "" */
	uint32_t capture;  /* 0: none */
	const char *const *gpus; /* UUIDs */
	size_t n_gpus;
	const char *const *metrics; /* as requested */
	size_t n_metrics;
	const char *job;	/* NULL: none */
	int code;		/* enum gpuctr_error_code */
	uint32_t driver_status; /* driver's answer for a permission */
	bool corrects;		/* corrects an earlier line with a grant, so it is never left out */
	const char *why;	/* NULL: its client asked for it */
	bool is_stranger;	/* the user may do nothing here */
	/* Set by audit_takes(): the number of lines left out before, of this user and of others. */
	uint64_t missed, missed_others;
};

/* Limits the lines that refused users add to the log. */
struct audit_limit {
	struct rate each;
	struct rate_bucket all;
};

struct audit {
	bool journal; /* the journal is used, and no file */
	bool wants_file;
	int fd;	   /* -1: no file, or it could not be opened */
	int error; /* result of the last write; 0 or -errno */
	bool torn; /* the file ends with an incomplete line */
	struct audit_limit users, strangers;
	struct buf line;
};

/* Consumes fd. With wants_file and fd -1 nothing is granted until a file is set. */
void audit_set_file(struct audit *a, bool wants_file, int fd);
void audit_deinit(struct audit *a);

/* May this line be written? Beyond 60 refusals in a minute a user's refusals are only counted, and
 * the user's next line states the count. Because uids are cheap, the same holds for all users
 * together beyond 600, and for all strangers together beyond 600 of their own: the next line of any
 * of them states the count. False: counted only. */
bool audit_takes(struct audit *a, struct audit_line *l);

/* Writes a line that audit_takes() has let pass. 0, or -errno: then the caller must not grant what
 * the line says. */
int audit_write(struct audit *a, const struct audit_line *l);

/* Why the last line could not be written; static. */
const char *audit_problem(const struct audit *a);

/* Opens the file; only the supervisor may open files. The descriptor; -errno with a message
 * logged. */
int audit_open(const char *path);

/* Could the caller open the file? Creates nothing. 0 or -errno. */
int audit_check(const char *path);

/* Notes the daemon's start in the journal. libsystemd opens its socket at the first entry, so a
 * process calls this before its filter forbids that. 0 or -errno. */
int audit_open_journal(void);
