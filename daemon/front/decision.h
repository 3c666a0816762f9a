/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the audit lines for the front's decisions. Each function returns 0 or -errno; after an
 * error the front must not grant what the line says. */

#include "daemon/audit/audit.h"
#include "daemon/broker/capture.h"
#include "daemon/broker/jobs.h"
#include "daemon/front/peer.h"

struct front;

int decision_of_capture(struct front *f, const struct capture *c, enum audit_event event, int code,
			const char *why);

/* This process has started: every grant of its predecessor ended with it. */
int decision_to_start(struct front *f);

/* c may be NULL: no capture is known. */
int decision_of_peer(const struct peer *p, const struct capture *c, enum audit_event event,
		     const struct refusal *r, uint32_t driver_status);

/* p may be NULL: no user asked; why then has the cause. */
int decision_of_job(struct front *f, const struct peer *p, enum audit_event event,
		    const struct job *job, const char *why);

/* Fills r with "the audit log cannot be written: ..." for a user whose grant needs the line. */
void decision_refusal(const struct front *f, struct refusal *r);
