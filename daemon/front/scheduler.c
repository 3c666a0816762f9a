/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/scheduler.h"

#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/control.h"
#include "daemon/front/admission.h"
#include "daemon/front/decision.h"
#include "daemon/front/front.h"
#include "daemon/front/proc.h"
#include "daemon/front/session.h"

/* Only root of this machine may state anything; root of a container is not that root. The
 * supervisor keeps a copy of the statements, so they outlive this process but not the daemon: after
 * that everything is decided without them, which is the stricter way. */

static bool may_state(struct peer *p, uint32_t request)
{
	struct refusal r;

	if (p->credentials.uid == 0 && proc_is_of_this_machine(p->credentials.pid)) {
		return true;
	}
	refusal_set(&r, GPUCTR_E_NOT_ALLOWED,
		    "State it as root of this machine, outside any container: in the scheduler's "
		    "prolog and epilog.",
		    "uid %u may not state whose job a GPU belongs to",
		    (unsigned)p->credentials.uid);
	decision_of_peer(p, NULL, AUDIT_REFUSED, &r, 0);
	peer_refuse(p, request, &r);
	return false;
}

static void answer(struct peer *p, uint32_t request)
{
	struct wire_message m = { .type = WIRE_JOB_REPLY, .job_reply = { request } };

	peer_send(p, &m);
}

static void refuse(struct peer *p, uint32_t request, int code, const char *remedy,
		   const char *message)
{
	struct refusal r;

	refusal_set(&r, code, remedy, "%s", message);
	peer_refuse(p, request, &r);
}

static int read_gpus(struct peer *p, const struct wire_job_begin *b, uint64_t *ret)
{
	for (size_t i = 0; i < b->gpus.n; i++) {
		uint64_t bit = admission_find_gpu(p->front, b->gpus.v[i]);
		char text[160];

		if (bit == 0) {
			snprintf(text, sizeof(text), "this machine has no GPU '%.100s'",
				 b->gpus.v[i]);
			refuse(p, b->request, GPUCTR_E_NO_GPU,
			       "`gpuctr-client status` lists them with index and UUID.", text);
			return GPUCTR_E_NO_GPU;
		}
		*ret |= bit;
	}
	return 0;
}

static void changed(struct front *f)
{
	control_send_jobs(f->control, &f->jobs);
	session_on_jobs_changed(f);
}

int handle_job_begin(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	const struct wire_job_begin *b = &m->job_begin;
	struct front *f = p->front;
	struct job job = { .uid = b->uid };
	struct refusal r;

	(void)frame;
	if (!may_state(p, b->request) || read_gpus(p, b, &job.gpus) != 0) {
		return 0;
	}
	if (b->job[0] == '\0' || job.gpus == 0) {
		refuse(p, b->request, GPUCTR_E_BAD_REQUEST, "Give --job and --devices.",
		       "a job needs a name and at least one GPU");
		return 0;
	}
	snprintf(job.name, sizeof(job.name), "%s", b->job);
	job.until_ns = b->time_ns ? clock_now_ns() + b->time_ns : 0;
	if (decision_of_job(f, p, AUDIT_JOB_BEGUN, &job) < 0) {
		decision_refusal(f, &r);
		peer_refuse(p, b->request, &r);
		return 0;
	}
	if (jobs_begin(&f->jobs, &job) < 0) {
		refuse(p, b->request, GPUCTR_E_QUOTA, "End those that are over.",
		       "there is no room for another job");
		return 0;
	}
	changed(f);
	answer(p, b->request);
	return 0;
}

int handle_job_end(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	const struct wire_job_end *e = &m->job_end;
	struct front *f = p->front;
	struct job job;

	(void)frame;
	if (!may_state(p, e->request)) {
		return 0;
	}
	if (!jobs_end(&f->jobs, e->job, &job)) {
		refuse(p, e->request, GPUCTR_E_BAD_REQUEST,
		       "`gpuctr-client status` lists them; they do not outlive the daemon.",
		       "there is no job of this name");
		return 0;
	}
	decision_of_job(f, p, AUDIT_JOB_ENDED, &job);
	changed(f);
	answer(p, e->request);
	return 0;
}

void scheduler_tick(struct front *f, uint64_t now_ns)
{
	struct job job;

	while (jobs_expire(&f->jobs, now_ns, &job)) {
		decision_of_job(f, NULL, AUDIT_JOB_ENDED, &job);
		changed(f);
	}
}
