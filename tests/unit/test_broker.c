/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "daemon/broker/broker.h"
#include "daemon/broker/process.h"
#include "proto/base/clock.h"

/* Every event in every state, and what then happens, from a table that was written by hand and not
 * by the code; then races as they are, event by event. Effects are a letter each:
 *
 *   r e x v  a line of the audit log: refused, ended, expired, revoked     R  refuse to open
 *   C  check who computes   Q  tell the place   O  open the lease   Y  ready
 *   S  stop the agents   L  close the lease   E  end   F  free
 */

enum { HOUR_S = 3600 };

static struct world {
	struct registry registry;
	struct processes processes;
	struct arbiter arbiter;
	struct broker broker;
	uint64_t now_ns;
	char client;
	char done[64]; /* letters of the effects that were carried out */
	int code;      /* of the last line or refusal */
	char why[128];
} w;

static char letter(const struct effect *f)
{
	static const char letters[] = {
		[EFFECT_REFUSE] = 'R', [EFFECT_CHECK] = 'C', [EFFECT_QUEUED] = 'Q',
		[EFFECT_OPEN] = 'O',   [EFFECT_READY] = 'Y', [EFFECT_STOP] = 'S',
		[EFFECT_CLOSE] = 'L',  [EFFECT_END] = 'E',   [EFFECT_FREE] = 'F',
	};
	static const char notes[] = { [NOTE_REFUSED] = 'r',
				      [NOTE_ENDED] = 'e',
				      [NOTE_EXPIRED] = 'x',
				      [NOTE_REVOKED] = 'v',
				      [NOTE_TRACE_ENDED] = 't' };

	return f->type == EFFECT_NOTE ? notes[f->note] : letters[f->type];
}

/* Carries out what is due; a capture that is over is gone then. */
static void drain(void)
{
	struct effect f;

	for (size_t n = strlen(w.done); broker_next(&w.broker, w.now_ns, &f); n++) {
		assert_true(n + 1 < sizeof(w.done));
		w.done[n] = letter(&f);
		w.done[n + 1] = '\0';
		if (f.type == EFFECT_NOTE || f.type == EFFECT_REFUSE) {
			w.code = f.code;
			snprintf(w.why, sizeof(w.why), "%s", f.why ? f.why : "(none)");
		}
		if (f.type == EFFECT_FREE) {
			while (!list_is_empty(&f.capture->processes)) {
				process_free(&w.processes, list_entry(f.capture->processes.next,
								      struct process, link));
			}
			capture_free(&w.registry, f.capture);
		}
	}
}

static void handle(struct capture *c, enum event_type type)
{
	const struct event e = {
		.type = type,
		.now_ns = w.now_ns,
		.code = GPUCTR_E_INTERNAL,
		.message = "its cause",
		.remedy = "its remedy",
	};

	broker_handle(&w.broker, c, &e);
}

/* What follows is in w.done. */
static void tell(struct capture *c, enum event_type type)
{
	w.done[0] = '\0';
	handle(c, type);
	drain();
}

static int setup(void **state)
{
	(void)state;
	w = (struct world){ .now_ns = 1000 * CLOCK_NS_PER_S };
	registry_init(&w.registry);
	processes_init(&w.processes);
	arbiter_init(&w.arbiter, 4);
	broker_init(&w.broker, &w.registry, &w.arbiter);
	w.broker.grants = true;
	w.broker.lease_max_ns = HOUR_S * CLOCK_NS_PER_S;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	while (!list_is_empty(&w.registry.captures)) {
		tell(list_entry(w.registry.captures.next, struct capture, link), EVENT_CLIENT_GONE);
		while (!list_is_empty(&w.registry.captures)) {
			w.now_ns += 60 * CLOCK_NS_PER_S;
			tell(list_entry(w.registry.captures.next, struct capture, link),
			     EVENT_STOPPING);
			if (!list_is_empty(&w.registry.captures)) {
				w.now_ns += 60 * CLOCK_NS_PER_S;
				tell(list_entry(w.registry.captures.next, struct capture, link),
				     EVENT_TICK);
			}
		}
	}
	broker_deinit(&w.broker);
	return w.arbiter.held != 0 || w.arbiter.n_waiting != 0;
}

static struct capture *wish(uint64_t gpus)
{
	struct capture *c = capture_new(&w.registry);

	assert_non_null(c);
	c->client = &w.client;
	c->options.program = "program";
	c->options.timeout_ns = 5 * CLOCK_NS_PER_S;
	c->recorded = gpus == 0;
	reservation_init(&c->reservation, gpus, c->uid);
	return c;
}

static struct capture *planned(uint64_t gpus)
{
	struct capture *c = wish(gpus);

	tell(c, EVENT_PLANNED);
	return c;
}

static struct capture *ready(uint64_t gpus)
{
	struct capture *c = planned(gpus);

	tell(c, EVENT_ALONE);
	tell(c, EVENT_OPENED);
	assert_int_equal(c->state, CAPTURE_READY);
	return c;
}

static struct process *attach(struct capture *c)
{
	struct process *p = process_new(&w.processes, 4711, 1000, NULL);

	assert_non_null(p);
	assert_int_equal(process_attach(p, c), 0);
	return p;
}

static struct capture *running(uint64_t gpus)
{
	struct capture *c = ready(gpus);

	attach(c);
	tell(c, EVENT_ATTACHED);
	assert_int_equal(c->state, CAPTURE_RUNNING);
	return c;
}

/* A capture in this state, of GPU 1; another one holds GPU 1 where it has to wait. */
static struct capture *in_state(enum capture_state state)
{
	struct capture *c;

	switch (state) {
	case CAPTURE_PLANNING:
		return wish(2);
	case CAPTURE_QUEUED:
		ready(2);
		return planned(2);
	case CAPTURE_CHECKING:
		return planned(2);
	case CAPTURE_OPENING:
		c = planned(2);
		tell(c, EVENT_ALONE);
		return c;
	case CAPTURE_READY:
		return ready(2);
	case CAPTURE_RUNNING:
		return running(2);
	case CAPTURE_ENDING:
		c = running(2);
		tell(c, EVENT_CLOSE);
		return c;
	default:
		c = ready(2); /* its effects wait */
		handle(c, EVENT_CLOSE);
		return c;
	}
}

/* --- the table --- */

enum { GONE = CAPTURE_STATES };

/* What is not here changes nothing. Of captures that are OVER the effects wait: "eLEF". */
static const struct expected {
	enum event_type event;
	enum capture_state state;
	unsigned next;
	const char *effects;
} expected[] = {
	{ EVENT_REFUSED, CAPTURE_PLANNING, GONE, "rRF" },
	{ EVENT_PLANNED, CAPTURE_PLANNING, CAPTURE_CHECKING, "C" },
	{ EVENT_GPUS, CAPTURE_QUEUED, CAPTURE_CHECKING, "C" },
	{ EVENT_ALONE, CAPTURE_CHECKING, CAPTURE_OPENING, "O" },
	{ EVENT_ACCOMPANIED, CAPTURE_CHECKING, GONE, "rLEF" },
	{ EVENT_GPU_BACK, CAPTURE_CHECKING, CAPTURE_CHECKING, "C" },
	{ EVENT_NOT_NOTED, CAPTURE_OPENING, GONE, "rLEF" },
	{ EVENT_OPENED, CAPTURE_OPENING, CAPTURE_READY, "Y" },
	{ EVENT_NOT_OPENED, CAPTURE_OPENING, GONE, "eLEF" },
	{ EVENT_ATTACHED, CAPTURE_READY, CAPTURE_RUNNING, "" },
	{ EVENT_ATTACHED, CAPTURE_RUNNING, CAPTURE_RUNNING, "" },
	{ EVENT_PROCESS_GONE, CAPTURE_ENDING, CAPTURE_ENDING, "" }, /* one is left */

	{ EVENT_DESERTED, CAPTURE_QUEUED, GONE, "EF" },
	{ EVENT_DESERTED, CAPTURE_CHECKING, GONE, "LEF" },
	{ EVENT_DESERTED, CAPTURE_OPENING, GONE, "eLEF" },
	{ EVENT_DESERTED, CAPTURE_READY, GONE, "eLEF" },
	{ EVENT_LOST, CAPTURE_CHECKING, GONE, "rLEF" },
	{ EVENT_LOST, CAPTURE_OPENING, GONE, "vLEF" },
	{ EVENT_LOST, CAPTURE_READY, GONE, "vLEF" },
	{ EVENT_LOST, CAPTURE_RUNNING, CAPTURE_ENDING, "vS" },
	{ EVENT_LOST, CAPTURE_ENDING, CAPTURE_ENDING, "v" },

	{ EVENT_CLIENT_GONE, CAPTURE_PLANNING, GONE, "EF" },
	{ EVENT_CLIENT_GONE, CAPTURE_QUEUED, GONE, "EF" },
	{ EVENT_CLIENT_GONE, CAPTURE_CHECKING, GONE, "LEF" },
	{ EVENT_CLIENT_GONE, CAPTURE_OPENING, GONE, "eLEF" },
	{ EVENT_CLIENT_GONE, CAPTURE_READY, GONE, "eLEF" },
	{ EVENT_CLIENT_GONE, CAPTURE_RUNNING, CAPTURE_ENDING, "S" },
	{ EVENT_CLIENT_GONE, CAPTURE_ENDING, GONE, "eLEF" },
	{ EVENT_CLIENT_GONE, CAPTURE_OVER, GONE, "eLEF" },
	{ EVENT_CLOSE, CAPTURE_PLANNING, GONE, "EF" },
	{ EVENT_CLOSE, CAPTURE_QUEUED, GONE, "EF" },
	{ EVENT_CLOSE, CAPTURE_CHECKING, GONE, "LEF" },
	{ EVENT_CLOSE, CAPTURE_OPENING, GONE, "eLEF" },
	{ EVENT_CLOSE, CAPTURE_READY, GONE, "eLEF" },
	{ EVENT_CLOSE, CAPTURE_RUNNING, CAPTURE_ENDING, "S" },

	{ EVENT_WITHDRAWN, CAPTURE_QUEUED, GONE, "rEF" },
	{ EVENT_WITHDRAWN, CAPTURE_CHECKING, GONE, "rLEF" },
	{ EVENT_WITHDRAWN, CAPTURE_OPENING, GONE, "vLLEF" },
	{ EVENT_WITHDRAWN, CAPTURE_READY, GONE, "vLLEF" },
	{ EVENT_WITHDRAWN, CAPTURE_RUNNING, CAPTURE_ENDING, "vLS" },
	{ EVENT_WITHDRAWN, CAPTURE_ENDING, CAPTURE_ENDING, "vL" },
	{ EVENT_HUNG, CAPTURE_PLANNING, GONE, "rEF" },
	{ EVENT_HUNG, CAPTURE_QUEUED, GONE, "rEF" },
	{ EVENT_HUNG, CAPTURE_CHECKING, GONE, "rLEF" },
	{ EVENT_HUNG, CAPTURE_OPENING, GONE, "vLLEF" },
	{ EVENT_HUNG, CAPTURE_READY, GONE, "vLLEF" },
	{ EVENT_HUNG, CAPTURE_RUNNING, CAPTURE_ENDING, "vLS" },
	{ EVENT_STALLED, CAPTURE_READY, GONE, "vLLEF" },
	{ EVENT_STALLED, CAPTURE_RUNNING, CAPTURE_ENDING, "vLS" },
	{ EVENT_FOREIGN, CAPTURE_OPENING, GONE, "vLLEF" },
	{ EVENT_FOREIGN, CAPTURE_READY, GONE, "vLLEF" },
	{ EVENT_FOREIGN, CAPTURE_RUNNING, CAPTURE_ENDING, "vLS" },
	{ EVENT_FOREIGN, CAPTURE_ENDING, CAPTURE_ENDING, "vL" },
	{ EVENT_STOPPING, CAPTURE_PLANNING, GONE, "EF" },
	{ EVENT_STOPPING, CAPTURE_QUEUED, GONE, "EF" },
	{ EVENT_STOPPING, CAPTURE_CHECKING, GONE, "LEF" },
	{ EVENT_STOPPING, CAPTURE_OPENING, GONE, "eLEF" },
	{ EVENT_STOPPING, CAPTURE_READY, GONE, "eLEF" },
	{ EVENT_STOPPING, CAPTURE_RUNNING, CAPTURE_ENDING, "S" },
};

static const struct expected *find_expected(enum event_type event, enum capture_state state)
{
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		if (expected[i].event == event && expected[i].state == state) {
			return &expected[i];
		}
	}
	return NULL;
}

static void expect_transition(enum event_type event, enum capture_state state)
{
	const struct expected *x = find_expected(event, state);
	const char *effects = x ? x->effects : state == CAPTURE_OVER ? "eLEF" : "";
	unsigned next = x ? x->next : state == CAPTURE_OVER ? GONE : (unsigned)state;
	struct capture *c = in_state(state);
	uint32_t id = c->id;
	const struct capture *after;

	assert_int_equal(c->state, state);
	tell(c, event);
	after = registry_find(&w.registry, id);
	if (strcmp(w.done, effects) != 0 || (after ? (unsigned)after->state : GONE) != next) {
		fail_msg("event %d in state %d: effects '%s' and not '%s', state %d and not %u",
			 (int)event, (int)state, w.done, effects, after ? (int)after->state : GONE,
			 next);
	}
}

#define FIXTURE_TEST(f) TEST_WITH(f, setup, teardown)

FIXTURE_TEST(every_event_in_every_state)
{
	for (unsigned e = 0; e < EVENT_TYPES; e++) {
		for (unsigned s = 0; s < CAPTURE_STATES; s++) {
			setup(state);
			expect_transition(e, s);
			assert_int_equal(teardown(state), 0);
		}
	}
	setup(state);
}

/* --- turns --- */

FIXTURE_TEST(the_next_is_told_after_the_last_is_closed)
{
	struct capture *a = ready(1), *b = planned(1), *c = planned(1);

	assert_string_equal(w.done, "Q");
	tell(a, EVENT_CLOSE);
	assert_string_equal(w.done, "eLEFCQ"); /* b is checked, c is told its place */
	assert_int_equal(b->state, CAPTURE_CHECKING);
	assert_int_equal(c->state, CAPTURE_QUEUED);
}

static struct capture *planned_for(uid_t user)
{
	struct capture *c = wish(1);

	c->uid = c->reservation.user = user;
	tell(c, EVENT_PLANNED);
	return c;
}

/* Her second reservation makes room for the first one of another, and she is told. */
FIXTURE_TEST(who_gets_another_place_is_told)
{
	struct capture *a = ready(1), *b = planned_for(0), *c;

	w.done[0] = '\0';
	c = planned_for(1);
	assert_string_equal(w.done, "QQ");
	assert_int_equal(arbiter_position(&w.arbiter, &c->reservation), 1);
	assert_int_equal(arbiter_position(&w.arbiter, &b->reservation), 2);
	w.done[0] = '\0';
	tell(a, EVENT_CLOSE);
	assert_string_equal(w.done, "eLEFCQ");
	assert_int_equal(c->state, CAPTURE_CHECKING);
	assert_int_equal(b->state, CAPTURE_QUEUED);
}

FIXTURE_TEST(without_a_granter_everybody_waits)
{
	struct capture *a = ready(1), *b = planned(1);

	w.broker.grants = false;
	tell(a, EVENT_LOST);
	assert_string_equal(w.done, "vLEFQ");
	assert_int_equal(b->state, CAPTURE_QUEUED);
	w.broker.grants = true;
	w.done[0] = '\0';
	broker_wake(&w.broker);
	drain();
	assert_string_equal(w.done, "C");
	assert_int_equal(b->state, CAPTURE_CHECKING);
}

/* One event ends the holder and who waits for it: nobody gets a turn by the other's end. */
FIXTURE_TEST(who_ends_by_the_same_event_gets_no_gpus)
{
	struct capture *a = ready(1), *b = planned(1);

	w.done[0] = '\0';
	handle(a, EVENT_HUNG);
	handle(b, EVENT_HUNG);
	drain();
	assert_string_equal(w.done, "vLLEFrEF");
}

FIXTURE_TEST(who_does_not_wait_hears_who_holds)
{
	struct capture *a = ready(1), *b = wish(1);

	snprintf(a->user, sizeof(a->user), "ann");
	a->pid = 4711;
	b->options.no_wait = true;
	tell(b, EVENT_PLANNED);
	assert_string_equal(w.done, "rEF");
	assert_int_equal(w.code, GPUCTR_E_GPU_BUSY);
	assert_string_equal(w.why, "the GPU's counters are held by ann (program, pid 4711)");
}

FIXTURE_TEST(a_full_queue_refuses)
{
	ready(1);
	for (int i = 0; i < 4; i++) {
		planned(1);
		assert_string_equal(w.done, "Q");
	}
	planned(1);
	assert_string_equal(w.done, "rEF");
	assert_int_equal(w.code, GPUCTR_E_QUEUE_FULL);
}

FIXTURE_TEST(a_recording_needs_no_gpus)
{
	struct capture *c = wish(0);

	tell(c, EVENT_PLANNED);
	assert_string_equal(w.done, "Y");
	for (enum event_type e = 0; e < EVENT_TYPES; e++) { /* it has no lease to lose */
		if (e == EVENT_LOST || e == EVENT_STALLED || e == EVENT_TICK) {
			tell(c, e);
			assert_string_equal(w.done, "");
		}
	}
	tell(c, EVENT_WITHDRAWN);
	assert_string_equal(w.done, "rEF");
}

/* --- time --- */

FIXTURE_TEST(who_waits_too_long_is_refused)
{
	struct capture *b;

	ready(1);
	b = planned(1);
	w.now_ns += 5 * CLOCK_NS_PER_S - 1;
	tell(b, EVENT_TICK);
	assert_string_equal(w.done, "");
	w.now_ns++;
	tell(b, EVENT_TICK);
	assert_string_equal(w.done, "rEF");
	assert_int_equal(w.code, GPUCTR_E_TIMEOUT);
}

static void pass(uint64_t ns)
{
	w.now_ns += ns;
}

/* Then it ends lease-max after its begin, to the nanosecond. */
FIXTURE_TEST(a_lease_has_no_end_while_nobody_waits)
{
	struct capture *c = ready(1), *other;
	uint64_t last = w.now_ns + HOUR_S * CLOCK_NS_PER_S;

	pass((HOUR_S - 10) * CLOCK_NS_PER_S);
	tell(c, EVENT_TICK);
	assert_int_equal(broker_lease_until_ns(&w.broker, c), 0);
	other = planned(1);
	assert_int_equal(broker_lease_until_ns(&w.broker, c), last);
	assert_int_equal(broker_lease_until_ns(&w.broker, other), 0);
	pass(10 * CLOCK_NS_PER_S - 1);
	tell(c, EVENT_TICK);
	assert_string_equal(w.done, "");
	tell(other, EVENT_CLOSE);
	pass(HOUR_S * CLOCK_NS_PER_S);
	tell(c, EVENT_TICK);
	assert_string_equal(w.done, "");
	assert_int_equal(broker_lease_until_ns(&w.broker, c), 0);
}

/* In whatever state, and whatever else ends it meanwhile. */
FIXTURE_TEST(a_lease_ends_once_in_the_log)
{
	struct capture *c = running(1), *idle = ready(2), *ending = running(4);
	struct capture *other = planned(1 | 2 | 4);

	pass(HOUR_S * CLOCK_NS_PER_S);
	tell(ending, EVENT_CLOSE);
	tell(c, EVENT_TICK);
	assert_string_equal(w.done, "xLS");
	assert_int_equal(w.code, GPUCTR_E_LEASE_EXPIRED);
	tell(c, EVENT_TICK);
	assert_string_equal(w.done, "");
	tell(c, EVENT_LOST);
	assert_string_equal(w.done, "");
	tell(idle, EVENT_TICK);
	assert_string_equal(w.done, "xLLEFQ");
	tell(ending, EVENT_TICK); /* its processes may deliver, and count no more */
	assert_string_equal(w.done, "xL");
	assert_int_equal(ending->state, CAPTURE_ENDING);
	tell(ending, EVENT_CLIENT_GONE);
	assert_string_equal(w.done, "LEFQ");
	tell(c, EVENT_CLIENT_GONE);
	assert_string_equal(w.done, "LEFC");
	assert_int_equal(other->state, CAPTURE_CHECKING);
}

/* Of two leases, one of two GPUs: who waits for one of these bounds that lease, also when it waits
 * for another GPU as well, and not the other one. */
FIXTURE_TEST(a_lease_ends_for_who_waits_for_its_own_gpus)
{
	struct capture *two = ready(1 | 2), *one = ready(4), *waiting = planned(8 | 2);

	assert_int_equal(waiting->state, CAPTURE_QUEUED);
	pass(2 * HOUR_S * CLOCK_NS_PER_S);
	tell(one, EVENT_TICK);
	assert_string_equal(w.done, "");
	tell(two, EVENT_TICK);
	assert_string_equal(w.done, "xLLEFC");
}

/* A lease that has lasted longer than lease-max ends in a moment when somebody comes, who is told
 * so. One that has not lasted that long ends lease-max after its begin. Others have no end. */
FIXTURE_TEST(who_comes_later_does_not_wait_for_longer)
{
	for (unsigned lasted_s = 70; lasted_s <= 1070; lasted_s += 1000) {
		uint64_t last = w.now_ns + 100 * CLOCK_NS_PER_S;
		struct capture *c, *other;
		struct effect f;

		w.broker.lease_max_ns = 100 * CLOCK_NS_PER_S;
		c = ready(1);
		other = ready(2);
		pass(lasted_s * CLOCK_NS_PER_S);
		last = lasted_s < 100 ? last : w.now_ns + CLOCK_NS_PER_S;
		handle(wish(1), EVENT_PLANNED);
		assert_true(broker_next(&w.broker, w.now_ns, &f));
		assert_int_equal(f.type, EFFECT_QUEUED);
		assert_int_equal(broker_lease_until_ns(&w.broker, c), last);
		assert_int_equal(broker_lease_until_ns(&w.broker, other), 0);
		w.now_ns = last - 1;
		tell(c, EVENT_TICK);
		assert_string_equal(w.done, "");
		w.now_ns = last;
		tell(other, EVENT_TICK);
		assert_string_equal(w.done, "");
		tell(c, EVENT_TICK);
		assert_string_equal(w.done, "xLLEFC");
		teardown(state);
		setup(state);
	}
}

FIXTURE_TEST(the_end_waits_for_processes_and_not_for_ever)
{
	struct capture *c = running(1);

	tell(c, EVENT_CLOSE);
	w.now_ns += 10 * CLOCK_NS_PER_S - 1;
	tell(c, EVENT_TICK);
	assert_string_equal(w.done, "");
	w.now_ns++;
	tell(c, EVENT_TICK);
	assert_string_equal(w.done, "eLEF");
	c = running(1);
	tell(c, EVENT_CLOSE);
	process_free(&w.processes, list_entry(c->processes.next, struct process, link));
	tell(c, EVENT_PROCESS_GONE);
	assert_string_equal(w.done, "eLEF");
	c = running(1);
	tell(c, EVENT_CLIENT_GONE); /* nobody gets what they deliver */
	w.now_ns += 2 * CLOCK_NS_PER_S;
	tell(c, EVENT_TICK);
	assert_string_equal(w.done, "eLEF");
}

/* --- races --- */

/* Starts in a state, and events follow each other; effects of all of them, in their order. */
static const struct race {
	const char *name;
	enum capture_state state;
	enum event_type events[4];
	size_t n;
	const char *effects;
} races[] = {
	{ "client gone while opening, then the granter answers",
	  CAPTURE_OPENING,
	  { EVENT_CLIENT_GONE, EVENT_OPENED },
	  2,
	  "eLEF" },
	{ "granter lost while checking, then the answer",
	  CAPTURE_CHECKING,
	  { EVENT_LOST, EVENT_ALONE },
	  2,
	  "rLEF" },
	{ "granter lost while opening: its link fails the question first",
	  CAPTURE_OPENING,
	  { EVENT_NOT_OPENED, EVENT_LOST },
	  2,
	  "eLEF" },
	{ "another user while ending, and again",
	  CAPTURE_ENDING,
	  { EVENT_FOREIGN, EVENT_FOREIGN },
	  2,
	  "vL" },
	{ "revoked, then the granter is lost: it has ended once",
	  CAPTURE_RUNNING,
	  { EVENT_FOREIGN, EVENT_LOST },
	  2,
	  "vLS" },
	{ "closed twice", CAPTURE_RUNNING, { EVENT_CLOSE, EVENT_CLOSE }, 2, "S" },
	{ "closed before it is planned, then planned",
	  CAPTURE_PLANNING,
	  { EVENT_CLOSE, EVENT_PLANNED },
	  2,
	  "EF" },
	{ "closed and hung at once", CAPTURE_RUNNING, { EVENT_CLOSE, EVENT_HUNG }, 2, "S" },
	{ "two answers who computes there",
	  CAPTURE_CHECKING,
	  { EVENT_ALONE, EVENT_ACCOMPANIED },
	  2,
	  "O" },
	{ "stalled, lost, stopping",
	  CAPTURE_RUNNING,
	  { EVENT_STALLED, EVENT_LOST, EVENT_STOPPING },
	  3,
	  "vLS" },
};

FIXTURE_TEST(races_end_well)
{
	for (size_t i = 0; i < ARRAY_SIZE(races); i++) {
		struct capture *c;
		char effects[64] = "";
		uint32_t id;

		setup(state);
		c = in_state(races[i].state);
		id = c->id;
		for (size_t k = 0; k < races[i].n && registry_find(&w.registry, id); k++) {
			tell(c, races[i].events[k]);
			strcat(effects, w.done);
		}
		if (strcmp(effects, races[i].effects) != 0) {
			fail_msg("%s: '%s' and not '%s'", races[i].name, effects, races[i].effects);
		}
		assert_int_equal(teardown(state), 0);

		/* The same with nothing carried out in between: nothing is said twice either. */
		setup(state);
		c = in_state(races[i].state);
		w.done[0] = '\0';
		for (size_t k = 0; k < races[i].n; k++) {
			handle(c, races[i].events[k]);
		}
		drain();
		if (strcmp(w.done, races[i].effects) != 0) {
			fail_msg("%s, at once: '%s' and not '%s'", races[i].name, w.done,
				 races[i].effects);
		}
		assert_int_equal(teardown(state), 0);
	}
	setup(state);
}
