/* SPDX-License-Identifier: Apache-2.0 */
#include "client/replay/ranges.h"

#include <stdlib.h>

/* A recorded range names the range around it, which comes before it. So the state of an expression
 * follows from the state of that range, as it does in a program. */

uint64_t *ranges_match(struct nvtx_filter *f, const struct store_definitions *d)
{
	uint64_t *v = calloc(d->n_ranges * f->n_terms + 1, sizeof(*v));
	struct nvtx_matched empty;

	nvtx_filter_begin(f, empty.v);
	for (size_t i = 0; v && i < d->n_ranges; i++) {
		const struct gpuctr_range *g = &d->ranges[i];
		size_t parent = g->parent ? (size_t)(g->parent - d->ranges) : 0;

		nvtx_filter_advance(f, g->parent ? v + parent * f->n_terms : empty.v,
				    v + i * f->n_terms, g->domain, g->message);
	}
	return v;
}

bool ranges_select(struct nvtx_filter *f, const struct store_definitions *d,
		   const uint64_t *matches, const struct gpuctr_record *record)
{
	struct nvtx_matched empty, started = { { 0 } };
	const uint64_t *state = empty.v;

	nvtx_filter_note_launch(f);
	if (!nvtx_filter_is_used(f)) {
		return true;
	}
	if (record->range) {
		state = matches + (size_t)(record->range - d->ranges) * f->n_terms;
	} else {
		nvtx_filter_begin(f, empty.v);
	}
	for (size_t i = 0; i < record->n_active; i++) {
		nvtx_filter_add(f, started.v, record->active[i]->domain,
				record->active[i]->message);
	}
	return nvtx_filter_selects(f, state, started.v);
}
