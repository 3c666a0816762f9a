/* SPDX-License-Identifier: Apache-2.0 */

/* Threads that share a slot tell less of each other's ranges than they could, until the one that
 * lost a launch has a record again: an occurrence may then be told as two, and never two as one. */

#include "client/agent/opened.h"

#include "client/agent/deliver.h"

void opened_init(struct opened *o)
{
	for (size_t i = 0; i < OPENED_SLOTS; i++) {
		o->slots[i].thread = 0;
		o->slots[i].most = UINT32_MAX;
	}
	atomic_init(&o->gap, false);
}

void opened_lose(struct opened *o)
{
	atomic_store(&o->gap, true);
}

void opened_take(struct opened *o, struct launch *l, bool stays)
{
	size_t i = l->thread % OPENED_SLOTS;

	if (atomic_exchange(&o->gap, false)) {
		for (size_t k = 0; k < OPENED_SLOTS; k++) {
			o->slots[k].thread = 0;
			o->slots[k].most = 0;
		}
	}
	if (o->slots[i].most < l->path.opened) {
		l->path.opened = o->slots[i].most;
	}
	if (!stays) {
		o->slots[i].thread = l->thread;
		o->slots[i].most = l->path.opened;
	} else if (o->slots[i].thread == l->thread || o->slots[i].thread == 0) {
		o->slots[i].most = UINT32_MAX;
	}
}
