/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "proto/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/front/decision.h"
#include "daemon/front/describe.h"
#include "daemon/front/front.h"
#include "daemon/front/permits.h"
#include "daemon/front/capture_events.h"
#include "daemon/front/standby.h"
#include "proto/wire/limits.h"

/* One function for each effect. None decides anything about a capture: it reports an important
 * outcome to the broker as an event, whose effects are queued behind the waiting ones. */

static void write_note(struct front *f, struct capture *c, const struct effect *e)
{
	static const enum audit_event events[] = {
		[NOTE_REFUSED] = AUDIT_REFUSED,		[NOTE_ENDED] = AUDIT_LEASE_ENDED,
		[NOTE_EXPIRED] = AUDIT_LEASE_EXPIRED,	[NOTE_REVOKED] = AUDIT_LEASE_REVOKED,
		[NOTE_TRACE_ENDED] = AUDIT_TRACE_ENDED,
	};

	decision_of_capture(f, c, events[e->note], e->code, e->why);
}

static void refuse(struct front *f, struct capture *c, const struct effect *e)
{
	struct wire_message m = {
		.type = WIRE_REFUSAL,
		.refusal = {
			.request = c->request,
			.code = (uint32_t)e->code,
			.message = e->why,
			.remedy = e->remedy,
		},
	};

	peer_send_client(c, &m);
}

static void check(struct front *f, struct capture *c, const struct effect *e)
{
	tenancy_check(f, c);
}

static void send_queued(struct front *f, struct capture *c, const struct effect *e)
{
	const struct capture *holder = broker_blocker(&f->broker, c);
	const char *uuids[LIMIT_GPUS];
	struct arena a;
	struct wire_message m = {
		.type = WIRE_QUEUED,
		.queued = { .capture = c->id,
			    .position = arbiter_position(&f->arbiter, &c->reservation) },
	};

	arena_init(&a, 16 * 1024);
	if (holder) {
		m.queued.holder = capture_describe_holder(&a, holder);
		m.queued.holder_left_ns = describe_lease_left_ns(f, holder);
		m.queued.gpu =
			describe_uuids(f, holder->reservation.gpus & c->reservation.gpus, uuids) > 0
				? uuids[0]
				: "";
	}
	peer_send_client(c, &m);
	arena_deinit(&a);
}

static void report_failure(struct front *f, struct capture *c, const char *message,
			   const char *remedy)
{
	capture_events_report_why(f, c, EVENT_NOT_OPENED, GPUCTR_E_INTERNAL, message, remedy);
}

static void on_opened(struct front *f, void *owner, const struct granter_reply *reply)
{
	struct capture *c = owner;

	if (reply && reply->error == 0) {
		capture_events_report(f, c, EVENT_OPENED);
		return;
	}
	log_error("capture %u: the granter did not open the lease: %s", c->id,
		  reply ? strerror(-reply->error) : "no answer");
	if (reply) {
		report_failure(f, c, "the lease could not be opened",
			       "Try again; the daemon's log says more.");
	} else {
		report_failure(
			f, c, "the lease could not be opened: the daemon's granter does not answer",
			"Try again in a moment: the daemon restarts it. If it happens again, the "
			"driver may hang: ask whether nvidia-smi answers.");
	}
}

/* For a GPU whose UUID has an unusual form the name stays zeros, and the granter gives no objects
 * on it. */
static void name_gpus(const struct front *f, struct granter_request *q)
{
	for (size_t i = 0; i < f->machine.gpus.n && i < GRANTER_GPUS_MAX; i++) {
		rm_gpu_from_text(f->machine.gpus.v[i].uuid, &q->names[i]);
	}
}

static void open_lease(struct front *f, struct capture *c, const struct effect *e)
{
	struct granter_request q = {
		.op = GRANTER_OPEN,
		.lease = c->id,
		.gpus = c->reservation.gpus,
		.uid = (uint32_t)c->target,
		.pid = (uint32_t)c->pid,
		.device = permits_device(f, c, NULL),
	};
	struct refusal r;

	name_gpus(f, &q);
	c->whole_gpus = q.device;
	if (decision_of_capture(f, c, AUDIT_LEASE_GRANTED, 0, NULL) < 0) {
		decision_refusal(f, &r);
		capture_events_report_why(f, c, EVENT_NOT_NOTED, r.code, r.message, r.remedy);
		return;
	}
	stats_note_wait(&f->stats, c->queued_ns ? clock_now_ns() - c->queued_ns : 0);
	if (granter_link_request(&f->granter, &q, -1, on_opened, c) < 0) {
		report_failure(f, c, "the granter is not running just now",
			       "Try again in a moment.");
	}
}

static void send_ready(struct front *f, struct capture *c, const struct effect *e)
{
	struct wire_message m = {
		.type = WIRE_READY,
		.ready = { .capture = c->id, .token = c->token },
	};

	peer_send_client(c, &m);
	standby_begin(f, c);
}

static void stop_agents(struct front *f, struct capture *c, const struct effect *e)
{
	struct wire_message m = {
		.type = WIRE_AGENT_STOP,
		.agent_stop = { .code = c->end_code, .message = c->end_message },
	};

	list_for_each(l, &c->processes) {
		struct process *p = list_entry(l, struct process, link);

		if (p->number != 0) {
			peer_send(p->peer, &m);
		}
	}
}

/* Takes the counters back at once. The reservation stays until the capture's processes are gone. */
static void close_lease(struct front *f, struct capture *c, const struct effect *e)
{
	granter_link_close_lease(&f->granter, c->id);
}

/* Detaches the remaining processes. Processes that have not begun never heard of the capture; the
 * others had time to say goodbye, so their connections are closed. */
static void detach_processes(struct front *f, struct capture *c)
{
	list_for_each_safe(l, &c->processes) {
		struct process *p = list_entry(l, struct process, link);
		bool begun = p->number != 0;

		if (begun) {
			stats_settle(&f->stats, p);
		}
		process_detach(p);
		if (begun) {
			peer_close(p->peer);
		}
	}
}

static void report_end(struct front *f, struct capture *c, const struct effect *e)
{
	struct wire_message m = { .type = WIRE_CAPTURE_END };
	struct gpuctr_totals totals;

	detach_processes(f, c);
	totals = capture_totals(c);
	m.capture_end = (struct wire_capture_end){
		.capture = c->id,
		.totals = totals,
		.processes = c->n_processes,
		.code = c->end_code,
		.message = c->end_message,
		.remedy = c->end_remedy,
	};
	peer_send_client(c, &m);
	log_info("capture %u: over, %llu kernels measured of %llu", c->id,
		 (unsigned long long)totals.measured, (unsigned long long)totals.seen);
}

static void free_capture(struct front *f, struct capture *c, const struct effect *e)
{
	/* A refused capture has not gone through EFFECT_END, so the processes that it named are
	 * detached here. */
	detach_processes(f, c);
	rpc_client_forget(&f->planner, c);
	granter_link_forget(&f->granter, c);
	capture_free(&f->registry, c);
}

static void (*const table[])(struct front *f, struct capture *c, const struct effect *e) = {
	[EFFECT_NOTE] = write_note,    [EFFECT_REFUSE] = refuse,     [EFFECT_CHECK] = check,
	[EFFECT_QUEUED] = send_queued, [EFFECT_OPEN] = open_lease,   [EFFECT_READY] = send_ready,
	[EFFECT_STOP] = stop_agents,   [EFFECT_CLOSE] = close_lease, [EFFECT_END] = report_end,
	[EFFECT_FREE] = free_capture,
};

void effects_carry_out(struct front *f)
{
	struct effect e;

	if (f->carrying_out) {
		return;
	}
	f->carrying_out = true;
	capture_events_look_around(f);
	while (broker_next(&f->broker, clock_now_ns(), &e)) {
		table[e.type](f, e.capture, &e);
	}
	f->carrying_out = false;
	if (!list_is_empty(&f->registry.captures)) {
		front_arm_tick(f);
	}
}
