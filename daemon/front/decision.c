/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/decision.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/front/admission.h"
#include "daemon/front/describe.h"
#include "daemon/front/front.h"
#include "daemon/front/users.h"
#include "proto/wire/limits.h"

enum { METRICS_BYTES_MAX = 8192 };

/* A lease is granted only if its line was written. A refusal is valid even if its line could not be
 * written. */
static int write_taken(struct front *f, const struct audit_line *l)
{
	int r = audit_write(&f->audit, l);

	if (r == 0 || l->event != AUDIT_LEASE_GRANTED) {
		stats_note_decision(&f->stats, l->event, l->code);
	}
	return r;
}

/* Looks up users' names only for a line that is written, because that reads a file. */
static int write_line(struct front *f, struct audit_line *l)
{
	char user[64];

	if (!audit_takes(&f->audit, l)) {
		stats_note_decision(&f->stats, l->event, l->code);
		return 0;
	}
	if (!l->user) {
		users_name(f->users, l->uid, user, sizeof(user));
		l->user = user;
	}
	return write_taken(f, l);
}

int decision_to_start(struct front *f)
{
	struct audit_line l = {
		.event = AUDIT_STARTED,
		.uid = getuid(),
		.pid = getpid(),
		.program = "gpucountd",
	};

	return write_line(f, &l);
}

/* Names may be long and many: takes as many as fit into a line of reasonable length. */
static size_t count_metrics(const struct wire_strings *metrics)
{
	size_t n = 0;

	for (size_t bytes = 0; n < metrics->n; n++) {
		bytes += strlen(metrics->v[n]) + 3;
		if (bytes > METRICS_BYTES_MAX) {
			break;
		}
	}
	return n;
}

int decision_of_capture(struct front *f, const struct capture *c, enum audit_event event, int code,
			const char *why)
{
	bool begins = event == AUDIT_LEASE_GRANTED || event == AUDIT_TRACE_GRANTED ||
		      event == AUDIT_REFUSED;
	const char *gpus[LIMIT_GPUS];
	struct audit_line l = {
		.event = event,
		.uid = c->uid,
		.pid = c->pid,
		.user = c->user,
		.owner = c->owner,
		.program = c->options.program,
		.capture = c->id,
		.gpus = gpus,
		.n_gpus = describe_uuids(f, c->reservation.gpus, gpus),
		.metrics = c->options.metrics.v,
		.n_metrics = begins ? count_metrics(&c->options.metrics) : 0,
		.code = code,
		.why = why,
	};

	return write_line(f, &l);
}

int decision_of_peer(const struct peer *p, const struct refusal *r)
{
	struct refusal unused;
	struct audit_line l = {
		.event = AUDIT_REFUSED,
		.uid = p->credentials.uid,
		.pid = p->credentials.pid,
		.program = p->program,
		.code = r->code,
		.why = r->message,
		.is_stranger = !admission_is_known(p->front, &p->credentials, &unused),
	};

	return write_line(p->front, &l);
}

/* The peer is a program of the capture; it may belong to another user than the capture. */
void decision_note_asker(struct decision_asker *a, const struct peer *p, const struct capture *c)
{
	struct refusal unused;

	*a = (struct decision_asker){
		.uid = p->credentials.uid,
		.pid = p->credentials.pid,
		.capture = c ? c->id : 0,
		.gpus = c ? c->reservation.gpus : 0,
		.is_stranger = !c && !admission_is_known(p->front, &p->credentials, &unused),
	};
	if (c && c->uid == a->uid) {
		snprintf(a->user, sizeof(a->user), "%s", c->user);
	}
	snprintf(a->program, sizeof(a->program), "%s", c ? c->options.program : p->program);
}

int decision_of_permission(struct front *f, const struct decision_asker *a, enum audit_event event,
			   const struct refusal *r, uint32_t driver_status)
{
	const char *gpus[LIMIT_GPUS];
	struct audit_line l = {
		.event = event,
		.uid = a->uid,
		.pid = a->pid,
		.user = a->user[0] ? a->user : NULL,
		.program = a->program,
		.capture = a->capture,
		.gpus = gpus,
		.n_gpus = describe_uuids(f, a->gpus, gpus),
		.code = r ? r->code : 0,
		.driver_status = driver_status,
		.corrects = event == AUDIT_PERMISSION_REFUSED && a->noted,
		.is_stranger = a->is_stranger,
		.why = r ? r->message : NULL,
	};

	return write_line(f, &l);
}

int decision_of_job(struct front *f, const struct peer *p, enum audit_event event,
		    const struct job *job, const char *why)
{
	const char *gpus[LIMIT_GPUS];
	struct audit_line l = {
		.event = event,
		.uid = job->uid,
		.pid = p ? p->credentials.pid : 0,
		.program = p ? p->program : "gpucountd",
		.gpus = gpus,
		.n_gpus = describe_uuids(f, job->gpus, gpus),
		.job = job->name,
		.why = why,
	};

	return write_line(f, &l);
}

void decision_refusal(const struct front *f, struct refusal *r)
{
	refusal_set(r, GPUCTR_E_AUDIT,
		    "Tell the administrator: nothing is granted until it can be written.",
		    "the audit log cannot be written: %s", audit_problem(&f->audit));
}
