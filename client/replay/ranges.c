/* SPDX-License-Identifier: Apache-2.0 */
#include "client/replay/ranges.h"

#include <stdlib.h>

#include "proto/base/array.h"

/* A recorded range names the range around it. So the state of an expression follows from the state
 * of that range, as it does in a program. A file may nest ranges as deep as it is long, so there is
 * no recursion. */

struct known {
	unsigned id;
	uint32_t number;
	uint64_t state[]; /* of the filter's terms */
};

void ranges_deinit(struct ranges *r)
{
	map_deinit_items(&r->known);
	free(r->chain);
}

static bool has_id(const void *item, const void *key)
{
	return ((const struct known *)item)->id == *(const unsigned *)key;
}

static uint32_t string_or_none(struct intern *in, const char *s)
{
	return s[0] ? intern_string(in, s) : 0;
}

/* around: NULL: the range is an outermost one. NULL: out of memory. */
static const struct known *define(struct ranges *r, const struct known *around,
				  const struct gpuctr_range *range)
{
	const struct range_key key = {
		.parent = around ? around->number : 0,
		.domain = string_or_none(r->intern, range->domain),
		.message = intern_string(r->intern, range->message),
		.category = string_or_none(r->intern, range->category),
		.color = range->color,
		.payload_type = range->payload_type,
		.payload = range->payload,
	};
	struct known *k = malloc(sizeof(*k) + r->filter->n_terms * sizeof(*k->state));
	struct nvtx_matched empty;

	if (!k || map_add(&r->known, map_mix(0, range->id), k) < 0) {
		free(k);
		return NULL;
	}
	k->id = range->id;
	k->number = intern_range(r->intern, &key);
	nvtx_filter_begin(r->filter, empty.v);
	nvtx_filter_advance(r->filter, around ? around->state : empty.v, k->state, range->domain,
			    range->message);
	return k;
}

/* NULL: there is no range, or no memory. */
static const struct known *find(struct ranges *r, const struct gpuctr_range *range)
{
	const struct known *k = NULL;
	size_t n = 0;

	for (; range && !(k = map_find(&r->known, map_mix(0, range->id), has_id, &range->id));
	     range = range->parent) {
		if (!array_make_room(&r->chain, sizeof(*r->chain), n, &r->max_chain)) {
			return NULL;
		}
		r->chain[n++] = range;
	}
	for (bool ok = true; ok && n > 0; ok = k != NULL) {
		k = define(r, k, r->chain[--n]);
	}
	return k;
}

uint32_t ranges_number(struct ranges *r, const struct gpuctr_range *range)
{
	const struct known *k = find(r, range);

	return k ? k->number : 0;
}

bool ranges_select(struct ranges *r, const struct gpuctr_record *record)
{
	struct nvtx_filter *f = r->filter;
	struct nvtx_matched empty, started = { { 0 } };
	const struct known *k;

	nvtx_filter_note_launch(f);
	if (!nvtx_filter_is_used(f)) {
		return true;
	}
	nvtx_filter_begin(f, empty.v);
	k = find(r, record->range);
	for (size_t i = 0; i < record->n_active; i++) {
		nvtx_filter_add(f, started.v, record->active[i]->domain,
				record->active[i]->message);
	}
	return nvtx_filter_selects(f, k ? k->state : empty.v, started.v);
}
