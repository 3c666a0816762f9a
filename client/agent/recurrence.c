/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/recurrence.h"

#include <stdlib.h>
#include <string.h>

#include "client/agent/flag.h"

/* A program repeats itself on several levels: a step has layers, an epoch has steps. The search
 * takes the period that explains the longest stretch of the latest launches: of a step of twelve
 * equal layers it finds the step, not a layer, once two steps are in the window. Until
 * RECURRENCE_PATIENCE_NS are over, a period must recur three times and explain most of the window;
 * then twice is enough. */

#define LOOK_EVERY_NS (RECURRENCE_PATIENCE_NS / 10)
#define LOST_AFTER_NS RECURRENCE_PATIENCE_NS

enum { LOST_AFTER_PERIODS = 4 };

void recurrence_init(struct recurrence *r, bool is_used)
{
	*r = (struct recurrence){ .is_used = is_used };
}

void recurrence_deinit(struct recurrence *r)
{
	free(r->window);
	free(r->scratch);
	r->window = NULL;
	r->scratch = NULL;
}

static bool move(struct recurrence *r, enum recurrence_state from, enum recurrence_state to)
{
	return atomic_compare_exchange_strong(&r->state, &from, to);
}

/* --- search --- */

static uint64_t latest(const struct recurrence *r, enum recurrence_key key, size_t i)
{
	return r->window[r->n - 1 - i].keys[key];
}

/* For each distance p: how many of the latest launches equal the launches p earlier (the Z function
 * of the launches in reverse order; Gusfield, Algorithms on Strings, 1997, section 1.4). */
static void measure_recurrence(struct recurrence *r, enum recurrence_key key)
{
	uint32_t *z = r->scratch;
	size_t left = 0,
	       right = 0; /* the stretch [left, right) is known to be the same as [0, ...) */

	z[0] = 0;
	for (size_t p = 1; p < r->n; p++) {
		size_t same = p < right ? z[p - left] : 0;

		same = p < right && same > right - p ? right - p : same;
		while (p + same < r->n && latest(r, key, same) == latest(r, key, p + same)) {
			same++;
		}
		z[p] = (uint32_t)same;
		if (p + same > right) {
			left = p;
			right = p + same;
		}
	}
}

/* The shortest period that explains the longest stretch; 0: there is none. */
static size_t find_period(struct recurrence *r, enum recurrence_key key, bool last_look)
{
	size_t period = 0, stretch = 0;

	measure_recurrence(r, key);
	for (size_t p = 1; p < r->n; p++) {
		if (r->scratch[p] >= p && p + r->scratch[p] > stretch) {
			period = p;
			stretch = p + r->scratch[p];
		}
	}
	return last_look || (stretch >= 3 * period && 4 * stretch >= 3 * r->n) ? period : 0;
}

/* The hash of the n launches up to launch i of the window. */
static uint64_t hash_window(const struct recurrence *r, enum recurrence_key key, size_t i,
			    uint32_t n)
{
	uint64_t hash = 0;

	for (size_t k = i + 1 - n; k <= i; k++) {
		hash = recurrence_add(hash, r->window[k].keys[key]);
	}
	return hash;
}

static uint32_t *count_of(struct recurrence *r, uint64_t hash)
{
	return &r->scratch[(hash ^ hash >> 32) % RECURRENCE_WINDOW];
}

/* Finds the mark of a step: of the latest period's launches whose hash with the launches before is
 * unique in the period, the one after the longest pause, in which the program fetched its next
 * batch or read a result. Two launches that share a count are taken for the same. */
static bool find_mark(struct recurrence *r, enum recurrence_key key, size_t period, uint32_t gram)
{
	uint64_t longest = 0;
	bool found = false;

	memset(r->scratch, 0, RECURRENCE_WINDOW * sizeof(*r->scratch));
	for (size_t i = r->n - period; i < r->n; i++) {
		++*count_of(r, hash_window(r, key, i, gram));
	}
	for (size_t i = r->n - period; i < r->n; i++) {
		uint64_t hash = hash_window(r, key, i, gram),
			 pause = r->window[i].ns - r->window[i - 1].ns;

		if (*count_of(r, hash) == 1 && (!found || pause > longest)) {
			found = true;
			longest = pause;
			r->mark = hash;
		}
	}
	return found;
}

/* Do steps fill at least half of the window? The program may do something else between them. */
static bool mark_fills_window(const struct recurrence *r, enum recurrence_key key, size_t period,
			      uint32_t gram)
{
	size_t times = 0;

	for (size_t i = gram - 1; i < r->n; i++) {
		times += hash_window(r, key, i, gram) == r->mark;
	}
	return 2 * times * period >= r->n;
}

static bool find_step(struct recurrence *r, enum recurrence_key key, bool last_look)
{
	size_t period = find_period(r, key, last_look);

	for (uint32_t gram = 1; gram <= RECURRENCE_GRAM && gram <= period; gram *= 2) {
		if (find_mark(r, key, period, gram) && mark_fills_window(r, key, period, gram)) {
			r->key = key;
			r->gram = gram;
			r->period = (uint32_t)period;
			r->period_ns = r->window[r->n - 1].ns - r->window[r->n - 1 - period].ns;
			return true;
		}
	}
	return false;
}

static void look(struct recurrence *r, uint64_t now_ns)
{
	uint64_t until_ns = atomic_load(&r->first_ns) + RECURRENCE_PATIENCE_NS;
	bool last_look = now_ns >= until_ns;

	r->look_ns =
		!last_look && now_ns + LOOK_EVERY_NS > until_ns ? until_ns : now_ns + LOOK_EVERY_NS;
	/* Compares kernels without shapes only in the last look: the shapes may change from step to
	 * step. */
	for (int key = 0; key < (last_look ? RECURRENCE_KEYS : RECURRENCE_KERNELS); key++) {
		if (find_step(r, (enum recurrence_key)key, last_look)) {
			atomic_store(&r->last_ns, now_ns);
			move(r, RECURRENCE_SEARCHES, RECURRENCE_FOUND);
			return;
		}
	}
	if (last_look) {
		move(r, RECURRENCE_SEARCHES, RECURRENCE_ABSENT);
	}
}

static void search(struct recurrence *r, const struct recurrence_launch *launch)
{
	if (!r->window) {
		r->window = malloc(RECURRENCE_WINDOW * sizeof(*r->window));
		r->scratch = malloc(RECURRENCE_WINDOW * sizeof(*r->scratch));
		r->look_ns = launch->ns + LOOK_EVERY_NS;
		atomic_store(&r->first_ns, launch->ns);
	}
	if (!r->window || !r->scratch) {
		move(r, RECURRENCE_SEARCHES, RECURRENCE_ABSENT);
		return;
	}
	/* A long pause, in which the program may load data, does not count as time without
	 * recurrence. */
	if (r->n > 0 && launch->ns - r->launched_ns > LOOK_EVERY_NS) {
		atomic_fetch_add(&r->first_ns, launch->ns - r->launched_ns);
		r->look_ns += launch->ns - r->launched_ns;
	}
	r->launched_ns = launch->ns;
	if (r->n == RECURRENCE_WINDOW) {
		r->n /= 2;
		memmove(r->window, r->window + r->n, r->n * sizeof(*r->window));
	}
	r->window[r->n++] = *launch;
	if (launch->ns >= r->look_ns || r->n == RECURRENCE_WINDOW) {
		look(r, launch->ns);
	}
}

/* --- steps --- */

static bool is_mark(struct recurrence *r, const struct recurrence_launch *launch)
{
	uint64_t hash = 0;

	r->recent[r->seen++ % RECURRENCE_GRAM] = launch->keys[r->key];
	if (r->seen < r->gram) {
		return false;
	}
	for (uint64_t i = r->seen - r->gram; i < r->seen; i++) {
		hash = recurrence_add(hash, r->recent[i % RECURRENCE_GRAM]);
	}
	return hash == r->mark;
}

bool recurrence_observes(struct recurrence *r, uintptr_t thread)
{
	uintptr_t none = 0;

	if (!r->is_used ||
	    atomic_load_explicit(&r->state, memory_order_relaxed) > RECURRENCE_FOUND) {
		return false;
	}
	if (atomic_load_explicit(&r->thread, memory_order_relaxed) == thread ||
	    atomic_compare_exchange_strong(&r->thread, &none, thread)) {
		return true;
	}
	flag_raise(&r->others);
	return false;
}

bool recurrence_on_launch(struct recurrence *r, const struct recurrence_launch *launch)
{
	switch (atomic_load(&r->state)) {
	case RECURRENCE_SEARCHES:
		search(r, launch);
		return false;
	case RECURRENCE_FOUND:
		if (is_mark(r, launch)) {
			r->since_step = 0;
			atomic_store(&r->last_ns, launch->ns);
			return true;
		}
		if (++r->since_step > LOST_AFTER_PERIODS * (uint64_t)r->period) {
			move(r, RECURRENCE_FOUND, RECURRENCE_LOST);
		}
		return false;
	default:
		return false;
	}
}

enum recurrence_state recurrence_check(struct recurrence *r, uint64_t now_ns)
{
	uint64_t first_ns = atomic_load(&r->first_ns);

	switch (atomic_load(&r->state)) {
	case RECURRENCE_SEARCHES: /* the observed thread may look once more */
		if (first_ns > 0 && atomic_load(&r->others) &&
		    now_ns > first_ns + RECURRENCE_PATIENCE_NS + LOOK_EVERY_NS) {
			move(r, RECURRENCE_SEARCHES, RECURRENCE_ABSENT);
		}
		break;
	case RECURRENCE_FOUND:
		if (now_ns >
		    atomic_load(&r->last_ns) + LOST_AFTER_PERIODS * r->period_ns + LOST_AFTER_NS) {
			move(r, RECURRENCE_FOUND, RECURRENCE_LOST);
		}
		break;
	default:
		break;
	}
	return atomic_load(&r->state);
}
