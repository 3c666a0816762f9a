/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/broker/broker.h"

#include <assert.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "daemon/broker/process.h"
#include "proto/wire/limits.h"
#include "proto/wire/status.h"

/* The table below is the life of a capture. A row names an event, the states in which it has a
 * meaning, and the action. In every other state the event is too early or too late, and is ignored.
 *
 * The lease: EFFECT_OPEN is queued when the state becomes OPENING. From then on `leased` is true,
 * until the audit line of the lease's end is queued. So every granted lease ends exactly once in
 * the audit log, whatever ends it. EFFECT_CLOSE takes the counters back at once; the reservation on
 * the GPUs stays until the capture's processes are gone, so that no other capture begins beside
 * them.
 *
 * The broker gives free GPUs away when the queue of effects is empty. By then the granter has been
 * asked to close the ended leases, so it never sees two leases on a GPU. When one event ends
 * several captures, none of them gets the GPUs of another.
 *
 * Effects live in their capture, which has room for as many as can be queued before they are
 * carried out. So only the copy of a text can fail for want of memory; it is empty then. */

enum {
	BROKER_ENDING_S = 10, /* longest wait of an ending capture for its processes */
	BROKER_ABANDONED_S = 2,
	BROKER_STOPPING_S = 1,
	BROKER_LAST_S = 1, /* rest of a lease beyond lease-max when somebody comes */
};

typedef void action(struct broker *b, struct capture *c, const struct event *e);

void broker_init(struct broker *b, struct registry *registry, struct arbiter *arbiter)
{
	*b = (struct broker){ .registry = registry, .arbiter = arbiter };
	list_init(&b->effects);
	arena_init(&b->texts, LIMIT_UNPACKED_BYTES);
}

void broker_deinit(struct broker *b)
{
	arena_deinit(&b->texts);
}

/* --- effects --- */

static bool has_effect(const struct capture *c, enum effect_type type)
{
	for (size_t i = 0; i < CAPTURE_EFFECTS_MAX; i++) {
		if (c->effects[i].type == type) {
			return true;
		}
	}
	return false;
}

static struct effect *put(struct broker *b, struct capture *c, enum effect_type type)
{
	for (size_t i = 0; i < CAPTURE_EFFECTS_MAX; i++) {
		struct effect *f = &c->effects[i];

		if (f->type == EFFECT_NONE) {
			*f = (struct effect){ .capture = c, .type = type };
			list_init(&f->link);
			list_append(&b->effects, &f->link);
			return f;
		}
	}
	assert(!"more effects than an event can have");
	return NULL;
}

static const char *text_in(struct arena *a, const char *text)
{
	const char *copy = text && *text ? arena_printf(a, "%s", text) : "";

	return copy ? copy : "";
}

static void note(struct broker *b, struct capture *c, enum effect_note note, int code,
		 const char *why)
{
	struct effect *f = put(b, c, EFFECT_NOTE);

	f->note = note;
	f->code = code;
	f->why = why ? text_in(&b->texts, why) : NULL;
}

static void note_lease_end(struct broker *b, struct capture *c, enum effect_note event, int code,
			   const char *why)
{
	if (c->leased) {
		c->leased = false;
		note(b, c, event, code, why);
	}
}

static void note_trace_end(struct broker *b, struct capture *c, int code, const char *why)
{
	if (c->traces) {
		c->traces = false;
		note(b, c, NOTE_TRACE_ENDED, code, why);
	}
}

/* --- ends --- */

static void finish(struct broker *b, struct capture *c)
{
	bool held = c->reservation.state == RESERVATION_HOLDING;

	note_lease_end(b, c, NOTE_ENDED, (int)c->end_code, c->end_code ? c->end_message : NULL);
	note_trace_end(b, c, (int)c->end_code, c->end_code ? c->end_message : NULL);
	b->released |= c->reservation.state != RESERVATION_IDLE;
	arbiter_release(b->arbiter, &c->reservation);
	if (held) {
		put(b, c, EFFECT_CLOSE);
	}
	c->state = CAPTURE_OVER;
	put(b, c, EFFECT_END);
	put(b, c, EFFECT_FREE);
}

/* message and remedy are static or in c's arena. Ends the capture at once if no process is
 * attached, else when the processes have delivered or wait_s has passed. */
static void end(struct broker *b, struct capture *c, const struct event *e, int code,
		const char *message, const char *remedy, unsigned wait_s)
{
	c->end_code = (uint32_t)code;
	c->end_message = message;
	c->end_remedy = remedy;
	if (!capture_is_live(c) || list_is_empty(&c->processes)) {
		finish(b, c);
		return;
	}
	c->state = CAPTURE_ENDING;
	c->end_by_ns = e->now_ns + wait_s * CLOCK_NS_PER_S;
	put(b, c, EFFECT_STOP);
}

static void end_with_texts(struct broker *b, struct capture *c, const struct event *e,
			   unsigned wait_s)
{
	end(b, c, e, e->code, text_in(&c->arena, e->message), text_in(&c->arena, e->remedy),
	    wait_s);
}

/* Ends a capture that has no lease, with a line of the audit log. */
static void refuse(struct broker *b, struct capture *c, const struct event *e)
{
	note(b, c, NOTE_REFUSED, e->code, e->message ? e->message : "");
	end_with_texts(b, c, e, BROKER_ENDING_S);
}

static void take_back_as(struct broker *b, struct capture *c, const struct event *e, int code)
{
	const char *why = e->message ? e->message : "";
	const char *message = arena_printf(&c->arena, "the lease was revoked: %s", why);

	note_lease_end(b, c, NOTE_REVOKED, code, why);
	if (c->reservation.state == RESERVATION_HOLDING) {
		put(b, c, EFFECT_CLOSE);
	}
	end(b, c, e, code, message ? message : "", text_in(&c->arena, e->remedy), BROKER_ENDING_S);
}

/* Takes the counters back at once. The program runs on. */
static void take_back(struct broker *b, struct capture *c, const struct event *e)
{
	take_back_as(b, c, e, GPUCTR_E_REVOKED);
}

static void take_back_stalled(struct broker *b, struct capture *c, const struct event *e)
{
	if (!capture_is_leaseless(c)) {
		take_back_as(b, c, e, GPUCTR_E_STALLED);
	}
}

/* Ends a trace, which leases nothing but shows what runs on a GPU. */
static void end_trace(struct broker *b, struct capture *c, const struct event *e)
{
	const char *why = e->message ? e->message : "";
	const char *message = arena_printf(&c->arena, "the trace was ended: %s", why);

	c->traces = true; /* a trace of the user's own programs began without a line */
	note_trace_end(b, c, GPUCTR_E_REVOKED, why);
	end(b, c, e, GPUCTR_E_REVOKED, message ? message : "", text_in(&c->arena, e->remedy),
	    BROKER_ENDING_S);
}

/* Ends a capture that the settings or a job no longer allow. A recording has nothing to revoke and
 * is refused. */
static void withdraw(struct broker *b, struct capture *c, const struct event *e)
{
	if (c->leased) {
		take_back(b, c, e);
	} else if (c->options.trace && capture_is_live(c)) {
		end_trace(b, c, e);
	} else {
		refuse(b, c, e);
	}
}

/* Closes the lease of a capture that is already ending for another reason, because its processes
 * must not go on counting. */
static void revoke_ending(struct broker *b, struct capture *c, const struct event *e)
{
	if (c->leased) {
		note_lease_end(b, c, NOTE_REVOKED, GPUCTR_E_REVOKED, e->message);
		put(b, c, EFFECT_CLOSE);
	}
}

/* --- planning --- */

struct capture *broker_blocker(const struct broker *b, const struct capture *c)
{
	const struct reservation *blocker = arbiter_blocker(b->arbiter, &c->reservation);

	return blocker ? list_entry((struct reservation *)(uintptr_t)blocker, struct capture,
				    reservation)
		       : NULL;
}

static void refuse_open(struct broker *b, struct capture *c, const struct event *e)
{
	struct effect *f;

	note(b, c, NOTE_REFUSED, e->code, e->message ? e->message : "");
	f = put(b, c, EFFECT_REFUSE);
	f->code = e->code;
	f->why = text_in(&b->texts, e->message);
	f->remedy = text_in(&b->texts, e->remedy);
	c->state = CAPTURE_OVER;
	put(b, c, EFFECT_FREE);
}

static void become_ready(struct broker *b, struct capture *c, const struct event *e)
{
	c->state = CAPTURE_READY;
	put(b, c, EFFECT_READY);
}

static void check(struct broker *b, struct capture *c, const struct event *e)
{
	c->state = CAPTURE_CHECKING;
	put(b, c, EFFECT_CHECK);
}

static void report_position(struct broker *b, struct capture *c)
{
	if (c->state == CAPTURE_QUEUED && c->client && !has_effect(c, EFFECT_QUEUED)) {
		put(b, c, EFFECT_QUEUED);
	}
}

/* Notes the time since which somebody waits for c's GPUs. */
static void note_waited(struct broker *b, struct capture *c, uint64_t now_ns)
{
	if (!c->leased || !arbiter_is_waited_for(b->arbiter, c->reservation.gpus)) {
		c->waited_ns = 0;
	} else if (c->waited_ns == 0) {
		c->waited_ns = now_ns;
	}
}

/* lease-max after the begin of c's lease, or BROKER_LAST_S after somebody began to wait; the later
 * of both. */
uint64_t broker_lease_until_ns(const struct broker *b, const struct capture *c)
{
	uint64_t last = c->ready_ns + b->lease_max_ns,
		 soon = c->waited_ns + BROKER_LAST_S * CLOCK_NS_PER_S;

	if (c->waited_ns == 0) {
		return 0;
	}
	return last > soon ? last : soon;
}

/* Updates the leases for whose GPUs c waits, because c's client gets the time until they end. */
static void note_waited_holders(struct broker *b, const struct capture *c, uint64_t now_ns)
{
	list_for_each(l, &b->arbiter->holders) {
		struct reservation *holder = list_entry(l, struct reservation, link);

		if ((holder->gpus & c->reservation.gpus) != 0) {
			note_waited(b, list_entry(holder, struct capture, reservation), now_ns);
		}
	}
}

/* Puts c into the queue, and reports their positions to c and to the captures behind it. */
static void wait_in_queue(struct broker *b, struct capture *c, const struct event *e)
{
	c->state = CAPTURE_QUEUED;
	c->queued_ns = e->now_ns;
	c->wait_until_ns = c->options.timeout_ns ? e->now_ns + c->options.timeout_ns : 0;
	note_waited_holders(b, c, e->now_ns);
	for (struct list *l = &c->reservation.link; l != &b->arbiter->queue; l = l->next) {
		report_position(b, list_entry(list_entry(l, struct reservation, link),
					      struct capture, reservation));
	}
}

static void refuse_gpus(struct broker *b, struct capture *c, const struct event *e, int why)
{
	const struct capture *holder = broker_blocker(b, c);
	struct event refusal = {
		.now_ns = e->now_ns,
		.code = GPUCTR_E_QUEUE_FULL,
		.message = "the queue for the GPU's counters is full",
		.remedy = "Try again later.",
	};

	if (why == ARBITER_E_BUSY) {
		refusal.code = GPUCTR_E_GPU_BUSY;
		refusal.message = arena_printf(&b->texts, "the GPU's counters are held by %s",
					       holder ? capture_describe_holder(&b->texts, holder)
						      : "somebody");
		refusal.remedy = "Leave out --wait 0 to queue, or try again later.";
	}
	refuse(b, c, &refusal);
}

static void take_gpus(struct broker *b, struct capture *c, const struct event *e)
{
	int r;

	if (capture_is_leaseless(c)) {
		become_ready(b, c, e);
		return;
	}
	r = arbiter_request(b->arbiter, &c->reservation, !c->options.no_wait);
	if (r == 0) {
		check(b, c, e);
	} else if (r == ARBITER_E_QUEUED) {
		wait_in_queue(b, c, e);
	} else {
		refuse_gpus(b, c, e, r);
	}
}

/* --- the lease --- */

static void open_lease(struct broker *b, struct capture *c, const struct event *e)
{
	c->state = CAPTURE_OPENING;
	c->leased = true;
	c->ready_ns = e->now_ns;
	put(b, c, EFFECT_OPEN);
}

/* Refuses a lease whose audit line could not be written. */
static void refuse_unnoted(struct broker *b, struct capture *c, const struct event *e)
{
	c->leased = false;
	refuse(b, c, e);
}

static void give_up(struct broker *b, struct capture *c, const struct event *e)
{
	end_with_texts(b, c, e, 0);
}

/* A lease is never over while nobody waits for its GPUs. */
static bool lease_is_over(struct broker *b, struct capture *c, uint64_t now_ns)
{
	note_waited(b, c, now_ns);
	return c->waited_ns != 0 && now_ns >= broker_lease_until_ns(b, c);
}

static void take_expired(struct broker *b, struct capture *c)
{
	note_lease_end(b, c, NOTE_EXPIRED, GPUCTR_E_LEASE_EXPIRED, NULL);
	put(b, c, EFFECT_CLOSE);
}

static void expire_in_time(struct broker *b, struct capture *c, const struct event *e)
{
	if (lease_is_over(b, c, e->now_ns)) {
		take_expired(b, c);
		end(b, c, e, GPUCTR_E_LEASE_EXPIRED,
		    "others wait for the GPU, and the lease has lasted for lease-max",
		    "Queue again for the rest, or measure less at a time with --count.",
		    BROKER_ENDING_S);
	}
}

static const char restarted[] = "the granter was restarted";

static void lose(struct broker *b, struct capture *c, const struct event *e)
{
	if (capture_is_leaseless(c)) {
		return;
	}
	if (!c->leased) {
		note(b, c, NOTE_REFUSED, GPUCTR_E_REVOKED, restarted);
	}
	note_lease_end(b, c, NOTE_REVOKED, GPUCTR_E_REVOKED, restarted);
	end(b, c, e, GPUCTR_E_REVOKED, "the daemon's granter was restarted, which ends every lease",
	    "Run it again.", BROKER_ENDING_S);
}

static void lose_ending(struct broker *b, struct capture *c, const struct event *e)
{
	note_lease_end(b, c, NOTE_REVOKED, GPUCTR_E_REVOKED, restarted);
}

/* --- the driver, the machine, the daemon --- */

/* Called when the daemon ends, or when the machine has other GPUs now, so that leased indices may
 * mean any GPU. */
static void stop(struct broker *b, struct capture *c, const struct event *e)
{
	if (e->code == GPUCTR_E_REVOKED && c->leased) {
		take_back(b, c, e);
		c->end_by_ns = e->now_ns + BROKER_STOPPING_S * CLOCK_NS_PER_S;
	} else {
		end_with_texts(b, c, e, BROKER_STOPPING_S);
	}
}

static void stop_ending(struct broker *b, struct capture *c, const struct event *e)
{
	if (e->code == GPUCTR_E_REVOKED) {
		revoke_ending(b, c, e);
	}
	c->end_by_ns = e->now_ns + BROKER_STOPPING_S * CLOCK_NS_PER_S;
}

/* --- the client and its processes --- */

static void run(struct broker *b, struct capture *c, const struct event *e)
{
	c->state = CAPTURE_RUNNING;
}

static void close_asked(struct broker *b, struct capture *c, const struct event *e)
{
	end(b, c, e, 0, "", "", BROKER_ENDING_S);
}

static void abandon(struct broker *b, struct capture *c, const struct event *e)
{
	c->client = NULL;
	end(b, c, e, GPUCTR_E_DISCONNECTED, "its client went away", "", BROKER_ABANDONED_S);
}

static bool has_registered(const struct capture *c)
{
	list_for_each(l, (struct list *)(uintptr_t)&c->processes) {
		if (list_entry(l, struct process, link)->registered) {
			return true;
		}
	}
	return false;
}

/* The client is gone, so nobody would receive the processes' remaining records. Processes that stay
 * in standby get a moment to say goodbye; otherwise they would be closed and have to register
 * again. */
static void abandon_ending(struct broker *b, struct capture *c, const struct event *e)
{
	uint64_t by_ns = e->now_ns + BROKER_ABANDONED_S * CLOCK_NS_PER_S;

	c->client = NULL;
	if (!has_registered(c)) {
		finish(b, c);
	} else if (by_ns < c->end_by_ns) {
		c->end_by_ns = by_ns;
	}
}

static void abandon_over(struct broker *b, struct capture *c, const struct event *e)
{
	c->client = NULL;
}

static void finish_without_processes(struct broker *b, struct capture *c, const struct event *e)
{
	if (list_is_empty(&c->processes)) {
		finish(b, c);
	}
}

static void finish_in_time(struct broker *b, struct capture *c, const struct event *e)
{
	if (e->now_ns >= c->end_by_ns) {
		finish(b, c);
	} else if (lease_is_over(b, c, e->now_ns)) {
		take_expired(b, c);
	}
}

static void tire_of_waiting(struct broker *b, struct capture *c, const struct event *e)
{
	if (c->wait_until_ns == 0 || e->now_ns < c->wait_until_ns) {
		return;
	}
	note(b, c, NOTE_REFUSED, GPUCTR_E_TIMEOUT, NULL);
	end(b, c, e, GPUCTR_E_TIMEOUT, "the GPU's counters did not become free in time",
	    "Wait longer with --wait, or look who holds them with `gpuctr-client status`.", 0);
}

/* --- the table --- */

enum {
	PLANNING = 1 << CAPTURE_PLANNING,
	QUEUED = 1 << CAPTURE_QUEUED,
	CHECKING = 1 << CAPTURE_CHECKING,
	OPENING = 1 << CAPTURE_OPENING,
	READY = 1 << CAPTURE_READY,
	RUNNING = 1 << CAPTURE_RUNNING,
	ENDING = 1 << CAPTURE_ENDING,
	OVER = 1 << CAPTURE_OVER,

	LIVE = READY | RUNNING,
	LEASED = OPENING | LIVE, /* but a recording has no lease */
	BEFORE_LEASE = QUEUED | CHECKING,
	OPEN = BEFORE_LEASE | LEASED, /* planned, and not ending */
};

static const struct {
	enum event_type event;
	unsigned states;
	action *action;
} transitions[] = {
	{ EVENT_REFUSED, PLANNING, refuse_open },
	{ EVENT_PLANNED, PLANNING, take_gpus },
	{ EVENT_GPUS, QUEUED, check },
	{ EVENT_ALONE, CHECKING, open_lease },
	{ EVENT_ACCOMPANIED, CHECKING, refuse },
	{ EVENT_GPU_BACK, CHECKING, check },
	{ EVENT_NOT_NOTED, OPENING, refuse_unnoted },
	{ EVENT_OPENED, OPENING, become_ready },
	{ EVENT_NOT_OPENED, OPENING, give_up },
	{ EVENT_ATTACHED, LIVE, run },
	{ EVENT_PROCESS_GONE, ENDING, finish_without_processes },
	{ EVENT_DESERTED, BEFORE_LEASE | OPENING | READY, give_up },
	{ EVENT_LOST, CHECKING | LEASED, lose },
	{ EVENT_LOST, ENDING, lose_ending },
	{ EVENT_CLIENT_GONE, PLANNING | OPEN, abandon },
	{ EVENT_CLIENT_GONE, ENDING, abandon_ending },
	{ EVENT_CLIENT_GONE, OVER, abandon_over },
	{ EVENT_CLOSE, PLANNING | OPEN, close_asked },
	{ EVENT_TICK, QUEUED, tire_of_waiting },
	{ EVENT_TICK, LIVE, expire_in_time },
	{ EVENT_TICK, ENDING, finish_in_time },
	{ EVENT_WITHDRAWN, OPEN, withdraw },
	{ EVENT_WITHDRAWN, ENDING, revoke_ending },
	{ EVENT_HUNG, PLANNING | BEFORE_LEASE, refuse },
	{ EVENT_HUNG, LEASED, take_back },
	{ EVENT_STALLED, LIVE, take_back_stalled },
	{ EVENT_FOREIGN, LEASED, take_back },
	{ EVENT_FOREIGN, ENDING, revoke_ending },
	{ EVENT_STOPPING, PLANNING | OPEN, stop },
	{ EVENT_STOPPING, ENDING, stop_ending },
};

void broker_handle(struct broker *b, struct capture *c, const struct event *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(transitions); i++) {
		if (transitions[i].event == e->type &&
		    (transitions[i].states & 1U << c->state) != 0) {
			transitions[i].action(b, c, e);
			return;
		}
	}
}

/* --- the next capture --- */

void broker_wake(struct broker *b)
{
	b->released = true;
}

/* Gives free GPUs to waiting captures, if a granter runs; else all keep their positions. Then
 * reports its position to each client that still waits. */
static void give_gpus(struct broker *b, uint64_t now_ns)
{
	const struct event given = { .type = EVENT_GPUS, .now_ns = now_ns };
	struct reservation *next;

	b->released = false;
	while (b->grants && (next = arbiter_next(b->arbiter)) != NULL) {
		broker_handle(b, list_entry(next, struct capture, reservation), &given);
	}
	list_for_each(l, &b->registry->captures) {
		report_position(b, list_entry(l, struct capture, link));
	}
}

static void take(struct effect *f, struct effect *ret)
{
	list_remove(&f->link);
	*ret = *f;
	f->type = EFFECT_NONE;
}

bool broker_next(struct broker *b, uint64_t now_ns, struct effect *ret)
{
	for (;;) {
		if (list_is_empty(&b->effects) && b->released) {
			give_gpus(b, now_ns);
		}
		if (list_is_empty(&b->effects)) {
			arena_reset(&b->texts);
			return false;
		}
		take(list_entry(b->effects.next, struct effect, link), ret);
		/* A capture that has left the queue in the meantime gets no message about its
		 * position. */
		if (ret->type != EFFECT_QUEUED || ret->capture->state == CAPTURE_QUEUED) {
			return true;
		}
	}
}
