/* SPDX-License-Identifier: Apache-2.0 */

#include "client/report/tracks.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/array.h"

unsigned lanes_take(struct lanes *l, int64_t begin, int64_t length, bool *ret_fresh)
{
	unsigned lane = 0;

	while (lane < l->n && l->ends[lane] > begin) {
		lane++;
	}
	*ret_fresh = lane == l->n && lane < LANES_MAX;
	l->n += *ret_fresh;
	l->crowded += lane == LANES_MAX;
	lane = lane < LANES_MAX ? lane : LANES_MAX - 1;
	if (__builtin_add_overflow(begin, length, &l->ends[lane])) {
		l->ends[lane] = INT64_MAX;
	}
	return lane;
}

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
	map_deinit(&t->known);
	*t = (struct tracks){ 0 };
}

static bool is_track(const void *item, const void *key)
{
	const struct track *a = item, *b = key;

	return a->id == b->id && a->kind == b->kind && a->device == b->device;
}

struct track *tracks_get(struct tracks *t, enum track_kind kind, unsigned device, uint64_t id,
			 bool *ret_fresh)
{
	const struct track wanted = { .kind = kind, .device = device, .id = id, .number = t->n };
	uint64_t hash = map_mix(map_mix(kind, device), id);
	struct track *track = map_find(&t->known, hash, is_track, &wanted);

	*ret_fresh = false;
	if (track) {
		return track;
	}
	track = array_make_room(&t->items, sizeof(*t->items), t->n, &t->max)
			? malloc(sizeof(*track))
			: NULL;
	if (!track || map_add(&t->known, hash, track)) {
		free(track);
		return NULL;
	}
	*track = wanted;
	t->items[t->n++] = track;
	*ret_fresh = true;
	return track;
}

struct track_range *track_push(struct track *track, unsigned id, int64_t begin)
{
	struct track_range *range;

	size_t had = track->max_open;

	if (!array_make_room(&track->open, sizeof(*range), track->n_open, &track->max_open)) {
		return NULL;
	}
	memset(track->open + had, 0, (track->max_open - had) * sizeof(*range));
	range = &track->open[track->n_open++];
	range->id = id;
	range->begin = begin;
	buf_clear(&range->text);
	return range;
}

void track_find_path(const struct track *thread, const struct gpuctr_record *record,
		     struct track_path *path)
{
	const struct gpuctr_site *site = record->site;

	path->n = 0;
	for (; site && path->n < TRACK_MAX_DEPTH; site = site->parent) {
		path->n++;
	}
	site = record->site;
	for (size_t i = path->n; i > 0; i--, site = site->parent) {
		path->sites[i - 1] = site;
	}
	for (path->n_same = 0; path->n_same < path->n && path->n_same < thread->n_open;
	     path->n_same++) {
		site = path->sites[path->n_same];
		if (site->depth >= record->opened || site->id != thread->open[path->n_same].id) {
			break;
		}
	}
}
