/* SPDX-License-Identifier: Apache-2.0 */

/* A program has few different operators, sizes, directions and layers, but many ranges, because
 * PyTorch numbers each. So a range refers to a place by number, and the place has the texts. */

#include "client/store/places.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void places_deinit(struct places *p)
{
	map_deinit_items(&p->places);
	memset(p, 0, sizeof(*p));
}

static bool same_place(const struct store_attribution *a, const struct store_attribution *b)
{
	return a->op == b->op && a->sizes == b->sizes && a->dir == b->dir && a->layer == b->layer;
}

static bool is_place(const void *item, const void *key)
{
	return same_place(&((const struct place *)item)->what, key);
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

static uint64_t hash_place(const struct store_attribution *what)
{
	uint64_t hash = map_mix(map_mix(0, (uintptr_t)what->op), (uintptr_t)what->sizes);

	return map_mix(map_mix(hash, (uintptr_t)what->dir), (uintptr_t)what->layer);
}

int places_find(struct places *p, const struct store_attribution *what, unsigned *ret_id,
		bool *ret_new)
{
	uint64_t hash = hash_place(what);
	struct place *place = map_find(&p->places, hash, is_place, what);

	*ret_new = !place;
	if (*ret_new) {
		place = malloc(sizeof(*place));
		if (!place || map_add(&p->places, hash, place)) {
			free(place);
			return -ENOMEM;
		}
		*place = (struct place){ .id = (unsigned)p->places.n, .what = *what };
	}
	*ret_id = place->id;
	return 0;
}
