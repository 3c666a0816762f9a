/* SPDX-License-Identifier: Apache-2.0 */

/* A hash table: a program may start a thread for each of many tasks. */

#include "client/report/tracks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/report/texts.h"

enum { FIRST_SLOTS = 64, FIRST_OPEN = 16 };

static void free_track(struct track *track)
{
	for (size_t i = 0; i < track->max_open; i++) {
		buf_deinit(&track->open[i].text);
	}
	free(track->open);
	free(track);
}

void tracks_deinit(struct tracks *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free_track(t->items[i]);
	}
	free(t->items);
	free(t->slots);
	*t = (struct tracks){ 0 };
}

static struct track **find_slot(struct track **slots, size_t n_slots, enum track_kind kind,
				unsigned device, uint64_t id)
{
	size_t i = texts_mix(texts_mix(kind, device), id) & (n_slots - 1);

	while (slots[i] &&
	       (slots[i]->id != id || slots[i]->kind != kind || slots[i]->device != device)) {
		i = (i + 1) & (n_slots - 1);
	}
	return &slots[i];
}

/* At most half full. */
static int grow(struct tracks *t)
{
	size_t n = t->n_slots ? t->n_slots * 2 : FIRST_SLOTS;
	struct track **slots = calloc(n, sizeof(struct track *));
	struct track **items = realloc(t->items, n / 2 * sizeof(struct track *));

	t->items = items ? items : t->items;
	if (!slots || !items) {
		free(slots);
		return -ENOMEM;
	}
	for (size_t i = 0; i < t->n; i++) {
		struct track *track = t->items[i];

		*find_slot(slots, n, track->kind, track->device, track->id) = track;
	}
	free(t->slots);
	t->slots = slots;
	t->n_slots = n;
	t->max = n / 2;
	return 0;
}

struct track *tracks_get(struct tracks *t, enum track_kind kind, unsigned device, uint64_t id,
			 bool *ret_fresh)
{
	struct track **slot;

	*ret_fresh = false;
	if (t->n == t->max && grow(t)) {
		return NULL;
	}
	slot = find_slot(t->slots, t->n_slots, kind, device, id);
	if (!*slot) {
		*slot = calloc(1, sizeof(struct track));
		if (!*slot) {
			return NULL;
		}
		**slot = (struct track){
			.kind = kind, .device = device, .id = id, .end = INT64_MIN / 2
		};
		t->items[t->n++] = *slot;
		*ret_fresh = true;
	}
	return *slot;
}

struct track_range *track_push(struct track *track, unsigned id, int64_t begin)
{
	struct track_range *range;

	if (track->n_open == track->max_open) {
		size_t max = track->max_open ? track->max_open * 2 : FIRST_OPEN;
		struct track_range *open = realloc(track->open, max * sizeof(*open));

		if (!open) {
			return NULL;
		}
		memset(open + track->max_open, 0, (max - track->max_open) * sizeof(*open));
		track->open = open;
		track->max_open = max;
	}
	range = &track->open[track->n_open++];
	range->id = id;
	range->begin = begin;
	buf_clear(&range->text);
	return range;
}

void track_find_path(const struct track *thread, const struct gpuctr_range *innermost,
		     struct track_path *path)
{
	const struct gpuctr_range *range = innermost;

	path->n = 0;
	for (; range && path->n < TRACK_MAX_DEPTH; range = range->parent) {
		path->n++;
	}
	range = innermost;
	for (size_t i = path->n; i > 0; i--, range = range->parent) {
		path->ranges[i - 1] = range;
	}
	for (path->n_same = 0; path->n_same < path->n && path->n_same < thread->n_open;
	     path->n_same++) {
		if (path->ranges[path->n_same]->id != thread->open[path->n_same].id) {
			break;
		}
	}
}
