/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/capture_events.h"

#include "proto/base/clock.h"
#include "daemon/front/admission.h"
#include "daemon/front/describe.h"
#include "daemon/front/front.h"
#include "daemon/front/permits.h"

/* Reports what happens to captures as events to the broker. The broker decides what follows
 * (daemon/broker/broker.c), and effects.c carries it out. Noting an event changes nothing else, so
 * callers may do it while they walk over a list of captures. This file finds out the facts that an
 * event carries, such as the GPUs that a user may not measure any more. */

void capture_events_look_around(struct front *f)
{
	f->broker.grants = !f->stopping && granter_link_is_up(&f->granter);
	f->broker.lease_max_ns = f->config.lease_max_ns;
}

void capture_events_note(struct front *f, struct capture *c, enum event_type type, int code,
			 const char *message, const char *remedy)
{
	const struct event e = { .type = type,
				 .now_ns = clock_now_ns(),
				 .code = code,
				 .message = message,
				 .remedy = remedy };

	capture_events_look_around(f);
	broker_handle(&f->broker, c, &e);
}

void capture_events_report_why(struct front *f, struct capture *c, enum event_type type, int code,
			       const char *message, const char *remedy)
{
	capture_events_note(f, c, type, code, message, remedy);
	f->hooks->carry_out(f);
}

void capture_events_report(struct front *f, struct capture *c, enum event_type type)
{
	capture_events_report_why(f, c, type, 0, NULL, NULL);
}

static void report_all(struct front *f, enum event_type type, int code, const char *message,
		       const char *remedy)
{
	list_for_each(l, &f->registry.captures) {
		capture_events_note(f, list_entry(l, struct capture, link), type, code, message,
				    remedy);
	}
	f->hooks->carry_out(f);
}

/* --- the client --- */

static struct capture *own_capture(struct peer *p, uint32_t id)
{
	struct capture *c = registry_find(&p->front->registry, id);

	return c && c->client == p ? c : NULL;
}

int handle_close_capture(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	struct capture *c = own_capture(p, m->close_capture.capture);

	if (c) {
		capture_events_report(p->front, c, EVENT_CLOSE);
	}
	return 0; /* unknown id: the capture has just ended by itself */
}

static void resume_agents(struct capture *c)
{
	c->holds_back = false;
	list_for_each(l, &c->processes) {
		peer_resume(list_entry(l, struct process, link)->peer);
	}
}

void capture_events_on_client_closed(struct peer *p)
{
	rpc_client_forget(&p->front->planner, p);
	list_for_each_safe(l, &p->captures) {
		struct capture *c = list_entry(l, struct capture, client_link);

		list_remove(&c->client_link);
		resume_agents(c);
		capture_events_note(p->front, c, EVENT_CLIENT_GONE, 0, NULL, NULL);
	}
	p->front->hooks->carry_out(p->front);
}

void capture_events_on_client_drained(struct peer *p)
{
	list_for_each(l, &p->captures) {
		resume_agents(list_entry(l, struct capture, client_link));
	}
}

/* --- the granter and the driver --- */

void capture_events_on_granter_lost(struct front *f)
{
	report_all(f, EVENT_LOST, 0, NULL, NULL);
}

void capture_events_on_granter_back(struct front *f)
{
	broker_wake(&f->broker);
	f->hooks->carry_out(f);
}

static void note_hung(struct front *f, struct capture *c)
{
	capture_events_note(f, c, EVENT_HUNG, GPUCTR_E_DRIVER_HUNG,
			    describe_hang(f, &c->arena, c->reservation.gpus),
			    "Take another GPU with --devices; when this one does not come back, an "
			    "administrator has to reset it or to restart the machine.");
}

/* The granter has ended its lease already. */
void capture_events_on_driver_hung(struct front *f, uint64_t gpus)
{
	list_for_each(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (c->reservation.state != RESERVATION_IDLE && (c->reservation.gpus & gpus) != 0) {
			note_hung(f, c);
		}
	}
	f->hooks->carry_out(f);
}

void capture_events_on_planned(struct front *f, struct capture *c)
{
	if ((c->reservation.gpus & f->granter.hung_gpus) != 0) {
		note_hung(f, c);
		f->hooks->carry_out(f);
	} else {
		capture_events_report(f, c, EVENT_PLANNED);
	}
}

/* --- settings, jobs, GPUs --- */

static void note_withdrawn(struct front *f, struct capture *c, const char *message,
			   const char *remedy)
{
	capture_events_note(f, c, EVENT_WITHDRAWN, GPUCTR_E_NOT_ALLOWED, message, remedy);
}

static void note_loss(struct front *f, struct capture *c, uint64_t lost)
{
	size_t gpu = (size_t)__builtin_ctzll(lost);
	const struct job *job = jobs_owner(&f->jobs, gpu);
	const char *why =
		job ? arena_printf(&c->arena, "GPU %zu belongs to job %s now", gpu, job->name)
		    : arena_printf(&c->arena, "the job that had GPU %zu is over", gpu);

	note_withdrawn(f, c, why, "Measure within a job of your own.");
}

/* A capture with counters of the whole GPU ends when a job begins or ends there: once the programs
 * of the job's user compute, it is too late. A capture that has not asked for such counters yet
 * goes on, and is watched once it asks. */
static void note_whole_gpus(struct front *f, struct capture *c, uint64_t changed)
{
	bool counts = c->whole_gpus && (c->options.permit || c->counts_whole);

	if (c->leased && counts && !f->config.shared && (c->reservation.gpus & changed) != 0) {
		note_withdrawn(f, c, "a job has begun or ended on a GPU that is counted as a whole",
			       "Run it again; it then waits until nobody else runs on the GPU.");
	}
}

void capture_events_on_jobs_changed(struct front *f, uint64_t changed)
{
	list_for_each(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);
		uint64_t lost = admission_lost(f, c);

		if ((c->reservation.state != RESERVATION_IDLE || c->options.trace) && lost != 0) {
			note_loss(f, c, lost);
		}
		note_whole_gpus(f, c, changed);
	}
	f->hooks->carry_out(f);
}

/* Is c checked now? A capture in planning is checked when its plan is known. */
static bool is_looked_at(const struct capture *c)
{
	return c->client && c->state != CAPTURE_PLANNING && c->state != CAPTURE_ENDING;
}

void capture_events_on_reload(struct front *f)
{
	list_for_each(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);
		const struct peer *client = c->client;
		struct refusal r;

		if (!is_looked_at(c)) {
			continue;
		}
		c->by_job = admission_by_job(f, &client->credentials, c->reservation.gpus);
		/* The users of shared GPUs are not watched, so a permit of whole ones ends. */
		if (!admission_still_allows(f, &client->credentials, c, &r) ||
		    (c->whole_gpus && !permits_device(f, c, &r))) {
			note_withdrawn(f, c, r.message, r.remedy);
		}
	}
	f->hooks->carry_out(f);
}

void capture_events_on_gpu_back(struct front *f)
{
	report_all(f, EVENT_GPU_BACK, 0, NULL, NULL);
}

/* --- time --- */

void capture_events_on_tick(struct front *f)
{
	report_all(f, EVENT_TICK, 0, NULL, NULL);
}

void capture_events_end_all(struct front *f, int code, const char *message, const char *remedy)
{
	report_all(f, EVENT_STOPPING, code, message, remedy);
}
