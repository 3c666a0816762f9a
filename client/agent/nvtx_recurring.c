/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/nvtx_recurring.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "client/agent/names.h"
#include "client/agent/nvtx.h"
#include "client/agent/nvtx_stack.h"

/* The table holds hashes of names. A new name goes into the part for recent names, where later new
 * names may replace it. A name found there again moves to the part that is kept, while there is
 * room: so operators whose names never recur do not displace the names of layers. Two threads that
 * look up a name at the same time may both find it new. */

enum { NAMES = 4096, NAMES_BITS = 12, KEPT_TRIES = 16 };

_Static_assert((int)NAMES == 1 << (int)NAMES_BITS, "as many slots");

static _Atomic uint64_t last[NAMES], kept[NAMES];

/* Names that differ in their last letter have hashes that differ in few bits. */
static size_t slot_of(uint64_t name)
{
	return name * UINT64_C(0x9e3779b97f4a7c15) >> (64 - NAMES_BITS);
}

static bool is_kept(uint64_t name)
{
	size_t slot = slot_of(name);

	for (size_t i = 0; i < KEPT_TRIES; i++) {
		uint64_t found =
			atomic_load_explicit(&kept[(slot + i) % NAMES], memory_order_relaxed);

		if (found == name || found == 0) {
			return found == name;
		}
	}
	return false;
}

static void keep(uint64_t name)
{
	size_t slot = slot_of(name);

	for (size_t i = 0; i < KEPT_TRIES; i++) {
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(&kept[(slot + i) % NAMES], &found, name) ||
		    found == name) {
			return;
		}
	}
}

static bool meet(uint64_t name)
{
	_Atomic uint64_t *slot = &last[slot_of(name)];

	if (is_kept(name)) {
		return true;
	}
	if (atomic_load_explicit(slot, memory_order_relaxed) == name) {
		keep(name);
		return true;
	}
	atomic_store_explicit(slot, name, memory_order_relaxed);
	return false;
}

static void ask(struct entry *e, const struct entry *around)
{
	uint64_t name =
		names_hash(names_hash(0, nvtx_domain_name(e->event.domain)), e->event.message);

	e->asked = true;
	e->recurs = meet(name);
	e->recurring = e->recurs ? name : around ? around->recurring : 0;
}

/* Each range is asked once. */
uint64_t nvtx_recurring_name(void)
{
	struct stack *s = nvtx_stack();
	size_t i;

	if (!s || s->n == 0) {
		return 0;
	}
	for (i = s->n; i > 0 && !s->v[i - 1].asked; i--) {
	}
	for (; i < s->n; i++) {
		ask(&s->v[i], i > 0 ? &s->v[i - 1] : NULL);
	}
	return s->v[s->n - 1].recurring;
}

uint32_t nvtx_recurring_range(struct intern *in)
{
	struct stack *s = nvtx_stack();
	size_t i;

	if (nvtx_recurring_name() == 0) {
		return 0;
	}
	nvtx_current_range(in);
	for (i = s->n; i > 1 && !s->v[i - 1].recurs; i--) {
	}
	return s->v[i - 1].range;
}
