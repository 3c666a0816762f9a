/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/permits.h"

#include <stdio.h>
#include <string.h>

#include "daemon/front/front.h"
#include "daemon/front/peer.h"
#include "proto/base/utf8.h"
#include "proto/wire/limits.h"

/* Objects for the whole device have two zeros in place of a target in their call of RM. The granter
 * makes sure that they are on a GPU of the lease.
 *
 * While the front watches a lease for other users, its holder is alone on its GPUs, and a permit
 * may have such objects without an entitlement: ncu makes one to list the counters, and memory
 * counters show the whole device even to an object that is bound to a context. Where users trust
 * each other (`sharing = shared`), the front does not watch, and the entitlement decides. */

enum { REFUSALS_MAX = 64 }; /* most refusals of a permit that its client hears of */

int permits_check(const struct wire_open_capture *o, struct refusal *r)
{
	if (o->metrics.n > 0) {
		refusal_set(r, GPUCTR_E_BAD_REQUEST, "Ask for one or the other.",
			    "a permit measures nothing by itself: it has no metrics");
		return r->code;
	}
	return 0;
}

/* Shows the command's name to everybody, its arguments to the owner and the log only. */
void permits_describe(struct wire_open_capture *o, struct permits_texts *texts)
{
	snprintf(texts->program, sizeof(texts->program), "permit: %.*s",
		 (int)strcspn(o->program, " "), o->program);
	utf8_repair(texts->program);
	texts->metrics[0] = "permit";
	texts->metrics[1] = o->program;
	o->metrics = (struct wire_strings){ 2, texts->metrics };
	o->program = texts->program;
}

bool permits_device(const struct front *f, const struct capture *c, struct refusal *r)
{
	bool entitled = c->device || (c->options.permit && !f->config.shared);

	if (!entitled && r) {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED,
			    "Ask the administrator for `device-users` or `device-groups`.",
			    "counting the whole GPU, not one program, needs an entitlement");
	}
	return entitled;
}

void permits_note_granted(struct capture *c, pid_t pid)
{
	if (c && c->options.permit && c->permitted_pid != pid) {
		c->permitted_pid = pid;
		c->n_processes++;
	}
}

void permits_report_refused(struct capture *c, uid_t uid, pid_t pid, const struct refusal *r)
{
	char text[LIMIT_TEXT_BYTES];

	if (!c || !c->options.permit || !c->client || c->n_permit_refusals++ >= REFUSALS_MAX) {
		return;
	}
	if (c->target != uid) {
		snprintf(text, sizeof(text),
			 "process %d runs as another user (uid %u): a permit is for programs of "
			 "who opened it",
			 (int)pid, (unsigned)uid);
	} else {
		snprintf(text, sizeof(text), "process %d was refused the counters: %.512s",
			 (int)pid, r->message);
	}
	utf8_repair(text);
	peer_notify_client(c, (struct wire_notice){ .code = (uint32_t)r->code,
						    .message = text,
						    .remedy = r->remedy });
}
