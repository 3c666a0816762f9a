/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the audit lines for the front's decisions. Each function returns 0 or -errno; after an
 * error the front must not grant what the line says. */

#include "daemon/audit/audit.h"
#include "daemon/broker/capture.h"
#include "daemon/broker/jobs.h"
#include "daemon/front/peer.h"
#include "proto/wire/limits.h"

struct front;

int decision_of_capture(struct front *f, const struct capture *c, enum audit_event event, int code,
			const char *why);

/* The front has started: every grant of the previous front process ended with that process. */
int decision_to_start(struct front *f);

/* A connection is refused. */
int decision_of_peer(const struct peer *p, const struct refusal *r);

/* The user who asks for a permission, and the capture, as the audit lines name them. Holds copies,
 * because the peer and the capture may be gone when the granter answers. */
struct decision_asker {
	uid_t uid;
	pid_t pid;
	bool is_stranger; /* a user who may not measure here */
	bool noted;	  /* the log, or at least its file, has a line that grants the permission */
	uint32_t capture; /* 0: unknown */
	uint64_t gpus;	  /* of the capture */
	char user[64];	  /* "": not looked up yet */
	char program[LIMIT_NAME_BYTES + 1];
};

/* c may be NULL: no capture is known. */
void decision_note_asker(struct decision_asker *a, const struct peer *p, const struct capture *c);

/* r: NULL for AUDIT_PERMISSION_GRANTED. */
int decision_of_permission(struct front *f, const struct decision_asker *a, enum audit_event event,
			   const struct refusal *r, uint32_t driver_status);

/* p may be NULL: no user asked; why is then the cause. */
int decision_of_job(struct front *f, const struct peer *p, enum audit_event event,
		    const struct job *job, const char *why);

/* Fills r with "the audit log cannot be written: ..." for a user whose grant needs the line. */
void decision_refusal(const struct front *f, struct refusal *r);
