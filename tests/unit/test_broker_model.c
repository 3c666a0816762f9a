/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "daemon/broker/broker.h"
#include "daemon/broker/process.h"
#include "proto/base/clock.h"

/* A hundred thousand lives of captures, many at a time on a few GPUs, with events in any order, and
 * what must hold whatever comes:
 *
 * - the granter never has two leases on a GPU, and a capture that is live has one;
 * - each lease whose line was written ends in the log exactly once;
 * - each client that stays hears exactly one end, and nothing after it;
 * - whoever waits for a GPU gets it before those who came later;
 * - while there is a granter nobody waits for GPUs that nobody holds or stands before them for;
 * - every capture ends, and nothing is left.
 *
 * The world here is the front, the granter, clients and agents, as unreliable as they can be. There
 * are fewer lives under a sanitizer. */

enum {
	GPUS = 4,
	SLOTS = 12,
	LIVES = 100000,
	LIVES_SANITIZED = 20000,
	LEASES_MAX = 64,
};

/* What the world knows of a capture. */
struct life {
	struct capture *c; /* NULL: the slot is free */
	uint32_t id;
	bool has_client;
	unsigned ends_heard, granted, ended;
	uint64_t ticket; /* when it began to wait */
	bool asked;	 /* the granter, for its lease */
	bool checked;	 /* asked who computes there */
};

static struct world {
	struct registry registry;
	struct processes processes;
	struct arbiter arbiter;
	struct broker broker;
	uint64_t now_ns, random, tickets;
	struct life lives[SLOTS];
	unsigned n_lives;
	struct {
		uint32_t id;
		uint64_t gpus;
	} leases[LEASES_MAX]; /* the granter's */
	size_t n_leases;
	size_t effects[EFFECT_FREE + 1], n_expired;
	uint64_t seed; /* of the history; 0: none is under way */
} w;

static uint64_t pick(uint64_t n)
{
	return unit_random(&w.random) % n;
}

static struct life *life_of(const struct capture *c)
{
	return &w.lives[c->request];
}

/* --- the granter --- */

static bool lease_is_open(uint32_t id)
{
	for (size_t i = 0; i < w.n_leases; i++) {
		if (w.leases[i].id == id) {
			return true;
		}
	}
	return false;
}

static void granter_close(uint32_t id)
{
	for (size_t i = 0; i < w.n_leases; i++) {
		if (w.leases[i].id == id) {
			w.leases[i] = w.leases[--w.n_leases];
			return;
		}
	}
}

static void granter_open(const struct capture *c)
{
	for (size_t i = 0; i < w.n_leases; i++) {
		if ((w.leases[i].gpus & c->reservation.gpus) != 0) {
			fail_msg("captures %u and %u have leases on one GPU", w.leases[i].id,
				 c->id);
		}
	}
	assert_true(w.n_leases < LEASES_MAX);
	w.leases[w.n_leases].id = c->id;
	w.leases[w.n_leases++].gpus = c->reservation.gpus;
}

/* --- effects --- */

static void handle(struct capture *c, enum event_type type)
{
	struct event e = {
		.type = type,
		.now_ns = w.now_ns,
		.code = 1 + (int)pick(90),
		.message = pick(2) ? "cause" : NULL,
		.remedy = "remedy",
	};

	broker_handle(&w.broker, c, &e);
}

/* Of a user, in the order in which they came; users take turns. */
static void expect_in_order(const struct life *life)
{
	for (size_t i = 0; i < SLOTS; i++) {
		const struct life *other = &w.lives[i];

		if (other->c && other != life && other->c->state == CAPTURE_QUEUED &&
		    (other->c->reservation.gpus & life->c->reservation.gpus) != 0 &&
		    other->c->uid == life->c->uid && other->ticket < life->ticket) {
			fail_msg("capture %u was overtaken by %u", other->id, life->id);
		}
	}
}

static void carry_out_open(struct capture *c, struct life *life)
{
	if (pick(20) == 0) {
		handle(c, EVENT_NOT_NOTED);
		return;
	}
	life->granted++;
	if (pick(20) == 0 || !w.broker.grants) {
		handle(c, EVENT_NOT_OPENED);
		return;
	}
	granter_open(c);
	life->asked = true;
}

static void expect_client_to_listen(const struct effect *f, const struct life *life)
{
	bool speaks = f->type == EFFECT_REFUSE || f->type == EFFECT_QUEUED ||
		      f->type == EFFECT_READY || f->type == EFFECT_END;

	if (speaks && life->ends_heard != 0) {
		fail_msg("capture %u: effect %d after its end", life->id, (int)f->type);
	}
}

static void detach_all(struct capture *c)
{
	while (!list_is_empty(&c->processes)) {
		process_free(&w.processes, list_entry(c->processes.next, struct process, link));
	}
}

static void expect_a_good_end(const struct life *life)
{
	if (life->ends_heard != 1) {
		fail_msg("capture %u: its end was told %u times", life->id, life->ends_heard);
	}
	if (life->granted != life->ended) {
		fail_msg("capture %u: %u leases granted, %u ended", life->id, life->granted,
			 life->ended);
	}
	if (lease_is_open(life->id)) {
		fail_msg("capture %u is gone, and the granter has its lease", life->id);
	}
}

static void carry_out(const struct effect *f)
{
	struct capture *c = f->capture;
	struct life *life = life_of(c);

	w.effects[f->type]++;
	assert_ptr_equal(life->c, c);
	expect_client_to_listen(f, life);
	switch (f->type) {
	case EFFECT_NOTE:
		life->ended += f->note != NOTE_REFUSED && f->note != NOTE_TRACE_ENDED;
		if (f->note == NOTE_EXPIRED) { /* for others, and never before lease-max */
			assert_true(c->waited_ns != 0);
			assert_true(w.now_ns >= c->ready_ns + w.broker.lease_max_ns);
			w.n_expired++;
		}
		break;
	case EFFECT_CHECK:
		expect_in_order(life);
		life->checked = true;
		if (pick(4) == 0) { /* as with `sharing = shared` */
			handle(c, EVENT_ALONE);
		}
		break;
	case EFFECT_OPEN:
		carry_out_open(c, life);
		break;
	case EFFECT_CLOSE:
		granter_close(c->id);
		break;
	case EFFECT_REFUSE:
		life->ends_heard++;
		break;
	case EFFECT_END:
		life->ends_heard++;
		detach_all(c);
		break;
	case EFFECT_FREE:
		expect_a_good_end(life);
		capture_free(&w.registry, c);
		life->c = NULL;
		break;
	default:
		break;
	}
}

static void drain(void)
{
	struct effect f;

	while (broker_next(&w.broker, w.now_ns, &f)) {
		carry_out(&f);
	}
}

static void tell(struct capture *c, enum event_type type)
{
	handle(c, type);
	drain();
}

/* --- what holds whenever nothing is left to do --- */

static bool is_before(const struct life *other, const struct life *life)
{
	for (struct list *l = other->c->reservation.link.next; l != &w.arbiter.queue; l = l->next) {
		if (l == &life->c->reservation.link) {
			return true;
		}
	}
	return false;
}

static bool may_wait(const struct life *life)
{
	for (size_t i = 0; i < SLOTS; i++) {
		const struct life *other = &w.lives[i];

		if (!other->c || other == life ||
		    (other->c->reservation.gpus & life->c->reservation.gpus) == 0) {
			continue;
		}
		if (other->c->reservation.state == RESERVATION_HOLDING ||
		    (other->c->state == CAPTURE_QUEUED && is_before(other, life))) {
			return true;
		}
	}
	return !w.broker.grants;
}

static void expect_sane(const struct life *life)
{
	const struct capture *c = life->c;
	enum reservation_state reservation = c->state == CAPTURE_PLANNING || c->recorded
						     ? RESERVATION_IDLE
					     : c->state == CAPTURE_QUEUED ? RESERVATION_WAITING
									  : RESERVATION_HOLDING;

	assert_int_not_equal(c->state, CAPTURE_OVER);
	assert_int_equal(c->reservation.state, reservation);
	assert_true(!c->leased || reservation == RESERVATION_HOLDING);
	if (capture_is_live(c) && !c->recorded) {
		assert_true(c->leased && lease_is_open(c->id));
	}
	if (c->state == CAPTURE_QUEUED) {
		assert_true(may_wait(life));
		assert_true(c->reservation.overtaken <= ARBITER_OVERTAKEN_MAX);
	}
	assert_true(c->state != CAPTURE_OPENING || life->asked);
	if (c->state == CAPTURE_RUNNING || c->state == CAPTURE_ENDING) {
		assert_true(c->ready_ns != 0 || c->recorded);
	}
	for (size_t i = 0; i < CAPTURE_EFFECTS_MAX; i++) {
		assert_int_equal(c->effects[i].type, EFFECT_NONE);
	}
}

static void expect_all_sane(void)
{
	uint64_t held = 0;

	for (size_t i = 0; i < SLOTS; i++) {
		if (!w.lives[i].c) {
			continue;
		}
		expect_sane(&w.lives[i]);
		if (w.lives[i].c->reservation.state == RESERVATION_HOLDING) {
			assert_int_equal(held & w.lives[i].c->reservation.gpus, 0);
			held |= w.lives[i].c->reservation.gpus;
		}
	}
	assert_int_equal(held, w.arbiter.held);
}

/* --- what happens --- */

static void open_capture(size_t slot)
{
	struct life *life = &w.lives[slot];
	struct capture *c = capture_new(&w.registry);
	uint64_t gpus = pick(3) ? UINT64_C(1) << pick(GPUS) : 1 + pick((1 << GPUS) - 1);

	assert_non_null(c);
	*life = (struct life){ .c = c, .id = c->id, .has_client = true };
	c->request = (uint32_t)slot;
	c->client = life;
	c->uid = (uid_t)pick(3);
	c->recorded = pick(10) == 0;
	c->options.program = "p";
	c->options.no_wait = pick(5) == 0;
	c->options.timeout_ns = pick(3) == 0 ? pick(20) * CLOCK_NS_PER_S : 0;
	reservation_init(&c->reservation, c->recorded ? 0 : gpus, c->uid);
	w.n_lives++;
}

static void attach(struct life *life)
{
	struct process *p;

	if (capture_is_live(life->c) && life->c->n_attached < 4) {
		p = process_new(&w.processes, 1, 1, NULL);
		assert_non_null(p);
		assert_int_equal(process_attach(p, life->c), 0);
		p->registered = false;
		tell(life->c, EVENT_ATTACHED);
	}
}

static void detach(struct life *life)
{
	struct capture *c = life->c;

	if (!list_is_empty(&c->processes)) {
		process_free(&w.processes, list_entry(c->processes.next, struct process, link));
		tell(c, EVENT_PROCESS_GONE);
	}
}

static void lose_granter(void)
{
	w.broker.grants = false;
	w.n_leases = 0;
	for (size_t i = 0; i < SLOTS; i++) { /* its link fails what was asked, first */
		if (w.lives[i].c && w.lives[i].asked) {
			w.lives[i].asked = false;
			tell(w.lives[i].c, EVENT_NOT_OPENED);
		}
	}
	for (size_t i = 0; i < SLOTS; i++) {
		if (w.lives[i].c) {
			handle(w.lives[i].c, EVENT_LOST);
		}
	}
	drain();
}

static void to_many(enum event_type type)
{
	for (size_t i = 0; i < SLOTS; i++) {
		if (w.lives[i].c && (type == EVENT_TICK || pick(2))) {
			handle(w.lives[i].c, type);
		}
	}
	drain();
}

/* The granter answers, and is wrong about nothing. */
static void granter_acts(struct life *life)
{
	if (life->asked) {
		life->asked = false;
		if (pick(10) == 0) {
			granter_close(life->id);
			tell(life->c, EVENT_NOT_OPENED);
		} else {
			tell(life->c, EVENT_OPENED);
		}
	}
}

static void client_acts(struct life *life)
{
	if (!capture_is_live(life->c) && pick(8) != 0) {
		return;
	}
	if (life->has_client && pick(6) == 0) {
		life->has_client = false;
		tell(life->c, EVENT_CLIENT_GONE);
	} else if (life->has_client && pick(6) == 0) {
		tell(life->c, EVENT_CLOSE);
	} else {
		attach(life);
	}
}

/* Of those that may come to a capture at any time, whether they make sense or not. */
static void something_happens(struct life *life)
{
	static const enum event_type any[] = {
		EVENT_WITHDRAWN, EVENT_HUNG,	 EVENT_STALLED,	     EVENT_FOREIGN,
		EVENT_TICK,	 EVENT_GPU_BACK, EVENT_PROCESS_GONE, EVENT_DESERTED,
	};
	enum event_type type = any[pick(ARRAY_SIZE(any))];

	if (type != EVENT_HUNG || life->c->reservation.state != RESERVATION_IDLE) {
		tell(life->c, type);
	}
}

static void planner_answers(struct life *life)
{
	if (life->c->state != CAPTURE_PLANNING) {
		return;
	}
	life->ticket = ++w.tickets;
	tell(life->c, pick(10) ? EVENT_PLANNED : EVENT_REFUSED);
}

static void gpu_answers(struct life *life)
{
	if (life->checked && life->c->state == CAPTURE_CHECKING) {
		life->checked = false;
		tell(life->c, pick(5) ? EVENT_ALONE : EVENT_ACCOMPANIED);
	}
}

static void the_world_changes(void)
{
	switch (pick(32)) {
	case 0:
		if (w.broker.grants) {
			lose_granter();
		}
		break;
	case 1:
		to_many(EVENT_HUNG);
		break;
	case 2:
		to_many(EVENT_FOREIGN);
		break;
	default:
		w.now_ns += pick(30) * CLOCK_NS_PER_S / 10;
		to_many(EVENT_TICK);
		break;
	}
}

static void step(void)
{
	size_t slot = pick(SLOTS);
	struct life *life = &w.lives[slot];

	if (!w.broker.grants && pick(10) == 0) {
		w.broker.grants = true;
		broker_wake(&w.broker);
		drain();
	}
	if (!life->c) {
		open_capture(slot);
		return;
	}
	switch (pick(64) / 8) {
	case 0:
	case 1:
		planner_answers(life);
		break;
	case 2:
		gpu_answers(life);
		break;
	case 3:
	case 4:
		granter_acts(life);
		break;
	case 5:
		client_acts(life);
		break;
	case 6:
		detach(life);
		break;
	default:
		if (pick(3) == 0) {
			the_world_changes();
		} else if (pick(12) == 0) {
			something_happens(life);
		}
		break;
	}
}

static void end_all(void)
{
	for (size_t i = 0; i < SLOTS; i++) {
		if (w.lives[i].c) {
			handle(w.lives[i].c, EVENT_STOPPING);
		}
	}
	drain();
	w.now_ns += 2 * CLOCK_NS_PER_S;
	to_many(EVENT_TICK);
	assert_int_equal(w.registry.n, 0);
	assert_int_equal(w.arbiter.held, 0);
	assert_int_equal(w.arbiter.n_waiting, 0);
	assert_int_equal(w.n_leases, 0);
}

/* In histories of some hundred steps: each ends with the daemon, and the next begins anew. */
static void history(uint64_t seed)
{
	w.seed = seed;
	w.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	registry_init(&w.registry);
	processes_init(&w.processes);
	arbiter_init(&w.arbiter, 5);
	broker_init(&w.broker, &w.registry, &w.arbiter);
	w.broker.grants = true;
	w.broker.lease_max_ns = 5 * CLOCK_NS_PER_S;
	w.now_ns = 1000 * CLOCK_NS_PER_S;
	for (int i = 0; i < 500; i++) {
		step();
		expect_all_sane();
	}
	end_all();
	broker_deinit(&w.broker);
	w.seed = 0;
}

/* A model that never gets anywhere finds nothing. */
static void expect_that_much_happened(void)
{
	for (unsigned e = EFFECT_NONE + 1; e <= EFFECT_FREE; e++) {
		if (w.effects[e] < w.n_lives / 1000) {
			fail_msg("effect %u came %zu times", e, w.effects[e]);
		}
	}
	assert_true(w.effects[EFFECT_READY] > w.n_lives / 20);
	assert_true(w.n_expired > w.n_lives / 1000);
}

static int tell_seed(void **state);

TEST_WITH(whatever_happens, NULL, tell_seed)
{
	const char *only = getenv("GPUCTR_TEST_SEED");
	uint64_t seed = only ? strtoull(only, NULL, 0) : 1;
	unsigned lives = unit_sanitized ? LIVES_SANITIZED : LIVES;

	do {
		print_message("%s", seed % 2000 == 0 ? "." : "");
		history(seed++);
	} while (!only && w.n_lives < lives);
	print_message("%u lives in %llu histories, %zu leases, %zu ready\n", w.n_lives,
		      (unsigned long long)seed - 1, w.effects[EFFECT_OPEN],
		      w.effects[EFFECT_READY]);
	if (!only) {
		expect_that_much_happened();
	}
}

/* GPUCTR_TEST_SEED plays that history alone. */
static int tell_seed(void **state)
{
	(void)state;
	if (w.seed != 0) {
		print_message("in the history of seed %llu\n", (unsigned long long)w.seed);
	}
	return 0;
}
