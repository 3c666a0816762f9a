/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/front/admission.h"
#include "daemon/front/decision.h"
#include "daemon/front/describe.h"
#include "daemon/front/front.h"
#include "daemon/front/tenancy.h"
#include "daemon/front/users.h"
#include "proto/wire/limits.h"

/* A capture moves PLANNING (asked the planner) -> QUEUED (waits for its GPUs) -> READY (the
 * granter has opened the lease) -> RUNNING (a process has attached) -> ENDING (its processes
 * deliver what they have) -> gone. It ends early when its client goes away, its lease runs
 * out, another user computes on one of its GPUs, or the granter is lost.
 *
 * The lease is told to the granter before the client hears that it is ready, and closed there
 * before the next in the queue is tried; packets to the granter stay in order, so it never sees
 * two. */

enum {
	SESSION_ENDING_S = 10, /* how long a capture that ends waits for its processes */
	SESSION_ABANDONED_S = 2,
};

/* --- ends --- */

static void grant_next(struct front *f);

/* Takes the counters back at once; the claim stays until the capture's processes are gone. */
static void revoke_lease(struct front *f, const struct capture *c)
{
	granter_link_close_lease(&f->granter, c->id);
}

/* A lease that was granted ends once. */
static void note_lease_end(struct front *f, struct capture *c, enum audit_event event, int code,
			   const char *why)
{
	if (c->leased) {
		c->leased = false;
		decision_of_capture(f, c, event, code, why);
	}
}

static void close_lease(struct front *f, struct capture *c)
{
	bool held = c->claim.state == CLAIM_HOLDING;

	note_lease_end(f, c, AUDIT_LEASE_ENDED, (int)c->end_code,
		       c->end_code ? c->end_message : NULL);
	arbiter_release(&f->arbiter, &c->claim);
	if (held) {
		revoke_lease(f, c);
	}
}

static void detach_processes(struct capture *c)
{
	list_for_each_safe(l, &c->processes) {
		struct process *p = list_entry(l, struct process, link);
		struct peer *peer = p->peer;

		process_settle(p);
		peer->process = NULL;
		process_free(p);
		peer_close(peer);
	}
}

static void finish(struct front *f, struct capture *c)
{
	struct peer *client = c->client;
	struct wire_message m = { .type = WIRE_CAPTURE_END };

	gpu_link_forget(&f->planner, c);
	granter_link_forget(&f->granter, c);
	close_lease(f, c);
	detach_processes(c);
	m.capture_end = (struct wire_capture_end){
		c->id,	     capture_totals(c), c->n_processes,
		c->end_code, c->end_message,	c->end_remedy,
	};
	if (client) {
		peer_send(client, &m);
	}
	f->n_dropped += m.capture_end.totals.dropped + m.capture_end.totals.lost;
	log_info("capture %u: over, %llu kernels measured of %llu", c->id,
		 (unsigned long long)m.capture_end.totals.measured,
		 (unsigned long long)m.capture_end.totals.seen);
	capture_free(&f->registry, c);
	grant_next(f);
}

static void stop_agents(struct capture *c)
{
	struct wire_message m = { .type = WIRE_AGENT_STOP,
				  .agent_stop = { c->end_code, c->end_message } };

	list_for_each_safe(l, &c->processes) {
		peer_send(list_entry(l, struct process, link)->peer, &m);
	}
}

/* Asks for the end: at once when nothing runs, else when the processes have delivered. */
static void end(struct front *f, struct capture *c, int code, const char *message,
		const char *remedy, unsigned wait_s)
{
	if (c->state == WIRE_CAPTURE_ENDING) {
		return;
	}
	c->end_code = (uint32_t)code;
	c->end_message = message;
	c->end_remedy = remedy;
	if (!capture_is_live(c) || list_is_empty(&c->processes)) {
		finish(f, c);
		return;
	}
	c->state = WIRE_CAPTURE_ENDING;
	c->end_by_ns = clock_now_ns() + wait_s * CLOCK_NS_PER_S;
	front_arm_tick(f);
	stop_agents(c);
}

void session_on_process_gone(struct front *f, struct capture *c)
{
	if (c->state == WIRE_CAPTURE_ENDING && list_is_empty(&c->processes)) {
		finish(f, c);
	}
}

/* --- turns --- */

static void send_queued(struct front *f, struct capture *c)
{
	const struct claim *blocker = arbiter_blocker(&f->arbiter, &c->claim);
	struct capture *holder =
		blocker ? list_entry((struct claim *)(uintptr_t)blocker, struct capture, claim)
			: NULL;
	struct peer *client = c->client;
	const char *uuids[LIMIT_GPUS];
	uint64_t now = clock_now_ns(), shared;
	struct arena a;
	struct wire_message m = {
		.type = WIRE_QUEUED,
		.queued = { .capture = c->id,
			    .position = arbiter_position(&f->arbiter, &c->claim) },
	};

	arena_init(&a, 16 * 1024);
	if (holder) {
		m.queued.holder = describe_holder(&a, holder);
		m.queued.holder_left_ns =
			holder->lease_until_ns > now ? holder->lease_until_ns - now : 0;
		shared = holder->claim.gpus & c->claim.gpus;
		m.queued.gpu = describe_uuids(f, shared, uuids) > 0 ? uuids[0] : "";
	}
	peer_send(client, &m);
	arena_deinit(&a);
}

/* Not those whose turn it is and that only wait for their lease. */
static void notify_queue(struct front *f)
{
	list_for_each_safe(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (c->claim.state == CLAIM_WAITING && c->client) {
			send_queued(f, c);
		}
	}
}

static void become_ready(struct capture *c)
{
	struct wire_message m = { .type = WIRE_READY };
	uint64_t now = clock_now_ns();

	c->state = WIRE_CAPTURE_READY;
	m.ready = (struct wire_ready){ c->id, c->token,
				       c->lease_until_ns > now ? c->lease_until_ns - now : 0 };
	peer_send(c->client, &m);
}

/* With the next tick: whoever is walking over the captures may go on. */
static void end_soon(struct front *f, struct capture *c, int code, const char *message,
		     const char *remedy)
{
	c->end_code = (uint32_t)code;
	c->end_message = message;
	c->end_remedy = remedy;
	c->state = WIRE_CAPTURE_ENDING;
	c->end_by_ns = 0;
	front_arm_tick(f);
}

static void on_lease_opened(struct front *f, void *owner, const struct granter_reply *reply)
{
	struct capture *c = owner;

	if (reply && reply->error == 0) {
		become_ready(c);
		return;
	}
	log_error("capture %u: the granter did not open the lease: %s", c->id,
		  reply ? strerror(-reply->error) : "no answer");
	end(f, c, GPUCTR_E_INTERNAL, "the lease could not be opened",
	    "Try again; the daemon's log says more.", 0);
}

/* r lives shorter than the capture. */
static void refuse_soon(struct front *f, struct capture *c, const struct refusal *r)
{
	const char *message = arena_printf(&c->arena, "%s", r->message);
	const char *remedy = arena_printf(&c->arena, "%s", r->remedy);

	decision_of_capture(f, c, AUDIT_REFUSED, r->code, r->message);
	end_soon(f, c, r->code, message ? message : "", remedy ? remedy : "");
}

static void open_lease(struct front *f, struct capture *c);

/* Holds the claim; the lease itself waits for the answer who else runs there. */
void session_on_tenants_known(struct front *f, struct capture *c, const struct refusal *why_not)
{
	if (why_not) {
		refuse_soon(f, c, why_not);
	} else {
		open_lease(f, c);
	}
}

static void take_back(struct front *f, struct capture *c, int code, const char *why,
		      const char *remedy)
{
	const char *message = arena_printf(&c->arena, "the lease was revoked: %s", why);

	note_lease_end(f, c, AUDIT_LEASE_REVOKED, code, why);
	revoke_lease(f, c);
	end(f, c, code, message ? message : "", remedy, SESSION_ENDING_S);
}

void session_on_stalled(struct front *f, struct capture *c, const char *what, const char *remedy)
{
	const char *kept = arena_printf(&c->arena, "%s", remedy);

	if (c->claim.state == CLAIM_HOLDING && c->leased && capture_is_live(c)) {
		take_back(f, c, GPUCTR_E_STALLED, what, kept ? kept : "");
	}
}

void session_on_foreign_tenant(struct front *f, struct capture *c, const struct refusal *why)
{
	const char *remedy = arena_printf(&c->arena, "%s", why->remedy);

	take_back(f, c, GPUCTR_E_REVOKED, why->message, remedy ? remedy : "");
}

/* At least a second: each renewal is a line of the audit log. */
static uint64_t lease_length(const struct front *f, const struct capture *c)
{
	uint64_t length = c->options.lease_ns ? c->options.lease_ns : f->config.lease_ns;

	if (length < CLOCK_NS_PER_S) {
		return CLOCK_NS_PER_S;
	}
	return length < f->config.lease_max_ns ? length : f->config.lease_max_ns;
}

static void open_lease(struct front *f, struct capture *c)
{
	struct granter_request q = {
		.op = GRANTER_OPEN,
		.lease = c->id,
		.gpus = c->claim.gpus,
		.uid = (uint32_t)c->uid,
		.pid = (uint32_t)c->pid,
		.device = c->device,
	};
	struct refusal r;

	if (decision_of_capture(f, c, AUDIT_LEASE_GRANTED, 0, NULL) < 0) {
		decision_refusal(f, &r);
		refuse_soon(f, c, &r);
		return;
	}
	c->leased = true;
	q.lease_ns = lease_length(f, c);
	c->state = WIRE_CAPTURE_QUEUED;
	c->ready_ns = clock_now_ns();
	c->lease_until_ns = c->ready_ns + q.lease_ns;
	if (granter_link_request(&f->granter, &q, -1, on_lease_opened, c) < 0) {
		end_soon(f, c, GPUCTR_E_INTERNAL, "the granter is not running just now",
			 "Try again in a moment.");
	}
}

static void grant_next(struct front *f)
{
	struct claim *next;

	/* Without a granter everybody keeps their place until there is one. */
	while (!f->stopping && granter_link_is_up(&f->granter) &&
	       (next = arbiter_next(&f->arbiter)) != NULL) {
		struct capture *c = list_entry(next, struct capture, claim);

		c->state = WIRE_CAPTURE_QUEUED;
		tenancy_check(f, c);
	}
	notify_queue(f);
}

static void refuse_turn(struct front *f, struct capture *c, int why)
{
	const struct claim *blocker = arbiter_blocker(&f->arbiter, &c->claim);
	struct capture *holder =
		blocker ? list_entry((struct claim *)(uintptr_t)blocker, struct capture, claim)
			: NULL;
	const char *who = holder ? describe_holder(&c->arena, holder) : "somebody";
	const char *message = "the queue for the GPU's counters is full";
	const char *remedy = "Try again later.";
	int code = GPUCTR_E_QUEUE_FULL;

	if (why == ARBITER_E_BUSY) {
		message = arena_printf(&c->arena, "the GPU's counters are held by %s", who);
		remedy = "Leave out --no-wait to queue, or try again later.";
		code = GPUCTR_E_GPU_BUSY;
	}
	message = message ? message : "";
	decision_of_capture(f, c, AUDIT_REFUSED, code, message);
	end(f, c, code, message, remedy, 0);
}

static const char hang_remedy[] =
	"Take another GPU with --devices; when this one does not come "
	"back, an administrator has to reset it or to restart the machine.";

static void refuse_hung(struct front *f, struct capture *c)
{
	const char *why = describe_hang(f, &c->arena, c->claim.gpus);

	decision_of_capture(f, c, AUDIT_REFUSED, GPUCTR_E_DRIVER_HUNG, why);
	end(f, c, GPUCTR_E_DRIVER_HUNG, why, hang_remedy, 0);
}

void session_take_turn(struct front *f, struct capture *c)
{
	int r;

	if (c->recorded) {
		c->lease_until_ns = 0;
		become_ready(c);
		return;
	}
	if ((c->claim.gpus & f->granter.hung_gpus) != 0) {
		refuse_hung(f, c);
		return;
	}
	r = arbiter_request(&f->arbiter, &c->claim, !c->options.no_wait);
	if (r == 0) {
		c->state = WIRE_CAPTURE_QUEUED;
		tenancy_check(f, c);
	} else if (r == ARBITER_E_QUEUED) {
		c->state = WIRE_CAPTURE_QUEUED;
		c->wait_until_ns =
			c->options.timeout_ns ? clock_now_ns() + c->options.timeout_ns : 0;
		front_arm_tick(f);
		send_queued(f, c);
	} else {
		refuse_turn(f, c, r);
	}
}

/* --- the client's other requests --- */

static struct capture *own_capture(struct peer *p, uint32_t id)
{
	struct capture *c = registry_find(&p->front->registry, id);

	return c && c->client == p ? c : NULL;
}

int handle_close_capture(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	struct capture *c = own_capture(p, m->close_capture.capture);

	(void)frame;
	if (c) {
		end(p->front, c, 0, "", "", SESSION_ENDING_S);
	}
	return 0; /* unknown: it has just ended by itself */
}

/* A lease is renewed while its client is connected: without end while nobody waits, and up to
 * lease-max after its begin when somebody does. */
static void renew(struct front *f, struct capture *c, uint64_t now)
{
	uint64_t until = now + lease_length(f, c);
	uint64_t last = c->ready_ns + f->config.lease_max_ns;
	struct granter_request q = { .op = GRANTER_EXTEND, .lease = c->id };

	if (!list_is_empty(&f->arbiter.queue) && until > last) {
		until = last;
	}
	if (until <= c->lease_until_ns || until <= now) {
		return;
	}
	if (decision_of_capture(f, c, AUDIT_LEASE_RENEWED, 0, NULL) < 0) {
		return; /* it then runs out, which is told */
	}
	q.lease_ns = until - now;
	if (granter_link_request(&f->granter, &q, -1, NULL, NULL) == 0) {
		c->lease_until_ns = until;
	}
}

static void renew_when_half_over(struct front *f, struct capture *c, uint64_t now)
{
	uint64_t length = lease_length(f, c);

	if (capture_is_live(c) && !c->recorded && c->client &&
	    c->lease_until_ns < now + length / 2) {
		renew(f, c, now);
	}
}

int handle_renew(struct peer *p, const struct wire_message *m, const struct frame *frame)
{
	struct capture *c = own_capture(p, m->renew.capture);
	struct wire_message answer = { .type = WIRE_RENEWED };
	uint64_t now = clock_now_ns();

	(void)frame;
	if (!c || !capture_is_live(c) || c->recorded) {
		return 0;
	}
	renew_when_half_over(p->front, c, now); /* not whenever somebody likes to ask */
	answer.renewed =
		(struct wire_renewed){ c->id,
				       c->lease_until_ns > now ? c->lease_until_ns - now : 0 };
	peer_send(p, &answer);
	return 0;
}

/* --- events --- */

static void resume_agents(struct capture *c)
{
	list_for_each(l, &c->processes) {
		peer_resume(list_entry(l, struct process, link)->peer);
	}
}

static void on_client_closed(struct peer *p)
{
	gpu_link_forget(&p->front->planner, p);
	list_for_each_safe(l, &p->captures) {
		struct capture *c = list_entry(l, struct capture, client_link);

		list_remove(&c->client_link);
		c->client = NULL;
		resume_agents(c);
		gpu_link_forget(&p->front->planner, c);
		if (c->state == WIRE_CAPTURE_ENDING) {
			finish(p->front, c);
		} else {
			end(p->front, c, GPUCTR_E_DISCONNECTED, "its client went away", "",
			    SESSION_ABANDONED_S);
		}
	}
}

void session_on_peer_closed(struct peer *p)
{
	switch (p->role) {
	case PEER_CLIENT:
		on_client_closed(p);
		break;
	case PEER_AGENT:
		agent_on_closed(p);
		break;
	case PEER_PERMISSION:
		granter_link_forget(&p->front->granter, p);
		break;
	case PEER_GUEST:
		gpu_link_forget(&p->front->planner, p);
		break;
	case PEER_NEW:
		break;
	}
}

void session_on_client_drained(struct peer *p)
{
	list_for_each(l, &p->captures) {
		resume_agents(list_entry(l, struct capture, client_link));
	}
}

void session_on_lease_expired(struct front *f, uint64_t lease)
{
	struct capture *c = registry_find(&f->registry, (uint32_t)lease);

	if (c) {
		note_lease_end(f, c, AUDIT_LEASE_EXPIRED, GPUCTR_E_LEASE_EXPIRED, NULL);
		end(f, c, GPUCTR_E_LEASE_EXPIRED, "the lease on the GPU's counters ran out",
		    "Ask for a longer one with --lease, or measure less at a time with "
		    "--launch-count.",
		    SESSION_ENDING_S);
	}
}

void session_on_granter_lost(struct front *f)
{
	list_for_each_safe(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (c->claim.state == CLAIM_HOLDING) {
			if (!c->leased) {
				decision_of_capture(f, c, AUDIT_REFUSED, GPUCTR_E_REVOKED,
						    "the granter was restarted");
			}
			note_lease_end(f, c, AUDIT_LEASE_REVOKED, GPUCTR_E_REVOKED,
				       "the granter was restarted");
			end(f, c, GPUCTR_E_REVOKED,
			    "the daemon's granter was restarted, which ends every lease",
			    "Run it again.", SESSION_ENDING_S);
		}
	}
}

static const char *describe_loss(struct front *f, struct capture *c, uint64_t lost)
{
	size_t gpu = (size_t)__builtin_ctzll(lost);
	const struct job *job = jobs_owner(&f->jobs, gpu);
	const char *why =
		job ? arena_printf(&c->arena, "GPU %zu belongs to job %s now", gpu, job->name)
		    : arena_printf(&c->arena, "the job that had GPU %zu is over", gpu);

	return why ? why : "";
}

/* Because of what was decided after it was opened. */
static void withdraw(struct front *f, struct capture *c, const char *why, const char *remedy)
{
	if (c->leased) {
		take_back(f, c, GPUCTR_E_REVOKED, why, remedy);
	} else {
		decision_of_capture(f, c, AUDIT_REFUSED, GPUCTR_E_NOT_ALLOWED, why);
		end(f, c, GPUCTR_E_NOT_ALLOWED, why, remedy, SESSION_ENDING_S);
	}
}

/* Those that wait go first, so that none of them gets the turn of one that ends. */
static void end_where_lost(struct front *f, enum claim_state state)
{
	static const char remedy[] = "Measure within a job of your own.";

	list_for_each_safe(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);
		uint64_t lost = admission_lost(f, c);

		if (c->claim.state != state || lost == 0) {
			continue;
		}
		withdraw(f, c, describe_loss(f, c, lost), remedy);
	}
}

void session_on_jobs_changed(struct front *f)
{
	end_where_lost(f, CLAIM_WAITING);
	end_where_lost(f, CLAIM_HOLDING);
}

/* A capture that is not planned yet is looked at when it is. */
static void end_where_not_allowed(struct front *f, enum claim_state state)
{
	list_for_each_safe(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);
		struct peer *client = c->client;
		struct refusal r;
		const char *why, *remedy;

		if (c->claim.state != state || !client || c->state == WIRE_CAPTURE_PLANNING ||
		    c->state == WIRE_CAPTURE_ENDING) {
			continue;
		}
		c->by_job = admission_by_job(f, &client->credentials, c->claim.gpus);
		if (!admission_still_allows(f, &client->credentials, c, &r)) {
			why = arena_printf(&c->arena, "%s", r.message);
			remedy = arena_printf(&c->arena, "%s", r.remedy);
			withdraw(f, c, why ? why : "", remedy ? remedy : "");
		}
	}
}

void session_on_reload(struct front *f)
{
	end_where_not_allowed(f, CLAIM_IDLE); /* of recordings */
	end_where_not_allowed(f, CLAIM_WAITING);
	end_where_not_allowed(f, CLAIM_HOLDING);
}

/* Those that wait go first here too. */
static void end_where_hung(struct front *f, uint64_t gpus, enum claim_state state)
{
	list_for_each_safe(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (c->claim.state != state || (c->claim.gpus & gpus) == 0 ||
		    c->state == WIRE_CAPTURE_ENDING) {
			continue;
		}
		if (c->leased) {
			take_back(f, c, GPUCTR_E_REVOKED,
				  describe_hang(f, &c->arena, c->claim.gpus), hang_remedy);
		} else {
			refuse_hung(f, c);
		}
	}
}

/* The granter has ended the lease there already. */
void session_on_driver_hung(struct front *f, uint64_t gpus)
{
	end_where_hung(f, gpus, CLAIM_WAITING);
	end_where_hung(f, gpus, CLAIM_HOLDING);
}

/* Claims are masks of indices, and these have another meaning now. */
void session_on_gpus_changed(struct front *f)
{
	list_for_each_safe(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (c->claim.state != CLAIM_IDLE) {
			take_back(f, c, GPUCTR_E_REVOKED, "the machine's GPUs have changed",
				  "Run it again.");
		}
	}
}

void session_on_granter_back(struct front *f)
{
	grant_next(f);
}

/* Who has a turn and could not be told whether the GPU is free of others. */
void session_on_gpu_back(struct front *f)
{
	list_for_each(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (c->state == WIRE_CAPTURE_QUEUED && c->claim.state == CLAIM_HOLDING &&
		    c->lease_until_ns == 0) {
			tenancy_check(f, c);
		}
	}
}

void session_on_tick(struct front *f, uint64_t now_ns)
{
	tenancy_tick(f, now_ns);
	list_for_each_safe(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		if (c->state == WIRE_CAPTURE_ENDING && now_ns >= c->end_by_ns) {
			finish(f, c);
		} else if (c->state == WIRE_CAPTURE_QUEUED && c->wait_until_ns &&
			   now_ns >= c->wait_until_ns && c->claim.state == CLAIM_WAITING) {
			decision_of_capture(f, c, AUDIT_REFUSED, GPUCTR_E_TIMEOUT, NULL);
			end(f, c, GPUCTR_E_TIMEOUT,
			    "the GPU's counters did not become free in time",
			    "Wait longer with --timeout, or look who holds them with "
			    "`gpuctr-client status`.",
			    0);
			grant_next(f);
		} else {
			renew_when_half_over(f, c, now_ns);
		}
	}
}

void session_end_all(struct front *f, int code, const char *message, const char *remedy)
{
	list_for_each_safe(l, &f->registry.captures) {
		struct capture *c = list_entry(l, struct capture, link);

		c->end_by_ns = clock_now_ns() + CLOCK_NS_PER_S; /* for one that is ending already */
		end(f, c, code, message, remedy, 1);
	}
}
