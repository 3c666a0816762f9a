/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "daemon/front/decision.h"
#include "daemon/front/front.h"
#include "daemon/front/permits.h"
#include "daemon/front/capture_events.h"
#include "proto/nvidia/rm.h"

/* One permission: the program sends its handles and a descriptor, the front sends back the
 * granter's answer and closes the connection. The front writes the audit line before the driver is
 * called, so every permission is in the log even if this process dies just then. If the permission
 * then fails, the front writes a second line, even when the program has hung up meanwhile. So the
 * facts for the lines belong to the request, which lasts until its answer. */

struct permission {
	struct peer *peer; /* NULL: the program has hung up */
	struct decision_asker asker;
};

static void answer(struct peer *p, uint32_t status, const struct refusal *r)
{
	struct wire_message m = {
		.type = WIRE_PERMISSION_REPLY,
		.permission_reply = {
			.status = status,
			.code = (uint32_t)r->code,
			.message = r->message,
			.remedy = r->remedy,
		},
	};

	peer_send(p, &m);
	peer_close_when_sent(p);
}

/* asked: the capture of the token, which gets a report of the refusal even if c is NULL. noted: an
 * audit line grants the permission. */
static void refuse(struct peer *p, const struct capture *c, struct capture *asked, bool noted,
		   const struct refusal *r)
{
	struct decision_asker a;

	decision_note_asker(&a, p, c);
	a.noted = noted;
	permits_report_refused(asked, a.uid, a.pid, r);
	decision_of_permission(p->front, &a, AUDIT_PERMISSION_REFUSED, r, 0);
	answer(p, RM_STATUS_INSUFFICIENT_PERMISSIONS, r);
}

/* Fills r if the granter's reply is no permission; reply NULL: the granter has died or hangs. */
static void judge(const struct granter_reply *reply, struct refusal *r)
{
	if (!reply) {
		refusal_set(r, GPUCTR_E_INTERNAL, "Run it again; see the daemon's log.",
			    "the granter did not answer");
	} else if (reply->error == -ETIMEDOUT) {
		refusal_set(r, GPUCTR_E_DRIVER_HUNG, "Take another GPU with --devices.",
			    "the driver does not answer");
	} else if (reply->error == -ENOENT) {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED, "Ask for another lease.", "the lease is over");
	} else if (reply->error == -EXDEV) {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED,
			    "Name that GPU in --devices as well, or keep the program off it "
			    "(CUDA_VISIBLE_DEVICES).",
			    "the program asked for counters of a GPU that the lease does not "
			    "cover");
	} else if (reply->error == -ENOSPC) {
		refusal_set(
			r, GPUCTR_E_QUOTA, "Try again in a moment, with fewer processes at once.",
			"the driver has still to make or to take back what was asked for before: a "
			"capture may have %d of its objects, and all together %d",
			GRANTER_OBJECTS_PER_LEASE_MAX, GRANTER_OBJECTS_MAX);
	} else if (reply->error == -ESRCH) {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED,
			    "Let the process that asks live until it has the answer.",
			    "the process that asked has ended");
	} else if (reply->error == -EPROTO) {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED,
			    "Report the versions of the profiler and of the driver.",
			    "the driver gave the object another number than was asked for, by "
			    "which it could not be taken back");
	} else if (reply->error != 0) {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED,
			    "Try again, and report it with the versions of the profiler and of the "
			    "driver.",
			    "the granter refused: %s", strerror(-reply->error));
	} else if (reply->status != RM_STATUS_OK) {
		refusal_set(r, GPUCTR_E_GRANT_REFUSED,
			    "Check that the daemon holds CAP_PERFMON and the driver is 565.57 or "
			    "newer.",
			    "the driver refused the daemon (status 0x%x)", reply->status);
	}
}

/* The status that the program gets: the driver's, or a refusal. */
static uint32_t status_of(const struct granter_reply *reply)
{
	return reply && reply->error == 0 ? reply->status : RM_STATUS_INSUFFICIENT_PERMISSIONS;
}

static void on_granted(struct front *f, void *owner, const struct granter_reply *reply)
{
	CLEAN_FREE struct permission *q = owner;
	const struct decision_asker *a = &q->asker;
	struct capture *c = registry_find(&f->registry, a->capture);
	struct refusal r = { 0 };

	judge(reply, &r);
	if (r.code == 0) {
		f->n_granted++;
		permits_note_granted(c, a->pid);
	} else {
		permits_report_refused(c, a->uid, a->pid, &r);
		decision_of_permission(f, a, AUDIT_PERMISSION_REFUSED, &r,
				       reply ? reply->status : 0);
	}
	if (q->peer) {
		q->peer->permission = NULL;
		answer(q->peer, status_of(reply), &r);
	}
}

void permission_on_closed(struct peer *p)
{
	if (p->permission) {
		p->permission->peer = NULL;
		p->permission = NULL;
	}
}

/* Checks what only the front knows: whether the token opens a lease for programs of p's user. The
 * granter repeats the other checks. */
static int check(struct peer *p, const struct capture *c, const struct wire_permission_request *w,
		 struct refusal *r)
{
	struct front *f = p->front;
	uid_t uid = p->credentials.uid;

	if (!c || c->target != uid || c->reservation.state != RESERVATION_HOLDING ||
	    !capture_is_live(c)) {
		refusal_set(r, GPUCTR_E_BAD_TOKEN, "",
			    "no lease of yours is open under this token");
	} else if (!capture_takes(c, p->credentials.pid)) {
		refusal_set(r, GPUCTR_E_BAD_TOKEN, "Name the process in a capture.",
			    "the capture measures the processes that it names, and pid %d is none "
			    "of them",
			    (int)p->credentials.pid);
	} else if (w->root == 0 || w->parent == 0 || w->object == 0) {
		refusal_set(r, GPUCTR_E_NOT_ALLOWED,
			    "Report the versions of the profiler and of the driver.",
			    "the program asked for counters without a number for the driver's "
			    "object, which could not be taken back then");
	} else if (w->client_target == 0 && !permits_device(f, c, r)) {
		return r->code;
	} else if (!p->credentials.host_root &&
		   !rate_take(&f->permissions, policy_user(uid, false),
			      f->config.permissions_per_minute, clock_now_ns(), NULL)) {
		refusal_set(r, GPUCTR_E_QUOTA, "Wait a minute.",
			    "you asked for more than %u permissions within a minute",
			    f->config.permissions_per_minute);
	} else {
		return 0;
	}
	return r->code;
}

/* Fills r when the granter cannot be asked. *ret_noted: an audit line grants the permission. */
static void ask_granter(struct peer *p, const struct capture *c,
			const struct wire_permission_request *w, bool *ret_noted, struct refusal *r)
{
	CLEAN_FREE struct permission *asked = calloc(1, sizeof(*asked));
	struct granter_request q = {
		.op = GRANTER_ALLOC,
		.lease = c->id,
		.uid = (uint32_t)p->credentials.uid,
		.pid = (uint32_t)p->credentials.pid,
		.root = w->root,
		.parent = w->parent,
		.object = w->object,
		.object_class = w->object_class,
		.client_target = w->client_target,
		.context_target = w->context_target,
	};
	int written;

	if (!asked) {
		refusal_set(r, GPUCTR_E_INTERNAL, "Try again in a moment.", "out of memory");
		return;
	}
	asked->peer = p;
	decision_note_asker(&asked->asker, p, c);
	written =
		decision_of_permission(p->front, &asked->asker, AUDIT_PERMISSION_GRANTED, NULL, 0);
	/* Even after an error the file may contain the line. */
	asked->asker.noted = *ret_noted = true;
	if (written < 0) {
		decision_refusal(p->front, r);
	} else if (granter_link_request(&p->front->granter, &q, p->received_fd, on_granted, asked) <
		   0) {
		refusal_set(r, GPUCTR_E_INTERNAL, "Try again in a moment.",
			    "the granter is busy or not running");
	} else {
		p->permission = TAKE_PTR(asked);
	}
}

int handle_permission(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	const struct wire_permission_request *w = &m->permission_request;
	struct capture *c = registry_find_token(&p->front->registry, w->token);
	struct refusal r = { 0 };
	bool noted = false;

	p->role = PEER_PERMISSION;
	if (check(p, c, w, &r) != 0) {
		refuse(p, NULL, c, false, &r);
		return 0;
	}
	if (p->received_fd < 0) {
		return WIRE_E_MALFORMED;
	}
	/* The granter checks this too, but it should never have to close a descriptor that can take
	 * a user's time. */
	if (rm_is_control_device(p->received_fd)) {
		c->counts_whole |= w->client_target == 0;
		ask_granter(p, c, w, &noted, &r);
	} else {
		refusal_set(&r, GPUCTR_E_NOT_ALLOWED,
			    "Send the open file of /dev/nvidiactl that the object is to be of.",
			    "the file that came with the request is not the driver's");
	}
	peer_close_received(p);
	if (r.code != 0) {
		refuse(p, c, c, noted, &r);
	}
	return 0;
}
