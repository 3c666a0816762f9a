/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/requests.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/map.h"
#include "daemon/base/log.h"
#include "daemon/config/control.h"
#include "daemon/front/admission.h"
#include "daemon/front/decision.h"
#include "daemon/front/front.h"
#include "daemon/front/capture_events.h"

/* Only root of this machine may begin and end jobs; root of a container may not. The supervisor
 * keeps a copy of the jobs, so they outlive the front but not the daemon: after a new start only
 * the settings decide. */

#define JOB_TIME_MAX_NS (UINT64_C(10) * 365 * 24 * 3600 * CLOCK_NS_PER_S)

static uint64_t min_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool may_state(struct peer *p, uint32_t request)
{
	struct refusal r;

	if (p->credentials.host_root) {
		return true;
	}
	refusal_set(&r, GPUCTR_E_NOT_ALLOWED,
		    "State it as root of this machine, outside any container: in the scheduler's "
		    "prolog and epilog.",
		    "uid %u may not state whose job a GPU belongs to",
		    (unsigned)p->credentials.uid);
	decision_of_peer(p, &r);
	peer_refuse(p, request, &r);
	return false;
}

static void answer(struct peer *p, uint32_t request)
{
	struct wire_message m = { .type = WIRE_JOB_REPLY, .job_reply = { .request = request } };

	peer_send(p, &m);
}

static void refuse(struct peer *p, uint32_t request, int code, const char *remedy,
		   const char *message)
{
	struct refusal r;

	refusal_set(&r, code, remedy, "%s", message);
	peer_refuse_counted(p, request, &r);
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

/* If the supervisor is busy, scheduler_tick() reports the jobs again. */
static void report_supervisor(struct front *f)
{
	const struct control_message m = { .op = CONTROL_JOBS, .jobs = f->jobs };

	f->jobs_unreported = control_send_message(f->control, &m, -1) < 0;
}

/* Writes an audit line for each job that has ended. */
static void note_ended(struct front *f, struct peer *p, const struct jobs *before, const char *why)
{
	for (size_t i = 0; i < JOBS_MAX; i++) {
		const struct job *job = &before->slots[i];

		if (job->name[0] != '\0' && !jobs_find(&f->jobs, job->name)) {
			decision_of_job(f, p, AUDIT_JOB_ENDED, job, why);
		}
	}
}

static void changed(struct front *f, struct peer *p, const struct jobs *before, const char *why)
{
	note_ended(f, p, before, why);
	report_supervisor(f);
	capture_events_on_jobs_changed(f, jobs_changed_gpus(before, &f->jobs));
}

int handle_job_begin(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	const struct wire_job_begin *b = &m->job_begin;
	struct front *f = p->front;
	const struct jobs before = f->jobs;
	struct job job = { .uid = b->uid };
	struct refusal r;

	if (!may_state(p, b->request) || read_gpus(p, b, &job.gpus) != 0) {
		return 0;
	}
	if (b->job[0] == '\0' || job.gpus == 0) {
		refuse(p, b->request, GPUCTR_E_BAD_REQUEST, "Give --job and --devices.",
		       "a job needs a name and at least one GPU");
		return 0;
	}
	snprintf(job.name, sizeof(job.name), "%s", b->job);
	job.until_ns = b->time_ns ? clock_now_ns() + min_ns(b->time_ns, JOB_TIME_MAX_NS) : 0;
	if (decision_of_job(f, p, AUDIT_JOB_BEGUN, &job, NULL) < 0) {
		decision_refusal(f, &r);
		peer_refuse_counted(p, b->request, &r);
		return 0;
	}
	if (jobs_begin(&f->jobs, &job) < 0) {
		refuse(p, b->request, GPUCTR_E_QUOTA, "End those that are over.",
		       "there is no room for another job");
		return 0;
	}
	changed(f, p, &before, "its GPUs are another job's now");
	answer(p, b->request);
	return 0;
}

int handle_job_end(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	const struct wire_job_end *e = &m->job_end;
	struct front *f = p->front;
	const struct jobs before = f->jobs;

	if (!may_state(p, e->request)) {
		return 0;
	}
	if (!jobs_end(&f->jobs, e->job)) {
		refuse(p, e->request, GPUCTR_E_BAD_REQUEST,
		       "`gpuctr-client status` lists them; they do not outlive the daemon.",
		       "there is no job of this name");
		return 0;
	}
	changed(f, p, &before, NULL);
	answer(p, e->request);
	return 0;
}

/* A hash of the UUIDs in their order, which changes when an index means another GPU. */
static uint64_t number_of_machine(const struct wire_gpus *gpus)
{
	uint64_t number = 0;

	for (size_t i = 0; i < gpus->n; i++) {
		const char *uuid = gpus->v[i].uuid;

		number = map_mix(number, map_hash(uuid, strlen(uuid)));
	}
	return number | 1;
}

bool scheduler_on_machine(struct front *f, const struct wire_gpus *gpus)
{
	uint64_t machine = number_of_machine(gpus);
	const struct jobs before = f->jobs;

	if (gpus->n == 0 || machine == before.machine) {
		return false; /* a driver that shows no GPU now may show the same ones later */
	}
	f->jobs = (struct jobs){ .machine = machine };
	if (before.machine != 0) {
		log_warning("the machine's GPUs have changed: captures and jobs are over");
		note_ended(f, NULL, &before, "the machine's GPUs have changed");
	}
	report_supervisor(f);
	return f->n_uuids > 0;
}

void scheduler_tick(struct front *f, uint64_t now_ns)
{
	const struct jobs before = f->jobs;

	if (jobs_expire(&f->jobs, now_ns) || f->jobs_unreported) {
		changed(f, NULL, &before, "its time is over");
	}
}
