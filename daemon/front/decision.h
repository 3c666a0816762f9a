/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUCTR_FRONT_DECISION_H
#define GPUCTR_FRONT_DECISION_H

/* The audit lines of what the front decides. Each returns 0, or -errno: then it must not be done,
 * if it would give somebody something. */

#include "daemon/audit/audit.h"
#include "daemon/broker/capture.h"
#include "daemon/broker/jobs.h"
#include "daemon/front/peer.h"

struct front;

int decision_of_capture(struct front *f, const struct capture *c, enum audit_event event, int code,
			const char *why);

/* Of this process: what its predecessor granted has ended with it. */
int decision_to_start(struct front *f);

/* c NULL: none that is known. */
int decision_of_peer(const struct peer *p, const struct capture *c, enum audit_event event,
		     const struct refusal *r, uint32_t driver_status);

/* p NULL: nobody asked; why says what for. */
int decision_of_job(struct front *f, const struct peer *p, enum audit_event event,
		    const struct job *job, const char *why);

/* "the audit log cannot be written: ..." for the one whose grant waits for it. */
void decision_refusal(const struct front *f, struct refusal *r);

#endif
