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

/* This process has started: every grant of its predecessor ended with it. */
int decision_to_start(struct front *f);

/* A connection is refused. */
int decision_of_peer(const struct peer *p, const struct refusal *r);

/* Who asks for a permission, and of which capture: what the lines of the permission say. It needs
 * neither peer nor capture, which may be gone when the granter answers. */
struct decision_asker {
	uid_t uid;
	pid_t pid;
	bool is_stranger; /* may do nothing here */
	bool noted;	  /* there is a line, in the file at least, that it was granted */
	uint32_t capture; /* 0: none is known */
	uint64_t gpus;	  /* of the capture */
	char user[64];	  /* "": to be looked up */
	char program[LIMIT_NAME_BYTES + 1];
};

/* c may be NULL: no capture is known. */
void decision_note_asker(struct decision_asker *a, const struct peer *p, const struct capture *c);

/* r: NULL for AUDIT_PERMISSION_GRANTED. */
int decision_of_permission(struct front *f, const struct decision_asker *a, enum audit_event event,
			   const struct refusal *r, uint32_t driver_status);

/* p may be NULL: no user asked; why then has the cause. */
int decision_of_job(struct front *f, const struct peer *p, enum audit_event event,
		    const struct job *job, const char *why);

/* Fills r with "the audit log cannot be written: ..." for a user whose grant needs the line. */
void decision_refusal(const struct front *f, struct refusal *r);
