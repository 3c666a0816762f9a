/* SPDX-License-Identifier: Apache-2.0 */

/* Operators, sizes, directions and layers of a program are few in comparison with its ranges, each
 * of which PyTorch counts anew; so a range has the number of a place, and a place has the texts. */

#include "client/store/places.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void places_deinit(struct places *p)
{
	free(p->slots);
	memset(p, 0, sizeof(*p));
}

static bool same_place(const struct store_attribution *a, const struct store_attribution *b)
{
	return a->op == b->op && a->sizes == b->sizes && a->dir == b->dir && a->layer == b->layer;
}

bool places_is_known(struct places *p, unsigned process, unsigned range,
		     const struct store_attribution *what)
{
	size_t slot = (range + process * 1021u) % PLACES_KNOWN;

	if (p->known[slot].process == process && p->known[slot].range == range &&
	    p->known[slot].what.seq == what->seq && same_place(&p->known[slot].what, what)) {
		return true;
	}
	p->known[slot].process = process;
	p->known[slot].range = range;
	p->known[slot].what = *what;
	return false;
}

static size_t hash_place(const struct store_attribution *what)
{
	const void *texts[] = { what->op, what->sizes, what->dir, what->layer };
	uint64_t hash = 0;

	for (int i = 0; i < 4; i++) {
		hash = (hash ^ (uintptr_t)texts[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return (size_t)hash;
}

static struct place *find_slot(struct place *slots, size_t n_slots,
			       const struct store_attribution *what)
{
	size_t slot = hash_place(what) & (n_slots - 1);

	while (slots[slot].id && !same_place(&slots[slot].what, what)) {
		slot = (slot + 1) & (n_slots - 1);
	}
	return &slots[slot];
}

static int grow(struct places *p)
{
	size_t n_slots = p->n_slots ? p->n_slots * 2 : 256;
	struct place *slots;

	if (p->n * 2 < p->n_slots) {
		return 0;
	}
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots) {
		return -ENOMEM;
	}
	for (size_t i = 0; i < p->n_slots; i++) {
		if (p->slots[i].id) {
			*find_slot(slots, n_slots, &p->slots[i].what) = p->slots[i];
		}
	}
	free(p->slots);
	p->slots = slots;
	p->n_slots = n_slots;
	return 0;
}

int places_find(struct places *p, const struct store_attribution *what, unsigned *ret_id,
		bool *ret_new)
{
	struct place *place;

	if (grow(p) < 0) {
		return -ENOMEM;
	}
	place = find_slot(p->slots, p->n_slots, what);
	*ret_new = place->id == 0;
	if (*ret_new) {
		*place = (struct place){ .id = (unsigned)++p->n, .what = *what };
	}
	*ret_id = place->id;
	return 0;
}
