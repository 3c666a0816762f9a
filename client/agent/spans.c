/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/spans.h"

#include <errno.h>
#include <stdlib.h>

/* A set-associative cache of fixed size: an id belongs to one set and may use any entry of the set.
 * CUPTI assigns ids in order to every call of the program, so sets follow the order of ids:
 * consecutive launches use adjacent memory. Queued batches hold a few thousand launches, far fewer
 * than there are entries. Entries of a lost batch are replaced when they are the oldest of their
 * sets.
 *
 * Threads that launch write only an entry's state, which is one word, so they need no lock. If an
 * entry is replaced while its time is written, its new state has no HAS_COME flag. */

enum { SINGLE = 1, HAS_COME = 2, IS_SHARED = 4, ID_SHIFT = 32 };

int spans_init(struct spans *s, unsigned bits)
{
	s->bits = bits;
	s->v = calloc((size_t)1 << bits, sizeof(*s->v));
	return s->v ? 0 : -ENOMEM;
}

/* CUPTI may report a kernel after spans_deinit(). */
void spans_deinit(struct spans *s)
{
	free(s->v);
	s->v = NULL;
}

static uint32_t id_of(uint64_t state)
{
	return (uint32_t)(state >> ID_SHIFT);
}

static struct spans_entry *find_set(struct spans *s, uint32_t correlation)
{
	return s->v[correlation / SPANS_WAYS & ((UINT32_C(1) << s->bits) - 1)];
}

/* The i-th entry in which to look for an id; most ids are in the first. */
static struct spans_entry *way(struct spans_entry *set, uint32_t correlation, uint32_t i)
{
	return &set[(correlation + i) % SPANS_WAYS];
}

/* NULL: the launch was not announced. Else *ret is the entry's state. */
static struct spans_entry *find(struct spans *s, uint32_t correlation, uint64_t *ret)
{
	struct spans_entry *set = correlation != 0 && s->v ? find_set(s, correlation) : NULL;

	for (uint32_t i = 0; set && i < SPANS_WAYS; i++) {
		struct spans_entry *e = way(set, correlation, i);

		*ret = atomic_load_explicit(&e->state, memory_order_acquire);
		if (id_of(*ret) == correlation) {
			return e;
		}
	}
	return NULL;
}

/* False: another thread has written the entry meanwhile. */
static bool replace(struct spans_entry *e, uint64_t state, uint64_t by)
{
	return atomic_compare_exchange_strong_explicit(&e->state, &state, by, memory_order_acq_rel,
						       memory_order_relaxed);
}

/* A free entry, or the oldest. Ids wrap around, so age is the distance from the newest. */
static struct spans_entry *find_slot(struct spans_entry *set, uint32_t correlation, uint64_t *ret)
{
	struct spans_entry *oldest = way(set, correlation, 0);

	*ret = atomic_load_explicit(&oldest->state, memory_order_relaxed);
	for (uint32_t i = 1; i < SPANS_WAYS && *ret != 0; i++) {
		struct spans_entry *e = way(set, correlation, i);
		uint64_t state = atomic_load_explicit(&e->state, memory_order_relaxed);

		if (state == 0 || correlation - id_of(state) > correlation - id_of(*ret)) {
			oldest = e;
			*ret = state;
		}
	}
	return oldest;
}

void spans_expect(struct spans *s, uint32_t correlation, bool single)
{
	uint64_t announced = (uint64_t)correlation << ID_SHIFT | (single ? SINGLE : 0), state;
	struct spans_entry *slot;

	if (correlation == 0) {
		return;
	}
	do {
		slot = find_slot(find_set(s, correlation), correlation, &state);
	} while (!replace(slot, state, announced));
}

bool spans_add(struct spans *s, uint32_t correlation, bool single, uint64_t begin_ns,
	       uint64_t end_ns)
{
	uint64_t state;
	struct spans_entry *found = find(s, correlation, &state);

	if (!found || ((state & SINGLE) != 0) != single) {
		return false;
	}
	if (state & HAS_COME && single) {
		replace(found, state, state | IS_SHARED);
		return false;
	}
	if (!(state & HAS_COME) || begin_ns < found->begin_ns) {
		found->begin_ns = begin_ns;
	}
	if (!(state & HAS_COME) || end_ns > found->end_ns) {
		found->end_ns = end_ns;
	}
	return state & HAS_COME || replace(found, state, state | HAS_COME);
}

bool spans_take(struct spans *s, uint32_t correlation, struct span *ret)
{
	uint64_t state;
	struct spans_entry *found = find(s, correlation, &state);

	if (!found || !(state & HAS_COME)) {
		return false;
	}
	*ret = (struct span){ found->begin_ns, found->end_ns, (state & IS_SHARED) != 0 };
	replace(found, state, 0);
	return true;
}

void spans_forget(struct spans *s, uint32_t correlation)
{
	uint64_t state;
	struct spans_entry *found = find(s, correlation, &state);

	if (found) {
		replace(found, state, 0);
	}
}
