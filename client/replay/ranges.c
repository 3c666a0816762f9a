/* SPDX-License-Identifier: Apache-2.0 */
#include "client/replay/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"
#include "proto/base/buf.h"
#include "proto/base/numbers.h"
#include "proto/base/site_name.h"

/* A file may nest sites to any depth, so there is no recursion. */

struct known {
	unsigned id;
	uint32_t number;
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

/* Numbers a site. parent: new number of the site around it; 0: none. NULL: out of memory. */
static const struct known *define(struct ranges *r, uint32_t parent, const struct gpuctr_site *site)
{
	const struct site_text text = {
		.parent = parent,
		.domain = site->domain,
		.name = site->name,
		.n_name = strlen(site->name),
		.sizes = site->sizes,
		.n_sizes = strlen(site->sizes),
		.category = site->category,
		.color = site->color,
		.kind = (uint8_t)site->kind,
		.numbered = (uint8_t)site->numbered,
	};
	struct known *k = malloc(sizeof(*k));

	if (!k || map_add(&r->known, map_mix(0, site->id), k) < 0) {
		free(k);
		return NULL;
	}
	*k = (struct known){ site->id, intern_site(r->intern, &text) };
	return k;
}

/* False: out of memory. */
static bool add_to_chain(struct ranges *r, const struct gpuctr_site *site, size_t n)
{
	if (!array_make_room(&r->chain, sizeof(*r->chain), n, &r->max_chain)) {
		return false;
	}
	r->chain[n] = site;
	return true;
}

uint32_t ranges_number(struct ranges *r, const struct gpuctr_site *site)
{
	const struct known *k = NULL;
	size_t n = 0;

	for (; site && !(k = map_find(&r->known, map_mix(0, site->id), has_id, &site->id));
	     site = site->parent) {
		if (!add_to_chain(r, site, n++)) {
			return 0;
		}
	}
	while (n > 0) {
		k = define(r, k ? k->number : 0, r->chain[--n]);
		if (!k) {
			return 0;
		}
	}
	return k ? k->number : 0;
}

void ranges_path(struct ranges *r, const struct gpuctr_record *record, struct site_path *ret)
{
	const struct gpuctr_site *site = record->site;
	int64_t before = 0;

	*ret = (struct site_path){ .site = ranges_number(r, site),
				   .opened = record->opened,
				   .payload_type = record->at.payload_type,
				   .payload = record->at.payload };
	for (unsigned i = 0; site && i < site->n_numbers; i++) {
		size_t n = numbers_encode(ret->numbers + ret->n_numbers,
					  sizeof(ret->numbers) - ret->n_numbers, before,
					  record->at.numbers[i]);

		if (n == 0) {
			break;
		}
		ret->n_numbers += (uint8_t)n;
		before = record->at.numbers[i];
	}
}

/* Fills state with how the ranges around the launch match. False: out of memory. */
static bool match_path(struct ranges *r, const struct gpuctr_record *record,
		       struct nvtx_matched *state)
{
	CLEAN_BUF struct buf text = { 0 };
	struct nvtx_matched below;
	size_t n = 0;

	for (const struct gpuctr_site *site = record->site; site; site = site->parent) {
		if (!add_to_chain(r, site, n++)) {
			return false;
		}
	}
	while (n > 0 && !text.failed) {
		const struct gpuctr_site *site = r->chain[--n];

		below = *state;
		buf_clear(&text);
		site_name_format(&text, site->name, site->sizes, (enum site_number)site->numbered,
				 gpuctr_site_number(site, &record->at));
		nvtx_filter_advance(r->filter, below.v, state->v, site->domain, buf_string(&text));
	}
	return !text.failed;
}

bool ranges_select(struct ranges *r, const struct gpuctr_record *record)
{
	struct nvtx_filter *f = r->filter;
	struct nvtx_matched around, started = { { 0 } };

	nvtx_filter_note_launch(f);
	if (!nvtx_filter_is_used(f)) {
		return true;
	}
	nvtx_filter_begin(f, around.v);
	if (!match_path(r, record, &around)) {
		return false;
	}
	for (size_t i = 0; i < record->n_active; i++) {
		nvtx_filter_add(f, started.v, record->active[i]->domain, record->active[i]->name);
	}
	return nvtx_filter_selects(f, around.v, started.v);
}
